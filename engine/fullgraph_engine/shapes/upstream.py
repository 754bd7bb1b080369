"""The parts of torch's ShapeEnv on which this package depends.

Recording, replay and comparison are torch's own (``torch.fx.experimental.recording``). None of it
is a public interface; :mod:`..torch_internals.shapes` binds its names.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from ..torch_internals.frames import THREAD_STATE
from ..torch_internals.shapes import (
    REPLACEMENT,
    REPLAY,
    FakeTensorMeta,
    ShapeEnv,
    ShapeEnvEvent,
    config,
    name_of_source,
    recording,
    symbolic_shapes,
)

__all__ = [
    "FakeTensorMeta",
    "ShapeEnv",
    "ShapeEnvEvent",
    "apply_settings",
    "expression_of",
    "missing_names",
    "name_of_source",
    "read_settings",
    "runtime_asserts",
    "suppress_event_errors",
]

_NEEDED = (*REPLAY, REPLACEMENT, THREAD_STATE)


def missing_names() -> tuple[str, ...]:
    """Return a sentence for each private name of torch that :mod:`..shapes` needs and torch
    lacks.
    """
    return tuple(
        f"This torch has no {need.name}, so {need.purpose} is not possible."
        for need in _NEEDED
        if need.get() is None
    )


def expression_of(value: Any) -> Any:
    """Return the expression that a symbolic number got when it was created; None for other values.

    Reading the current expression instead would simplify it, which writes to its ShapeEnv.
    """
    return getattr(getattr(value, "node", None), "_expr", None)


def runtime_asserts(env: ShapeEnv) -> list[Any]:
    """Return all runtime assertions that a ShapeEnv deferred until the graph runs, in one list."""
    return [item for items in env.deferred_runtime_asserts.values() for item in items]


def read_settings() -> dict[str, Any]:
    """Return the settings of torch that affect symbolic shapes; values other than numbers, strings
    and None are left out.
    """
    return {
        name: value
        for name, value in config.get_config_copy().items()
        if isinstance(value, (bool, int, float, str, type(None)))
    }


@contextlib.contextmanager
def apply_settings(settings: dict[str, Any]) -> Iterator[None]:
    """Use the settings of torch under which ShapeEnv events were recorded inside the ``with``
    block.

    At the end, torch's thread-local state is restored too: a replay may end while guards are
    suppressed.
    """
    present = config.get_config_copy()
    changed = {
        name: value
        for name, value in settings.items()
        if name in present and present[name] != value
    }
    local = symbolic_shapes.TLS.__dict__
    saved = dict(local)
    local.clear()
    try:
        with config.patch(changed), suppress_event_errors():
            yield
    finally:
        local.clear()
        local.update(saved)


@contextlib.contextmanager
def suppress_event_errors() -> Iterator[None]:
    """Suppress the error message that torch logs whenever a ShapeEnv event raises, even if Dynamo
    handles it."""
    loggers = (recording.log, symbolic_shapes.log)

    def only_other(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith(("failed while running", "failed during"))

    for logger in loggers:
        logger.addFilter(only_other)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(only_other)
