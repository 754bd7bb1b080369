"""A process without user code that compares what runs of two texts have observed."""

from __future__ import annotations

import os
import traceback
from typing import NoReturn

from ..protocol import Log
from . import wire
from .permissions import Permissions
from .pipeline import Pipeline
from .process_backends import descriptors
from .reducer import entered
from .wire import Judgment

_exit = os._exit


def main(
    order: Judgment,
    report: int,
    pipeline: Pipeline,
    user_path: list[str],
    permissions: Permissions,
) -> NoReturn:
    """Never returns. What it reads may have been written by user code."""
    report = descriptors.raised(report)
    request, analyze = order.request, order.request.analyze
    try:
        memory = analyze.limits.memory
        entered(order.scratch, "", (), user_path, pipeline, permissions, memory)
        judged = pipeline.compare(
            (analyze.text, request.changed),
            (order.lines, order.changed_lines),
            (order.original, order.changed),
            order.cases,
            order.ended,
        )
        wire.report(report, judged)
    except wire.Lost:
        _exit(1)
    except BaseException:
        try:
            wire.report(report, Log(request.request, "engine", traceback.format_exc()))
        finally:
            _exit(1)
    _exit(0)
