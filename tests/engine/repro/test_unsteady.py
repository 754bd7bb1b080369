"""What is reported of values that change is what a second call does."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

pytestmark = [pytest.mark.real_engine, pytest.mark.usefixtures("fresh_tracer")]
FIXTURES = Path(__file__).parents[2] / "fixtures" / "findings"


def compilations(
    file: str, name: str, given: Callable[[Any], tuple[Any, ...]], change: Callable[[Any], Any]
) -> int:
    """How often a function is compiled for a call and one more behind a change of its module."""
    path = FIXTURES / f"{file}.py"
    module = types.ModuleType(file)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    compiled: Callable[..., Any] = torch.compile(getattr(module, name), backend="eager")
    counters["frames"].clear()
    compiled(torch.ones(4), *given(module))
    change(module)
    compiled(torch.ones(4), *given(module))
    return counters["frames"]["ok"]


def nothing(_: Any) -> tuple[Any, ...]:
    return ()


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("items", lambda module: module.widen({}), 2),
        ("items", lambda module: module.Trainer().step("scale", 4), 2),
        ("attributes", lambda module: module.widen({}), 2),
        ("attributes", lambda module: setattr(module.SETTINGS, "bias", 3.0), 2),
        ("constants", lambda module: module.widen({}), 1),
        ("constants", lambda module: module.Trainer().step("scale", 4), 1),
        ("constants", lambda module: module.Trainer().local()(), 1),
    ],
)
def test_globals_are_reported_that_the_functions_of_the_file_change(
    name: str, change: Callable[[Any], Any], expected: int
) -> None:
    assert compilations("guards_in_globals", name, nothing, change) == expected


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("of_this_file", lambda module: module.choose(module.KIND, module.SCALED), 2),
        ("of_no_one", lambda module: module.choose(module.Kind.NARROW, module.Halves()), 1),
    ],
)
def test_objects_in_globals(name: str, change: Callable[[Any], Any], expected: int) -> None:
    assert compilations("guards_on_identity", name, nothing, change) == expected


@pytest.mark.parametrize(
    ("name", "calls", "expected"),
    [
        ("by_kind", lambda m: [(m.Kind.WIDE,), (m.Kind.NARROW,)], 2),
        ("by_equal_kind", lambda m: [(m.Kind.WIDE,), (m.Kind.NARROW,)], 2),
        ("applied", lambda m: [(m.doubled, torch.relu), (torch.square, torch.relu)], 2),
        ("applied", lambda m: [(m.doubled, torch.relu), (m.doubled, torch.sigmoid)], 2),
        ("any_of_its_kind", lambda m: [(torch.nn.ReLU(), m.Halves()) for _ in range(2)], 1),
    ],
)
def test_objects_that_are_given(
    name: str, calls: Callable[[Any], list[tuple[Any, ...]]], expected: int
) -> None:
    left: list[tuple[Any, ...]] = []

    def given(module: Any) -> tuple[Any, ...]:
        left[:] = left or calls(module)
        return left.pop(0)

    assert compilations("guards_on_identity", name, given, nothing) == expected
