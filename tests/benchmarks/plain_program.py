"""Run a program under plain torch and write what Dynamo reports in its structured trace as JSON.

``python plain_program.py OUT PROGRAM``. Graphs are captured and run eagerly, whatever backend the
program asks for, and random number generators are seeded as ``fullgraph check`` seeds them, so that
the figures compare.
"""

from __future__ import annotations

import json
import logging
import random
import re
import runpy
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch._logging import _internal

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


class Trace(logging.Handler):
    """Collects graph breaks and compilations from the structured trace of torch."""

    def __init__(self, folder: str) -> None:
        super().__init__(logging.DEBUG)
        self.folder = folder
        self.breaks: set[tuple[str, int]] = set()
        self.recompiled: set[tuple[str, str]] = set()
        self.graphs = 0

    def emit(self, record: logging.LogRecord) -> None:
        metadata: dict[str, Any] = getattr(record, "metadata", {})
        artifact = metadata.get("artifact", {}).get("name", "")
        if "dynamo_output_graph" in metadata:
            self.graphs += 1
        elif artifact == "dynamo_graph_break_reason":
            own = [
                (path, int(line))
                for path, line in _FRAME.findall(str(record.payload))  # type: ignore[attr-defined]
                if path.startswith(self.folder) and "site-packages" not in path
            ]
            self.breaks.update(own[-1:])
        metrics = metadata.get("compilation_metrics", {})
        path = str(metrics.get("co_filename", ""))
        if metrics.get("recompile_reason") and path.startswith(self.folder):
            name = re.sub(r"^torch_dynamo_resume_in_(.+)_at_\d+$", r"\1", metrics["co_name"])
            self.recompiled.add((path, name))


def main(out: str, program: str) -> None:
    path = Path(program).resolve()
    trace = Trace(str(path.parent))
    _internal.trace_log.addHandler(trace)
    _internal.trace_log.setLevel(logging.DEBUG)
    compile_ = torch.compile

    def eager(model: Any = None, **options: Any) -> Any:
        for name in ("mode", "options"):
            options.pop(name, None)
        return compile_(model, **{**options, "backend": "eager"})

    torch.compile = eager  # type: ignore[assignment]
    sys.argv, sys.path[0] = [program], str(path.parent)
    torch.manual_seed(0)
    random.seed(0)
    began, raised = time.monotonic(), ""
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit:
        pass
    except BaseException as error:
        raised = type(error).__name__
    found = {
        "breaks": sorted(trace.breaks),
        "recompiled": sorted(trace.recompiled),
        "graphs": trace.graphs,
        "raised": raised,
        "seconds": time.monotonic() - began,
    }
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
