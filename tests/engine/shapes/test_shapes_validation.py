"""Translation validation with z3: guards imply everything that a trace assumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental import _config

from fullgraph_engine import shapes, tracing
from fullgraph_engine.tracing.recording import Recording

pytestmark = pytest.mark.real_engine
config: Any = _config  # its module adds `patch` as it is executed


def narrows(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] == 4 else x.view(2, -1)


def trace() -> Recording:
    torch._dynamo.reset()
    x = torch.randn(4, 3)
    with tracing.tensor_mode(False), shapes.record_tapes() as tapes:
        recording = tracing.trace(narrows, (x,), {}, dynamic=[(x, 0)])
    assert tapes
    return recording


def validated(trace: Callable[[], Recording]) -> str:
    """What translation validation has against a trace; empty if nothing."""
    pytest.importorskip("z3")
    with config.patch(translation_validation=True, translation_validation_no_bisect=False):
        failure = trace().failure
    return failure.message if failure is not None else ""


def test_sound_guards_are_valid_while_events_are_recorded() -> None:
    assert validated(trace) == ""


def test_unsound_guards_are_found() -> None:
    with config.patch(inject_EVALUATE_EXPR_flip_equality_TESTING_ONLY=True):
        assert "translation validation failed" in validated(trace)
