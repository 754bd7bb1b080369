"""The nodes of captured graphs: which line each comes from, and what it gives."""

from __future__ import annotations

from typing import Any

from . import stacks
from .describe import describe_value
from .recording import Op, Stack

_LOCATION = "fullgraph_location"
"""Key in ``Node.meta`` for the raw stack of the instruction that created the node."""


def locate(node: Any, output: Any) -> None:
    """Note with a new node where the tracer is: most nodes are thrown away at a restart."""
    node.meta[_LOCATION] = stacks.raw_of_translator(output.current_tx)


Sizes = tuple[tuple[str, ...], tuple[int, ...]]
"""As they are, and their hints."""


def ops_of(module: Any) -> tuple[tuple[Op, ...], dict[str, Sizes]]:
    """What a graph calls, and the sizes of all its nodes that have some."""
    ops, sizes = [], {}
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        size = _sizes(value)
        if size is not None:
            sizes[node.name] = size
        if node.op in _NO_CALLS:
            continue
        target = node.target if isinstance(node.target, str) else _target_name(node.target)
        stack: Stack = stacks.join((), stacks.of_raw(node.meta.get(_LOCATION, ())))
        ops.append(Op(node.name, target, describe_value(value), stack))
    return tuple(ops), sizes


_NO_CALLS = ("placeholder", "output", "get_attr")


def count(translator: Any) -> int:
    """How many calls are in the graph that a symbolic interpreter is filling."""
    graph = getattr(getattr(translator, "output", None), "graph", None)
    return sum(node.op not in _NO_CALLS for node in getattr(graph, "nodes", ()))


def _target_name(target: Any) -> str:
    name = getattr(target, "__name__", None) or str(target)
    module = getattr(target, "__module__", "") or ""
    if str(target).startswith("aten."):
        return str(target)
    return f"{module}.{name}" if module and module != "builtins" else str(name)


def _sizes(value: Any) -> Sizes | None:
    shape = getattr(value, "shape", None)
    if shape is None or not hasattr(value, "dtype"):
        return None
    try:
        return tuple(str(size) for size in shape), tuple(_hint(size) for size in shape)
    except Exception:  # sizes of nested or sparse tensors may refuse to be read
        return None


def _hint(size: Any) -> int:
    if isinstance(size, int):
        return size
    hint = getattr(size.node, "hint", None)
    return int(hint) if hint is not None else -1
