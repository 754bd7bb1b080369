"""Gradients that depend on each element of a result."""

from __future__ import annotations

import pytest
import torch

from fullgraph_engine.behavior.gradients import gradient_weights, gradients_of_outputs


def test_gradients_do_not_cancel_out_behind_a_softmax() -> None:
    x = torch.arange(4.0, requires_grad=True)
    (gradient,) = gradients_of_outputs([x.softmax(0)], [x])
    assert gradient is not None and gradient.abs().min() > 1e-3


def test_nothing_to_differentiate_gives_no_gradients() -> None:
    x = torch.ones(1, requires_grad=True)
    assert gradients_of_outputs([], [x]) == gradients_of_outputs([x * 2], []) == []


def test_the_graph_can_be_kept() -> None:
    x = torch.ones(1, requires_grad=True)
    y = x.exp()
    first = gradients_of_outputs([y], [x], retain_graph=True)
    assert gradients_of_outputs([y], [x]) == first


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_are_equal_in_all_dtypes(dtype: torch.dtype) -> None:
    weights = gradient_weights(torch.ones(500, dtype=dtype), "a")
    assert weights.double().equal(gradient_weights(torch.ones(500), "a").double())
    assert weights.ne(0).all()
    assert not weights.equal(gradient_weights(torch.ones(500, dtype=dtype), "b"))


def test_tensors_of_a_subclass_have_equal_weights() -> None:
    class Special(torch.Tensor):
        pass

    special = torch.ones(2).as_subclass(Special)
    assert gradient_weights(special, "a").eq(1).all()
