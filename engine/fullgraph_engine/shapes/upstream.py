"""The parts of torch's ShapeEnv that this package builds on.

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
    "expression_of",
    "missing",
    "name_of_source",
    "quiet",
    "settings",
    "stage",
]

_NEEDED = (*REPLAY, REPLACEMENT, THREAD_STATE)


def missing() -> tuple[str, ...]:
    """What this torch lacks of it, each in one sentence."""
    return tuple(
        f"This torch has no {need.name}, so {need.purpose} is not possible."
        for need in _NEEDED
        if need.get() is None
    )


def expression_of(value: Any) -> Any:
    """The expression of a symbolic number, or None.

    As it was made: asking for it as it is now simplifies it, and that writes to its ShapeEnv.
    """
    return getattr(getattr(value, "node", None), "_expr", None)


def settings() -> dict[str, Any]:
    """The settings that symbolic shapes are worked out under, as far as they are plain values."""
    return {
        name: value
        for name, value in config.get_config_copy().items()
        if isinstance(value, (bool, int, float, str, type(None)))
    }


@contextlib.contextmanager
def stage(wanted: dict[str, Any]) -> Iterator[None]:
    """Replay happens here: with these settings, and leaving nothing of its own behind.

    Suppressing guards is a state of the thread, and a prefix may end while they are suppressed.
    """
    present = config.get_config_copy()
    changed = {
        name: value for name, value in wanted.items() if name in present and present[name] != value
    }
    local = symbolic_shapes.TLS.__dict__
    kept = dict(local)
    local.clear()
    try:
        with config.patch(changed), quiet():
            yield
    finally:
        local.clear()
        local.update(kept)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """torch logs an error where an event raises, also where Dynamo then catches that."""
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
