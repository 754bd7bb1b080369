"""What a plain run of torch.compile says about a file: the reference that fullgraph is held to.

Uses nothing of fullgraph. Each file is loaded and run on real tensors in a process of its own,
forked from one that has only imported torch; the graph breaks are what ``TORCH_LOGS=graph_breaks``
would print, read back from the log records.

    python plain.py --seconds 120 FILE... > plain.jsonl

One JSON object a line: {"path", "targets": {name: {"breaks": [[code, line]], "error", "seconds"}},
"error"}. Lines are zero-based, and the innermost in the file itself.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import re
import resource
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

LINK = re.compile(r"compile-graph-break-site/gb/gb(\d+)\.html")
FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+), in ', re.M)
REASON = "Graph Break Reason: "
PREFIXES = (
    "Failed to handle graph break gracefully. Skipping the function and falling back to eager. "
    "Graph break encountered:",
    "Encountered graph break that we cannot resume from. Compiling up to the previous resumable "
    "state, then skipping the rest of the function. Graph break encountered:",
)


class Breaks(logging.Handler):
    """Collects (code, line) of every graph break that is logged."""

    def __init__(self, path: str) -> None:
        super().__init__(logging.DEBUG)
        self.path = path
        self.found: set[tuple[str, int]] = set()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self.texts.append(text)
        if "Graph break in user code at" not in text and "Graph break: torch.compile" not in text:
            return
        body, _, trace = text.partition("User code traceback:")
        if not trace:
            body, trace = text, text
        if record.exc_info and REASON not in body:
            body += f"\n{REASON}{record.exc_info[1]}"
        lines = [int(m["line"]) for m in FRAME.finditer(trace) if m["path"] == self.path]
        self.found.add((self.code(body), lines[-1] - 1 if lines else -1))

    @staticmethod
    def code(text: str) -> str:
        link = LINK.search(text)
        if link:
            return f"GB{link[1]}"
        reason = text.partition(REASON)[2]
        for prefix in PREFIXES:
            reason = reason.removeprefix(prefix)
        _, _, after = reason.partition(":\n\n") if ":\n\n" in reason[:200] else ("", "", reason)
        first = after.strip().split("\n")[0]
        return re.sub(r"[^a-z0-9]+", "-", first.lower()).strip("-")[:60].rstrip("-")


def targets_of(module: Any) -> dict[str, Any]:
    """Name to a function that gives (callable, args, kwargs), by the corpora's conventions."""
    import torch

    found: dict[str, Any] = {}
    if hasattr(module, "get_inputs") and hasattr(module, "Model"):

        def kernelbench() -> Any:
            init = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
            model = module.Model(**init) if isinstance(init, dict) else module.Model(*init)
            return model, tuple(module.get_inputs()), {}

        found["Model"] = kernelbench
    for name in dir(module):
        match = re.fullmatch(r"build(_\w+)?", name)
        example = getattr(module, f"example_input{match[1] or ''}", None) if match else None
        if match is None or example is None or not callable(getattr(module, name)):
            continue

        build = getattr(module, name)

        def pair(build: Any = build, example: Any = example) -> Any:
            model = build()
            value = example() if callable(example) else example
            if isinstance(value, dict):
                return model, (), value
            if isinstance(value, (tuple, list)):
                return model, tuple(value), {}
            assert isinstance(value, torch.Tensor), type(value)
            return model, (value,), {}

        found[f"{name}()"] = pair
    return found


def run_file(path: str, seconds: int) -> dict[str, Any]:
    """Load a file and run each of its targets, in this process."""
    import torch
    import torch._dynamo

    signal.alarm(seconds)
    result: dict[str, Any] = {"path": path, "targets": {}, "error": None}
    file = Path(path)
    root, name = file.parent, file.stem
    while (root / "__init__.py").exists():
        root, name = root.parent, f"{root.name}.{name}"
    sys.path.insert(0, str(root))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"
        return result
    torch._logging.set_logs(graph_breaks=True)
    # Dynamo prints the stack of a kind of break only once per location, and the location may be in
    # its own polyfills, the same for many lines of a program.
    torch._dynamo.symbolic_convert.graph_break_dup_warning_checker.add = lambda *_: True
    logger = logging.getLogger("torch._dynamo")
    for name, make in targets_of(module).items():
        handler = Breaks(path)
        # Artifact loggers do not propagate; every Dynamo logger gets the handler.
        loggers = [
            item
            for key, item in logging.Logger.manager.loggerDict.items()
            if key.startswith("torch._dynamo") and isinstance(item, logging.Logger)
        ]
        for item in [logger, *loggers]:
            item.addHandler(handler)
        torch._dynamo.reset()
        error = None
        started = time.perf_counter()
        try:
            torch.manual_seed(0)
            model, args, kwargs = make()
            torch.compile(model, backend="eager")(*args, **kwargs)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"[:500]
        for item in [logger, *loggers]:
            item.removeHandler(handler)
        result["targets"][name] = {
            "breaks": sorted(handler.found),
            "error": error,
            "seconds": time.perf_counter() - started,
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--memory", type=int, default=12, help="GiB")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    import torch
    import torch._dynamo
    import torch._dynamo.convert_frame

    torch.set_num_threads(1)
    out = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    for path in options.files:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            os.dup2(null, 1)
            os.dup2(null, 2)
            limit = options.memory << 30
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            result = run_file(str(Path(path).resolve()), options.seconds)
            with os.fdopen(write, "w") as pipe:
                json.dump(result, pipe)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            text = pipe.read()
        _, status = os.waitpid(child, 0)
        if not text:
            text = json.dumps(
                {"path": str(Path(path).resolve()), "targets": {}, "error": f"ended by {status}"}
            )
        os.write(out, text.encode() + b"\n")


if __name__ == "__main__":
    main()
