"""Translation validation, where z3 is there; a sentence where it is not."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from fullgraph_engine import shapes, tracing
from fullgraph_engine.shapes import validation
from fullgraph_engine.tracing.recording import Failure, Recording

pytestmark = pytest.mark.real_engine


def narrows(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] == 4 else x.view(2, -1)


def trace() -> Recording:
    torch._dynamo.reset()
    x = torch.randn(4, 3)
    with tracing.tensor_mode(False), shapes.record() as tapes:
        recording = tracing.trace(narrows, (x,), {}, dynamic=[(x, 0)])
    assert tapes
    return recording


@pytest.mark.skipif(find_spec("z3") is not None, reason="z3 is there")
def test_without_z3_it_says_what_to_install() -> None:
    found = validation.validate(trace)
    assert found.outcome == "skipped"
    assert found.text == "Install z3-solver beside torch to have guards validated."


def test_sound_guards_are_valid() -> None:
    pytest.importorskip("z3")
    assert validation.validate(trace).outcome == "valid"


def test_unsound_guards_are_told_with_their_expression() -> None:
    pytest.importorskip("z3")
    from torch.fx.experimental import _config as config

    def unsound() -> Recording:
        with config.patch(inject_EVALUATE_EXPR_flip_equality_TESTING_ONLY=True):
            return trace()

    found = validation.validate(unsound)
    assert found.outcome == "invalid"
    assert "translation validation failed" in found.text


def test_a_failure_of_the_validator_is_an_invalid_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullgraph_engine.shapes.validation.find_spec", lambda _name: object())
    monkeypatch.setattr("fullgraph_engine.shapes.upstream.config", FakeConfig(), raising=True)
    words = "translation validation failed when evaluating: s0 > 5\n\nand more"
    failed = Recording(failure=Failure("tracer", "BisectValidationException", words, ()))
    found = validation.validate(lambda: failed)
    assert found.outcome == "invalid"
    assert found.text == "translation validation failed when evaluating: s0 > 5"


class FakeConfig:
    def patch(self, **_settings: bool) -> FakeConfig:
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_error: object) -> None:
        return None
