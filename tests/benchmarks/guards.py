"""Compares recorded guards with those that TORCH_LOGS=guards prints, file by file.

    python guards.py [--real] [--seconds 120] FILE...

Each file is traced twice in processes of its own: by a plain ``torch.compile`` whose log is read
back, and by our tracer. Both see fake tensors unless ``--real`` is given.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "engine")]

import plain  # noqa: E402

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


def apart(path: str, ours: bool, fake: bool, seconds: int) -> dict[str, Any]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        signal.alarm(seconds)
        try:
            result = guards_of(path, ours, fake)
        except BaseException as error:
            result = {"error": f"{type(error).__name__}: {error}"[:200]}
        with os.fdopen(write, "w") as pipe:
            json.dump(result, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return dict(json.loads(text)) if text else {"error": "ended"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    import torch
    import torch._dynamo

    from fullgraph_engine import tracing  # noqa: F401

    torch.set_num_threads(1)
    files = targets = printed = lost = invented = 0
    for path in options.files:
        one, other = (
            apart(path, ours, not options.real, options.seconds) for ours in (False, True)
        )
        if "error" in one or "error" in other:
            print(f"{path}: {one.get('error')} / {other.get('error')}")
            continue
        files += 1
        for name, plainly in one.items():
            said, ours = Counter(plainly), Counter(other[name])
            targets += 1
            printed += sum(said.values())
            for word, difference in (("lost", said - ours), ("invented", ours - said)):
                for guard, count in difference.items():
                    print(f"{path} {name}: {word} x{count} {guard[:300]}")
            lost += sum((said - ours).values())
            invented += sum((ours - said).values())
    print(f"{files} files, {targets} targets, {printed} printed, {lost} lost, {invented} invented")


if __name__ == "__main__":
    main()
