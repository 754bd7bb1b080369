"""How many of the module classes of real code a search finds inputs for.

    PYTHON tests/benchmarks/reach.py [--every N] [--given] [--seconds S] WHAT…

WHAT is a module of an installed package (``torchvision.models.resnet``), such a package with all
that is below it (``timm.models.*``), or files and folders of Python code. PYTHON has the packages.
Every class is searched for alone, in a fork, without what its users call it with. What is found
is then run on real tensors. With ``--given`` files that have inputs of their own (``get_inputs``)
are traced with those as well, and their breaks are compared. Prints what was not found and why, the
counts, and the times.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import importlib.util
import logging
import pkgutil
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).parent)]
sys.path.append(str(ROOT / "engine"))
warnings.simplefilter("ignore")
logging.disable(logging.ERROR)

import torch  # noqa: E402

from fullgraph_engine import targets, tracing  # noqa: E402
from fullgraph_engine.findings import run_target  # noqa: E402
from fullgraph_engine.host.process_backends.branches import Branches  # noqa: E402
from fullgraph_engine.targets import notation, notation_parser, searched  # noqa: E402
from fullgraph_engine.targets.synthesis import FoundInputs, InputSearch  # noqa: E402

HIDDEN = ("get_inputs", "get_init_inputs")


@dataclass(frozen=True)
class Result:
    """``real`` and ``breaks`` are empty where all is well, else what is not."""

    found: bool = False
    tries: int = 0
    seconds: float = 0.0
    words: str = ""
    real: str = ""
    breaks: str = ""
    compared: bool = False


# -- in a fork ----------------------------------------------------------------------------------


def search(name: str, module: ModuleType, seconds: float, *, given: bool) -> Result:
    namespace = dict(vars(module))
    before = breaks(name, module, namespace) if given else None
    for hidden in HIDDEN:
        namespace.pop(hidden, None)
    with tracing.tensor_mode(True):
        found = InputSearch(namespace[name], namespace).run(seconds)
    if not isinstance(found, FoundInputs):
        return Result(False, found.tries, found.seconds, found.obstacle)
    comment = notation.show_notation(found.notation)
    searched.known[name] = comment
    after = breaks(name, module, namespace) if before is not None else None
    real = ""
    try:
        said = notation_parser.parse_probe(comment)
        init = targets.tensors.build_inputs(said.init or notation.Arguments(), {}, namespace)
        inputs = targets.tensors.build_inputs(said.inputs or notation.Arguments(), {}, namespace)
        with torch.no_grad():
            namespace[name](*init.args, **init.kwargs)(*inputs.args, **inputs.kwargs)
    except Exception as error:
        real = f"{type(error).__name__}: {error}"[:160]
    differs = "" if before == after else f"{before} with its own inputs, {after} with those found"
    return Result(True, found.tries, found.seconds, comment, real, differs, before is not None)


def breaks(name: str, module: ModuleType, namespace: dict[str, Any]) -> list[str] | None:
    """Codes and lines of the breaks of a target; None if it is not traced."""
    path = str(module.__file__)
    text = Path(path).read_text()
    found = {target.name: target for target in targets.discover(text, path).targets}
    if name not in found:
        return None
    probes = targets.plan_probes(found[name], namespace)
    if not probes:
        return None
    torch._dynamo.reset()
    tracee = targets.Tracee(found[name], probes[0], namespace, path, text, "fake")
    outcome = run_target(tracee, "first", lambda _: None)
    if outcome.report.status != "traced":
        return None
    return sorted(
        f"{finding.code}:{finding.range.start.line + 1}"
        for finding in outcome.findings
        if finding.code.startswith("graph-break/")
    )


# -- what there is ------------------------------------------------------------------------------


def modules_of(what: str) -> Iterator[tuple[str, Callable[[], ModuleType]]]:
    path = Path(what)
    if path.suffix == ".py":
        yield path.name, lambda: of_file(path)
    elif path.is_dir():
        for file in sorted(path.rglob("*.py")):
            yield str(file.relative_to(path)), lambda file=file: of_file(file)
    elif what.endswith(".*"):
        package = importlib.import_module(what[:-2])
        for one in pkgutil.walk_packages(package.__path__, f"{what[:-2]}."):
            yield one.name, lambda one=one: importlib.import_module(one.name)
    else:
        yield what, lambda: importlib.import_module(what)


def of_file(path: Path) -> ModuleType:
    name = "reached_" + "".join(c if c.isalnum() else "_" for c in path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def classes_of(module: ModuleType) -> Iterator[str]:
    """Module classes that the module defines and that are targets: no abstract ones."""
    path = str(module.__file__)
    named = {target.name for target in targets.discover(Path(path).read_text(), path).targets}
    has_inputs = all(hasattr(module, name) for name in HIDDEN)
    for name, value in list(vars(module).items()):
        if not isinstance(value, type) or not issubclass(value, torch.nn.Module):
            continue
        if value.__module__ != module.__name__ or value.__name__ != name or name not in named:
            continue
        if value.forward is torch.nn.Module.forward or (has_inputs and name != "Model"):
            continue
        yield name


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="+")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=searched.SECONDS)
    parser.add_argument("--given", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tracing.warm_up()
    results: list[Result] = []
    number = 0
    for what in options.what:
        for label, load in modules_of(what):
            try:
                with contextlib.redirect_stdout(None):
                    module = load()
                names = list(classes_of(module))
            except BaseException as error:
                print(f"not imported: {label}: {type(error).__name__}: {str(error)[:120]}")
                continue
            for name in names:
                number += 1
                if number % options.every:
                    continue
                work = functools.partial(search, name, module, options.seconds, given=options.given)
                answer = Branches()(work, 4 * options.seconds)
                result = answer.value or Result(words=answer.lost)
                results.append(result)
                said = result.real or result.breaks
                if not result.found or said:
                    lacking = "" if result.found else "not found, "
                    print(f"{label}:{name}: {lacking}{said or result.words}")
    found = [result for result in results if result.found]
    real = [result for result in found if not result.real]
    times = sorted(result.seconds for result in found) or [0.0]
    whole = max(len(results), 1)
    print(
        f"{len(results)} classes: inputs found for {len(found)} ({len(found) / whole:.1%}), "
        f"running on real tensors for {len(real)} ({len(real) / whole:.1%}); seconds: median "
        f"{statistics.median(times):.2f}, 95th percentile {times[int(len(times) * 0.95)]:.2f}"
    )
    compared = [result for result in found if result.compared]
    if compared:
        same = sum(not result.breaks for result in compared)
        print(f"breaks as with the inputs of the file: {same} of {len(compared)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
