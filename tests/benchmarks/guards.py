"""Compares recorded guards with those that TORCH_LOGS=guards prints, file by file.

    python guards.py [--real | --mixed] [--dynamic] [--keep RESULTS] FILE...

Each file is traced twice in processes of its own: by a plain ``torch.compile`` whose log is read
back, and by our tracer. Both see fake tensors unless ``--real`` is given; with ``--mixed`` only
ours does, as usual, and what a guard says of a tensor's class and keys is not compared. With
``--dynamic`` the first dimensions of the inputs are marked.

To log guards changes them: Dynamo then keeps a stack with each, and drops one that another makes
needless only where it is equal to it, stack and all. What differs is therefore compared once more,
with the tree that Dynamo builds when it does not log, and counted apart if it is the same.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "engine")]

import plain  # noqa: E402
import survey  # noqa: E402

LEAF = re.compile(r"^(?:\| )*\+- (?P<kind>[A-Z_]+): (?P<words>.*)$", re.M)
NUMBER = re.compile(
    r"_\d{7,}_c\d+\b|\b\d{7,}\b|(?<=__builtins_dict___)\d+|_[0-9a-f]{8,}\b|0x[0-9a-f]+|_c\d+\b"
)


TENSOR_CLASS = re.compile(
    r"<class '[\w.]+\.(?:FakeTensor|Tensor|Parameter)'>"
    r"|\b(?:FakeTensor|Tensor|Parameter)(?=, DispatchKeySet)"
)
FAKE_KEY = re.compile(r", Python(?:TLSSnapshot)?\b")


class Trees(logging.Handler):
    """Collects the leaves of every guard tree that is logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.read(record.getMessage())

    def read(self, tree: str) -> None:
        for match in LEAF.finditer(tree):
            words = match["words"].partition("  # ")[0].partition(" (HINT: ")[0]
            self.found.append(f"{match['kind']}: {settled(words)}")


def settled(words: str) -> str:
    return NUMBER.sub("N", words.rstrip())


Read = Callable[[Any, Any, Any, "list[tuple[Any, int]]"], "list[str]"]
"""Of a callable, its arguments, and the dimensions that are to be dynamic."""


def guards_of(path: str, read: Read, fake: bool, dynamic: bool) -> dict[str, Any]:
    import torch

    from fullgraph_engine import tracing

    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: dict[str, Any] = {}
    for name, make in plain.targets_of(module).items():
        torch._dynamo.reset()
        torch.manual_seed(0)
        with tracing.tensor_mode(fake):
            model, args, kwargs = make()
            tensors = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
            sizable = [one for one in tensors if one.dim() and one.shape[0] > 1]
            found[name] = read(model, args, kwargs, [(one, 0) for one in sizable if dynamic])
    return found


def recorded(model: Any, args: Any, kwargs: Any, dynamic: list[tuple[Any, int]]) -> list[str]:
    from fullgraph_engine import tracing

    recording = tracing.trace(model, args, kwargs, dynamic=dynamic)
    return [
        f"{guard.kind}: {settled(expression)}"
        for guard in recording.guards
        for expression in guard.expressions
    ]


def logged(model: Any, args: Any, kwargs: Any, dynamic: list[tuple[Any, int]]) -> list[str]:
    import torch

    torch._logging.set_logs(guards=True)
    handler = Trees()
    log = logging.getLogger("torch._dynamo.guards.__guards")
    log.addHandler(handler)
    plainly(model, args, kwargs, dynamic)
    log.removeHandler(handler)
    return handler.found


def plainly(model: Any, args: Any, kwargs: Any, dynamic: list[tuple[Any, int]]) -> None:
    import contextlib

    import torch

    for tensor, dim in dynamic:
        torch._dynamo.maybe_mark_dynamic(tensor, dim)
    with contextlib.suppress(Exception):
        torch.compile(model, backend="eager")(*args, **kwargs)


def built(model: Any, args: Any, kwargs: Any, dynamic: list[tuple[Any, int]]) -> list[str]:
    """What would be printed, of a run that prints nothing."""
    import unittest.mock

    from torch._dynamo.guards import CheckFunctionManager

    trees = Trees()
    original = CheckFunctionManager.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        trees.read(str(self.guard_manager))

    with unittest.mock.patch.object(CheckFunctionManager, "__init__", init):
        plainly(model, args, kwargs, dynamic)
    return trees.found


def of_any_tensor(words: str) -> str:
    return FAKE_KEY.sub("", TENSOR_CLASS.sub("a tensor", words))


def work(read: Read, options: argparse.Namespace) -> Callable[[str], dict[str, Any]]:
    real = options.real or (options.mixed and read is not recorded)

    def run(path: str) -> dict[str, Any]:
        return guards_of(path, read, not real, options.dynamic)

    ways = [way for way, wanted in (("real", real), ("dynamic", options.dynamic)) if wanted]
    run.__name__ = ", ".join([read.__name__, *ways])
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    survey.options(parser, seconds=120.0)
    tensors = parser.add_mutually_exclusive_group()
    tensors.add_argument("--real", action="store_true", help="trace with real tensors")
    tensors.add_argument("--mixed", action="store_true", help="only the plain run with real ones")
    parser.add_argument("--dynamic", action="store_true", help="mark batch dimensions")
    options = parser.parse_args()
    if "PYTHONHASHSEED" not in os.environ:
        # Sets are printed in the order of their hashes, and what is kept is of another process.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    import torch
    import torch._dynamo

    from fullgraph_engine import tracing  # noqa: F401

    torch.set_num_threads(1)
    told = of_any_tensor if options.mixed else str
    files = targets = printed = lost = invented = logging_only = 0
    plain_runs = survey.survey(work(logged, options), options)
    our_runs = survey.survey(work(recorded, options), options)
    for (path, one), (_, other) in zip(plain_runs, our_runs, strict=True):
        if "error" in one or "error" in other:
            print(f"{path}: left out: {one.get('error')} / {other.get('error')}", flush=True)
            continue
        files += 1
        print(f"{path}: {', '.join(f'{len(said)} in {name}' for name, said in one.items())}")
        silent: dict[str, Any] | None = None
        for name, printed_here in one.items():
            said, ours = Counter(map(told, printed_here)), Counter(map(told, other[name]))
            targets += 1
            printed += sum(said.values())
            if said != ours:
                if silent is None:
                    silent = survey.apart(work(built, options), path, options.seconds)
                if Counter(map(told, silent.get(name, ()))) == ours:
                    for guard in (said - ours) + (ours - said):
                        print(f"    {name}: only while it is logged: {guard[:300]}")
                    logging_only += 1
                    continue
            for word, difference in (("lost", said - ours), ("invented", ours - said)):
                for guard, count in difference.items():
                    print(f"    {name}: {word} x{count} {guard[:300]}")
            lost += sum((said - ours).values())
            invented += sum((ours - said).values())
        sys.stdout.flush()
    print(
        f"{files} files, {targets} targets, {printed} printed, {lost} lost, {invented} invented; "
        f"{logging_only} targets whose guards the log itself changes"
    )
    return 1 if lost or invented else 0


if __name__ == "__main__":
    sys.exit(main())
