"""Blocks that a graph repeats: objects of one module class that do the same operations."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from . import nodes
from .recording import Stack

_LEAST_SAVED = 3
"""Minimum number of objects that repeat the operations of another object."""
_LEAST_REPEATED = 24
"""Minimum number of operators that only repeat others; fewer are compiled quickly."""
_LEAST_SHARE = 0.25
"""Minimum share of the graph's operators that only repeat others."""


@dataclass(frozen=True)
class RepeatedBlock:
    """A module class whose objects occur repeatedly in a graph with the same operations.

    ``count`` is the number of objects, and ``forms`` the number of objects that differ from each
    other. ``operators`` of the graph's ``all_operators`` belong to the objects. ``container`` is
    the attribute of the traced module that contains all objects, such as ``encoder.layers``; empty
    if they are in several places. ``stack`` is the stack of the first call of an object.
    """

    class_name: str
    count: int
    forms: int
    operators: int
    all_operators: int
    container: str
    stack: Stack


@dataclass
class _Object:
    """A module object in a graph, with its class, its path and its nodes in the graph's order."""

    kind: type
    path: str
    nodes: list[torch.fx.Node] = field(default_factory=list)
    parents: frozenset[str] = frozenset()
    """Names of the modules that contain the object."""


def find_repeated_blocks(graph: torch.fx.GraphModule) -> tuple[RepeatedBlock, ...]:
    """Return the outermost module classes that Dynamo's graph repeats, in the order of the graph.

    Each object of such a class makes AOTAutograd and Inductor compile the same operations again.
    See ``nn_module_stack`` in ``torch.fx.Node.meta``.
    """
    objects: dict[str, _Object] = {}
    total = 0
    for node in graph.graph.nodes:
        if node.op in nodes.NON_CALL_OPS:
            continue
        total += 1
        around: list[str] = []
        for key, (path, kind) in (node.meta.get("nn_module_stack") or {}).items():
            if isinstance(kind, type):
                found = objects.setdefault(key, _Object(kind, path, parents=frozenset(around)))
                found.nodes.append(node)
            around.append(key)
    by_class: dict[type, dict[str, _Object]] = defaultdict(dict)
    for key, one in objects.items():
        if not issubclass(one.kind, (torch.nn.Sequential, torch.nn.ModuleList)):
            by_class[one.kind][key] = one
    return tuple(_choose_blocks(by_class, total))


def _choose_blocks(by_class: dict[type, dict[str, _Object]], total: int) -> Iterator[RepeatedBlock]:
    chosen: set[str] = set()
    # The class with the most operators is the outermost one.
    for kind, objects in sorted(
        by_class.items(), key=lambda item: -sum(len(one.nodes) for one in item[1].values())
    ):
        if any(not chosen.isdisjoint(one.parents) for one in objects.values()):
            continue
        sizes: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for one in objects.values():
            sizes[_form_of(one.nodes)].append(len(one.nodes))
        operators = sum(map(sum, sizes.values()))
        repeated = operators - sum(one[0] for one in sizes.values())
        if len(objects) - len(sizes) >= _LEAST_SAVED and repeated >= max(
            _LEAST_REPEATED, _LEAST_SHARE * total
        ):
            chosen |= objects.keys()
            first = next(iter(objects.values()))
            yield RepeatedBlock(
                kind.__qualname__,
                len(objects),
                len(sizes),
                operators,
                total,
                _container_of(one.path for one in objects.values()),
                _stack_of_call(kind, first.nodes[0]),
            )


_ITEM = re.compile(r"L\['\w+'\](?:\[0\])?\.(?P<container>[\w.]+?)(\.\d+|\[\d+\])")
"""Pattern of Dynamo's path of an object in a list of modules, such as ``L['self'].blocks.0``, or
``L['args'][0].blocks.0`` under a decorator with ``*args``."""


def _container_of(paths: Iterable[str]) -> str:
    """Return the attribute whose items have these paths; empty if there are several."""
    matches = {match["container"] if (match := _ITEM.fullmatch(path)) else "" for path in paths}
    return matches.pop() if len(matches) == 1 else ""


def _form_of(operations: list[torch.fx.Node]) -> tuple[Any, ...]:
    """Return a key for a list of nodes; two lists with the same operations have equal keys.

    Inputs and parameters count as the same if they have the same shape and dtype.
    """
    numbers = {node: number for number, node in enumerate(operations)}

    def describe_argument(node: torch.fx.Node) -> str:
        number = numbers.get(node)
        return f"%{number}" if number is not None else _describe_result(node)

    return tuple(
        (
            str(node.target),
            _describe_result(node),
            repr(torch.fx.map_arg((node.args, node.kwargs), describe_argument)),
        )
        for node in operations
    )


def _describe_result(node: torch.fx.Node) -> str:
    value = node.meta.get("example_value")
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{list(value.shape)}"
    return type(value).__name__


def _stack_of_call(kind: type, node: torch.fx.Node) -> Stack:
    """Return the part of a node's stack above ``kind.forward``; the whole stack if that function is
    not in it."""
    stack = nodes.location_of(node)
    forward: Any = getattr(kind, "forward", None)
    code = getattr(inspect.unwrap(forward), "__code__", None)
    for number, frame in enumerate(stack):
        if code is not None and number and _is_inside(frame.path, frame.line, code):
            return stack[:number]
    return stack


def _is_inside(path: str, line: int, code: Any) -> bool:
    last = max((number for *_, number in code.co_lines() if number), default=code.co_firstlineno)
    return bool(path == code.co_filename and code.co_firstlineno <= line + 1 <= last)
