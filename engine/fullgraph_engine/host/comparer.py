"""A process without user code that compares what two versions of a file did when they were called
with equal inputs."""

from __future__ import annotations

import os
import traceback
from typing import NoReturn

from ..protocol import Log
from . import wire
from .permissions import Permissions
from .pipeline import ReproPipeline
from .process_backends import descriptors
from .reducer import enter_sandbox
from .wire import ComparisonOrder

_exit = os._exit


def main(
    order: ComparisonOrder,
    report: int,
    pipeline: ReproPipeline,
    user_path: list[str],
    permissions: Permissions,
) -> NoReturn:
    """Compare the files in which two versions of a target recorded their calls, send the result to
    ``report`` and exit.

    The files may be forged, since user code can write to them.
    """
    report = descriptors.move_to_end(report)
    request, analyze = order.request, order.request.analyze
    try:
        memory = analyze.limits.memory
        enter_sandbox(order.scratch, "", (), user_path, pipeline, permissions, memory)
        judged = pipeline.judge_behavior(
            (analyze.text, request.changed),
            (order.lines, order.changed_lines),
            (order.original, order.changed),
            order.cases,
            order.ended,
        )
        wire.write_message(report, judged)
    except wire.ParentUnreachable:
        _exit(1)
    except BaseException:
        try:
            wire.write_message(report, Log(request.request, "engine", traceback.format_exc()))
        finally:
            _exit(1)
    _exit(0)
