"""Nodes of captured graphs: the code that created each node, and the node's result."""

from __future__ import annotations

import re
from typing import Any

from ..protocol import Frame
from . import stacks
from .describe import describe_value
from .recording import Op, Stack

_LOCATION = "fullgraph_location"
"""Key in ``Node.meta`` under which a graph node stores the stack of the instruction that created
it."""

_FILE_LINE = re.compile(r'File "([^"\n]+)", line (\d+), in (.+)')


def store_location(node: Any, output: Any) -> None:
    """Store on a new graph node the stack of the user code that Dynamo is tracing.

    The stack is stored unconverted, because Dynamo discards most nodes when it restarts a trace.
    """
    node.meta[_LOCATION] = stacks.raw_stack_of_translator(output.current_tx)


def location_of(node: Any) -> Stack:
    """Return the stack of user code that created a node of Dynamo's graph; empty if unknown."""
    return stacks.join_stacks((), stacks.convert_raw_stack(node.meta.get(_LOCATION, ())))


def parse_stack_text(text: str) -> Stack:
    """Return the frames in the stack text of a graph node, outermost first, without columns.

    See ``torch.fx.Node.stack_trace``. The text has lines as in a traceback.
    """
    return tuple(Frame(path, name, int(line) - 1) for path, line, name in _FILE_LINE.findall(text))


Sizes = tuple[tuple[str, ...], tuple[int, ...]]
"""Sizes of a tensor as text, and their hints (-1 if unknown)."""


def list_ops(module: Any) -> tuple[tuple[Op, ...], dict[str, Sizes]]:
    """Return the operator calls in a graph module, and the sizes of its tensor nodes by node
    name.
    """
    ops, sizes = [], {}
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        size = _tensor_sizes(value)
        if size is not None:
            sizes[node.name] = size
        if node.op in NON_CALL_OPS:
            continue
        target = node.target if isinstance(node.target, str) else _target_name(node.target)
        ops.append(Op(node.name, target, describe_value(value), location_of(node)))
    return tuple(ops), sizes


NON_CALL_OPS = ("placeholder", "output", "get_attr")
"""Kinds of graph nodes (``Node.op``) that do not call anything."""


def count_calls(translator: Any) -> int:
    """Return the number of call nodes in the graph that a symbolic interpreter is building."""
    graph = getattr(getattr(translator, "output", None), "graph", None)
    return sum(node.op not in NON_CALL_OPS for node in getattr(graph, "nodes", ()))


def _target_name(target: Any) -> str:
    name = getattr(target, "__name__", None) or str(target)
    module = getattr(target, "__module__", "") or ""
    if str(target).startswith("aten."):
        return str(target)
    return f"{module}.{name}" if module and module != "builtins" else str(name)


def _tensor_sizes(value: Any) -> Sizes | None:
    shape = getattr(value, "shape", None)
    if shape is None or not hasattr(value, "dtype"):
        return None
    try:
        return tuple(str(size) for size in shape), tuple(_size_hint(size) for size in shape)
    except Exception:  # nested or sparse tensors may raise when their sizes are read
        return None


def _size_hint(size: Any) -> int:
    if isinstance(size, int):
        return size
    hint = getattr(size.node, "hint", None)
    return int(hint) if hint is not None else -1
