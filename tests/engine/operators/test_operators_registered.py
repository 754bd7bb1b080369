"""Operators of a user's file: what the engine says of them, and when."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    Event,
    Failed,
    OperatorsRegistered,
    TargetsFound,
    TargetStarted,
)
from fullgraph_engine.protocol.operators import Overload

pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(300)

REGISTERS = """
import torch
from torch import Tensor

@torch.library.custom_op("mine::scale", mutates_args=())
def scale(x: Tensor, factor: float) -> Tensor:
    return x * factor

@scale.register_fake
def _(x, factor):
    return torch.empty_like(x)

@torch.library.custom_op("mine::fill", mutates_args={"x"})
def fill(x: Tensor) -> Tensor:
    x.fill_(1)
    return x.clone()

scale.register_autograd(lambda ctx, grad: (grad, None))

library = torch.library.Library("ours", "DEF")
library.define("twice(Tensor x) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
library.define("twice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
torch.library.define("theirs::half", "(Tensor x) -> Tensor")
"""
# Before Python 3.11 a decorator is called on the line of what it decorates.
DECORATED = '"mine::scale"' if sys.version_info >= (3, 11) else "def scale("
WITH_TARGET = REGISTERS + "\n# fullgraph: f32[4]\ndef f(x):\n    return scale(x, 2.0)\n"


@pytest.fixture(scope="module")
def said(
    engine_says: Callable[..., list[Event]], tmp_path_factory: pytest.TempPathFactory
) -> list[list[Event]]:
    """The events of a file with a target, the same without, and one that registers nothing."""
    path = tmp_path_factory.mktemp("files") / "registers.py"
    texts = (WITH_TARGET, REGISTERS, "import torch\nx = torch.ones(2)\n")
    requests = [
        Analyze(number, "g", str(path), textwrap.dedent(text))
        for number, text in enumerate(texts, 1)
    ]

    def ended(events: list[Event]) -> bool:
        return sum(isinstance(event, (Analyzed, Failed)) for event in events) == len(texts)

    events = engine_says(ended, *requests)
    return [
        [event for event in events if getattr(event, "request", 0) == request.request]
        for request in requests
    ]


def registered(events: list[Event]) -> dict[str, Overload]:
    (event,) = (event for event in events if isinstance(event, OperatorsRegistered))
    return {
        f"{operator.name}.{overload.name}".rstrip("."): overload
        for operator in event.operators
        for overload in operator.overloads
    }


@pytest.mark.slow
def test_everything_that_was_registered(said: list[list[Event]]) -> None:
    found = registered(said[0])
    assert set(found) == {
        "mine::scale",
        "mine::fill",
        "ours::twice",
        "ours::twice.out",
        "theirs::half",
    }
    assert found["mine::scale"].schema == "mine::scale(Tensor x, float factor) -> Tensor"
    assert all(overload.origin == "registered" for overload in found.values())


def test_fake_kernels_and_gradients(said: list[list[Event]]) -> None:
    found = registered(said[0])
    assert found["mine::scale"].fake == "kernel"
    assert found["mine::fill"].fake == "missing"
    assert found["ours::twice"].fake == "composite"
    assert found["theirs::half"].fake == "missing"
    assert found["mine::scale"].differentiable == "registered"
    assert found["mine::fill"].differentiable == "no"
    assert found["ours::twice"].differentiable == "composite"


def test_mutation_tags_and_kernels(said: list[list[Event]]) -> None:
    found = registered(said[0])
    assert "!) x" in found["mine::fill"].schema
    assert found["ours::twice"].tags == ("pt2_compliant_tag",)
    assert found["ours::twice"].kernels == ("CompositeImplicitAutograd",)
    assert found["theirs::half"].kernels == ()


def test_where_they_were_registered(said: list[list[Event]]) -> None:
    lines = REGISTERS.split("\n")
    for name, words in {
        "mine::scale": DECORATED,
        "ours::twice": '"twice(',
        "ours::twice.out": '"twice.out(',
        "theirs::half": '"theirs::half"',
    }.items():
        path, _, line = registered(said[0])[name].place.rpartition(":")
        assert Path(path).name == "registers.py"
        assert words in lines[int(line) - 1]


def test_traces_do_not_wait_for_it(said: list[list[Event]]) -> None:
    kinds = [type(event) for event in said[0]]
    assert kinds.index(TargetStarted) < kinds.index(OperatorsRegistered)


def test_a_file_without_targets_is_executed_for_its_operators(said: list[list[Event]]) -> None:
    assert [event.targets for event in said[1] if isinstance(event, TargetsFound)][-1] == ()
    assert registered(said[1]).keys() == registered(said[0]).keys()


def test_nothing_is_said_where_nothing_was_registered(said: list[list[Event]]) -> None:
    assert not any(isinstance(event, OperatorsRegistered) for event in said[2])
