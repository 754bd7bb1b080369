"""Operators that a file defines, called as its targets call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fullgraph_engine.behavior.coverage import required_coverage  # noqa: E402
from fullgraph_engine.exporting import CheckedOperator, check_operators  # noqa: E402
from fullgraph_engine.protocol.evidence import OperatorCall, TensorForm  # noqa: E402
from fullgraph_engine.targets import Call  # noqa: E402

TEXT = """\
import torch


@torch.library.custom_op("fxchecked::{name}", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    {body}


@op.register_fake
def _(x):
    return {fake}


def f(x):
    return op(x) + 1
"""


def checked(name: str, body: str, fake: str) -> CheckedOperator:
    text = TEXT.format(name=name, body=body, fake=fake)
    namespace: dict[str, Any] = {"__name__": "model"}
    exec(compile(text, "model.py", "exec", dont_inherit=True), namespace)
    function: Callable[..., Any] = namespace["f"]
    (found,) = check_operators(Call(function, (torch.ones(4, 3),), {}), text)
    assert (found.operator, found.line) == (f"fxchecked.{name}.default", 3)
    return found


def call(rows: int, columns: int) -> OperatorCall:
    return OperatorCall(
        (TensorForm("float32", (rows, columns)),), (TensorForm("float32", (rows,)),)
    )


def test_an_operator_that_is_right_is_called_with_several_sizes() -> None:
    found = checked("right", "return x.sum(1)", "x.new_empty(x.shape[0])")
    assert found.wrong == ""
    assert found.calls == (call(4, 3), call(5, 3), call(4, 4))


@pytest.mark.parametrize(
    ("name", "body", "fake", "words"),
    [
        ("changes", "x.add_(1)\n    return x.sum(1)", "x.new_empty(x.shape[0])", "was mutated"),
        ("constant", "return x.sum(1)", "x.new_empty(4)", "test_faketensor failed"),
        ("strides", "return x * 2", "x.new_empty(x.shape)", "test_faketensor"),
        ("other_dtype", "return x.sum(1)", "x.new_empty(x.shape[0]).half()", "test_faketensor"),
    ],
)
def test_what_is_wrong_with_an_operator(name: str, body: str, fake: str, words: str) -> None:
    assert words in checked(name, body, fake).wrong


def test_a_text_without_operators_calls_nothing() -> None:
    def f(x: Any) -> Any:
        raise AssertionError

    assert check_operators(Call(f, (torch.ones(4),), {}), "a = 'x'\n") == ()


def test_no_run_on_real_tensors_has_to_reach_a_fake_kernel() -> None:
    text = TEXT.format(name="covered", body="return x.sum(1)", fake="x.new_empty(4)")
    every = frozenset(range(text.count("\n")))
    assert required_coverage(text, "model.py", every).lines == {5, 14}
