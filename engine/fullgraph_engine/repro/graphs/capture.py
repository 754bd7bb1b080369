"""The graphs that Dynamo captures from a call, with their input tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...torch_internals import dynamo

_RANDOM = re.compile(
    "rand|dropout|bernoulli|multinomial|normal_|uniform_|exponential_|geometric_|cauchy_|poisson"
    "|rrelu|scaled_dot_product"
)

GraphCallback = Callable[[torch.fx.GraphModule, tuple[Any, ...]], None]


def capture_graphs(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    receive: GraphCallback,
) -> None:
    """Compile a function with Dynamo, call it, and pass each captured graph to ``receive``.

    The graphs run unchanged, without a backend. ``receive`` gets each graph before its first run,
    while its inputs are still unchanged.
    """

    def backend(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        was_received = False

        def run(*inputs: Any) -> Any:
            nonlocal was_received
            if not was_received:
                was_received = True
                receive(graph, inputs)
            return graph.forward(*inputs)

        return run

    dynamo.reset()
    dynamo.optimize(backend)(function)(*args, **kwargs)


def is_dynamic(graph: torch.fx.GraphModule) -> bool:
    """Whether a graph has an input of symbolic size."""
    for node in graph.graph.find_nodes(op="placeholder"):
        value = node.meta.get("example_value")
        sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
        if any(isinstance(size, torch.SymInt) for size in sizes):
            return True
    return False


def is_random(graph: torch.fx.GraphModule) -> bool:
    """Whether a graph has an operation that draws random numbers, judging by its name."""
    targets = (str(getattr(node.target, "__name__", node.target)) for node in graph.graph.nodes)
    nodes = zip(graph.graph.nodes, targets, strict=True)
    return any(node.op.startswith("call") and _RANDOM.search(name) for node, name in nodes)


def output_examples(graph: torch.fx.GraphModule) -> list[Any]:
    """Return the example values of a graph's results: fake tensors and numbers."""
    found: list[Any] = []
    for node in graph.graph.find_nodes(op="output"):
        torch.fx.map_arg(node.args, lambda each: found.append(each.meta.get("example_value")))
    return found
