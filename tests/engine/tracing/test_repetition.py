"""Module classes whose objects repeat the same operations in one graph."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fullgraph_engine.tracing.drive import use_real_backends  # noqa: E402
from fullgraph_engine.tracing.repetition import (  # noqa: E402
    RepeatedBlock,
    find_repeated_blocks,
)

nn: Any = torch.nn


class Layer(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        for _ in range(4):
            x = torch.relu(self.linear(x))
        return x


class Wrapper(nn.Module):  # type: ignore[misc]
    """Each object contains one layer, so the outer class is the one to name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Layer()

    def forward(self, x: Any) -> Any:
        return self.layer(x) + 1


class Model(nn.Module):  # type: ignore[misc]
    def __init__(self, *groups: list[Any]) -> None:
        super().__init__()
        self.first = nn.ModuleList(groups[0])
        self.second = nn.ModuleList(groups[1] if len(groups) > 1 else [])

    def forward(self, x: Any) -> Any:
        for layer in (*self.first, *self.second):
            x = layer(x)
        return x


def blocks_of(model: Any) -> tuple[RepeatedBlock, ...]:
    found: list[RepeatedBlock] = []

    def record(graph: Any, inputs: Any) -> Any:
        found.extend(find_repeated_blocks(graph))
        return graph.forward

    torch._dynamo.reset()
    with use_real_backends():
        torch.compile(model, backend=record)(torch.ones(2, 4))
    return tuple(found)


def test_the_outermost_class_is_found_with_the_attribute_that_contains_its_objects() -> None:
    (block,) = blocks_of(Model([Wrapper() for _ in range(5)]))
    assert (block.class_name, block.container) == ("Wrapper", "first")
    assert (block.count, block.forms) == (5, 1)
    assert block.operators == block.all_operators == 45


def pass_on(function: Any) -> Any:
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


class Decorated(Model):
    @pass_on
    def forward(self, x: Any) -> Any:
        return super().forward(x)


def test_a_model_with_a_decorated_forward_has_a_container() -> None:
    (block,) = blocks_of(Decorated([Layer() for _ in range(4)]))
    assert block.container == "first"


def test_objects_in_several_attributes_have_no_container() -> None:
    (block,) = blocks_of(Model([Layer(), Layer(), Layer()], [Layer(), Layer()]))
    assert (block.count, block.container) == (5, "")


@pytest.mark.parametrize("number", [1, 3])
def test_few_objects_are_not_reported(number: int) -> None:
    assert blocks_of(Model([Layer() for _ in range(number)])) == ()
