"""Perform the order of a process: execute a module or a program, minimize, compare, or build the
operator index."""

from __future__ import annotations

import gc
import os
from typing import NoReturn

from . import comparer, index_builder, module_process, program_process, reducer
from .permissions import Permissions
from .pipeline import Pipeline
from .process_backends import descriptors, limits, processes, spare
from .process_backends.channels import ProcessEnds
from .process_backends.spare import Starter
from .process_backends.spawning import Spares
from .real_pipeline import choose_pipeline
from .wire import ComparisonOrder, ModuleOrder, Order, ProgramOrder, ReductionOrder, TrialOrder


def perform_order(
    order: Order,
    ends: ProcessEnds,
    pipeline: Pipeline,
    user_path: list[str],
    permissions: Permissions,
    *,
    forks: bool,
    option: str = "",
) -> NoReturn:
    """Perform an order (such as executing a file, or a minimization) in this process, and exit.

    ``forks``: processes can be forked. Otherwise this process starts new interpreters, and
    ``option`` tells them which pipeline to use (see ``real_pipeline.choose_pipeline``).
    """
    try:
        if isinstance(order, ModuleOrder):
            module_process.main(order, ends, pipeline, user_path, permissions, forks=forks)
        elif isinstance(order, ProgramOrder):
            program_process.main(order, ends, pipeline, user_path, permissions)
        elif isinstance(order, ReductionOrder):
            spares = None if forks else Spares(Starter(option, permissions))
            reducer.main(order, ends.report, pipeline, user_path, permissions, spares)
        elif isinstance(order, ComparisonOrder):
            comparer.main(order, ends.report, pipeline, user_path, permissions)
        elif isinstance(order, TrialOrder):
            reducer.try_candidate(order, ends.report, pipeline, user_path, permissions)
        else:
            index_builder.complete_index(order, ends.report, pipeline)
    finally:
        os._exit(1)


def await_order(beginning: str, user_path: list[str], pipeline: str) -> NoReturn:
    """Prepare a newly started interpreter, wait for one order (such as executing a file), perform
    it and exit.

    ``beginning`` holds the startup parameters that ``spare.Starter`` passed to it.
    """
    ends, parent, permissions = spare.decode_beginning(beginning)
    descriptors.fill_standard()
    limits.ignore_interrupts()
    ends.raise_all()
    ends.raise_streams()
    processes.die_with(parent)
    gc.disable()
    stages = choose_pipeline(pipeline)
    stages.torch_version()
    stages.warm_up()
    gc.freeze()
    gc.enable()
    order = spare.next_order(ends.control)
    perform_order(order, ends, stages, user_path, permissions, forks=False, option=pipeline)
