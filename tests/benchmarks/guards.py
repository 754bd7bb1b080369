"""Compares recorded guards with those that TORCH_LOGS=guards prints, file by file.

    python guards.py [--real] [--seconds N] [--memory GIB] [--keep RESULTS] FILE...

Each file is traced twice in processes of its own: by a plain ``torch.compile`` whose log is read
back, and by our tracer. Both see fake tensors unless ``--real`` is given.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "engine")]

import plain  # noqa: E402
import survey  # noqa: E402

LEAF = re.compile(r"^(?:\| )*\+- (?P<kind>[A-Z_]+): (?P<words>.*)$", re.M)
NUMBER = re.compile(r"\b\d{7,}\b|(?<=__builtins_dict___)\d+|_[0-9a-f]{8,}\b|0x[0-9a-f]+|_c\d+\b")


class Trees(logging.Handler):
    """Collects the leaves of every guard tree that is logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        for match in LEAF.finditer(record.getMessage()):
            words = match["words"].partition("  # ")[0].partition(" (HINT: ")[0]
            self.found.append(f"{match['kind']}: {settled(words)}")


def settled(words: str) -> str:
    return NUMBER.sub("N", words.rstrip())


def guards_of(path: str, ours: bool, fake: bool) -> dict[str, Any]:
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
            found[name] = (recorded if ours else logged)(model, args, kwargs)
    return found


def recorded(model: Any, args: Any, kwargs: Any) -> list[str]:
    from fullgraph_engine import tracing

    recording = tracing.trace(model, args, kwargs)
    return [
        f"{guard.kind}: {settled(expression)}"
        for guard in recording.guards
        for expression in guard.expressions
    ]


def logged(model: Any, args: Any, kwargs: Any) -> list[str]:
    import contextlib

    import torch

    torch._logging.set_logs(guards=True)
    handler = Trees()
    log = logging.getLogger("torch._dynamo.guards.__guards")
    log.addHandler(handler)
    with contextlib.suppress(Exception):
        torch.compile(model, backend="eager")(*args, **kwargs)
    log.removeHandler(handler)
    return handler.found


def plain_run(path: str) -> dict[str, Any]:
    return guards_of(path, ours=False, fake=True)


def our_run(path: str) -> dict[str, Any]:
    return guards_of(path, ours=True, fake=True)


def plain_run_on_real_tensors(path: str) -> dict[str, Any]:
    return guards_of(path, ours=False, fake=False)


def our_run_on_real_tensors(path: str) -> dict[str, Any]:
    return guards_of(path, ours=True, fake=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    survey.options(parser, seconds=120.0)
    parser.add_argument("--real", action="store_true", help="trace with real tensors")
    options = parser.parse_args()
    import torch
    import torch._dynamo

    from fullgraph_engine import tracing  # noqa: F401

    torch.set_num_threads(1)
    plainly, by_us = plain_run, our_run
    if options.real:
        plainly, by_us = plain_run_on_real_tensors, our_run_on_real_tensors
    files = targets = printed = lost = invented = 0
    pairs = zip(survey.survey(plainly, options), survey.survey(by_us, options), strict=True)
    for (path, one), (_, other) in pairs:
        if "error" in one or "error" in other:
            print(f"{path}: left out: {one.get('error')} / {other.get('error')}", flush=True)
            continue
        files += 1
        print(f"{path}: {', '.join(f'{len(said)} in {name}' for name, said in one.items())}")
        for name, printed_here in one.items():
            said, ours = Counter(printed_here), Counter(other[name])
            targets += 1
            printed += sum(said.values())
            for word, difference in (("lost", said - ours), ("invented", ours - said)):
                for guard, count in difference.items():
                    print(f"    {name}: {word} x{count} {guard[:300]}")
            lost += sum((said - ours).values())
            invented += sum((ours - said).values())
        sys.stdout.flush()
    print(f"{files} files, {targets} targets, {printed} printed, {lost} lost, {invented} invented")
    return 1 if lost or invented else 0


if __name__ == "__main__":
    sys.exit(main())
