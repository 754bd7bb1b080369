"""Check with z3 that the guards of a trace imply everything that the trace assumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from ..torch_internals.shapes import config
from ..tracing.recording import Recording

_FAILURES = ("ValidationException", "BisectValidationException")


@dataclass(frozen=True)
class Validation:
    """``text`` says why it was skipped, or for which expression it first failed."""

    outcome: Literal["valid", "invalid", "skipped"]
    text: str = ""


def validate(trace: Callable[[], Recording]) -> Validation:
    """Run ``trace`` under torch's translation validation.

    On a failure torch replays the events to the first expression that it fails for.
    """
    if find_spec("z3") is None:
        return Validation("skipped", "Install z3-solver beside torch to have guards validated.")
    with config.patch(translation_validation=True, translation_validation_no_bisect=False):
        failure = trace().failure
    if failure is not None and failure.kind in _FAILURES:
        return Validation("invalid", failure.message.strip().split("\n")[0])
    return Validation("valid")
