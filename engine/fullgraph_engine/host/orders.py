"""What a process does that was started for one thing: execute a text, make a program smaller, or
complete the operator index."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn

from . import inventory, module, reducer
from .pipeline import Pipeline
from .process_backends import Waiting
from .process_backends.channels import Given
from .wire import Job, Order, Reduction


def perform(
    order: Order,
    given: Given,
    pipeline: Pipeline,
    user_path: list[str],
    serving: Callable[[int, int, Callable[[bool], None]], Waiting],
) -> NoReturn:
    """Never returns. ``serving`` makes what waits for commands in a module process."""
    try:
        if isinstance(order, Job):
            module.main(order, given, pipeline, user_path, serving)
        elif isinstance(order, Reduction):
            reducer.main(order, given.report, pipeline, user_path)
        else:
            inventory.survey(order, given.report, pipeline)
    finally:
        os._exit(1)
