"""Names and operators by what people call them: ``max``, ``F.gelu``, ``aten.max.dim``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from fullgraph_engine.protocol.operators import Operator

from .index import OperatorIndex
from .subject import Subject

_OPS = "torch.ops."
_SHORT = {"F": "torch.nn.functional", "Tensor": "torch.Tensor", "nn": "torch.nn"}
"""What these stand for wherever people write of torch."""


def look_up(index: OperatorIndex, written: str) -> tuple[Subject, ...]:
    """All that a name stands for: one thing where it is a path, else whatever ends with it."""
    written = written.strip().removesuffix("()")
    if "::" in written:
        namespace, _, rest = written.partition("::")
        return tuple(_operator(index, namespace, rest))
    if written.startswith(_OPS):
        return tuple(_dotted_operator(index, written.removeprefix(_OPS)))
    if "." in written:
        first, _, rest = written.partition(".")
        paths = (written, f"{_SHORT.get(first, first)}.{rest}", f"torch.{written}")
        for path in paths:
            if found := tuple(_name(index, path)):
                return found
        return tuple(_dotted_operator(index, written)) or tuple(_overloads(index, first, rest))
    if found := tuple(_called(index, written)):
        return found
    return tuple(
        subject
        for namespace in index.namespaces
        for subject in _operator(index, namespace, written)
    ) or tuple(_name(index, written))


def nearest(index: OperatorIndex, written: str, most: int = 3) -> tuple[str, ...]:
    """Names like one that is unknown."""
    if "::" in written:
        namespace, _, rest = written.partition("::")
        return tuple(
            difflib.get_close_matches(
                f"{namespace}::{rest.partition('.')[0]}",
                [entry.key for entry in index.operators(namespace)],
                most,
            )
        )
    leaf = written.strip().rpartition(".")[2]
    close = difflib.get_close_matches(leaf, index.leaves, most, cutoff=0.7)
    return tuple(s.path for near in close for s in tuple(_called(index, near))[:1])


def _name(index: OperatorIndex, path: str) -> Iterator[Subject]:
    name = index.target(path)
    if name is not None:
        yield Subject(0, 0, path, name=name)


def _called(index: OperatorIndex, leaf: str) -> Iterator[Subject]:
    """Names that end so, each thing once, those of torch itself and of tensors first."""
    paths = [path for path in index.called(leaf) if not _is_private(path)] or index.called(leaf)
    seen = set()
    for path in sorted(paths, key=_rank):
        for subject in _name(index, path):
            same = subject.name.path if subject.name is not None else path
            if same not in seen:
                seen.add(same)
                yield subject


def _is_private(path: str) -> bool:
    return any(part.startswith("_") for part in path.split(".")[:-1])


def _rank(path: str) -> tuple[int, int, str]:
    parent = path.rpartition(".")[0]
    order = ("torch", "torch.Tensor", "torch.nn.functional")
    return (order.index(parent) if parent in order else len(order), path.count("."), path)


def _dotted_operator(index: OperatorIndex, dotted: str) -> Iterator[Subject]:
    """``aten.max`` or ``aten.max.dim``"""
    namespace, _, rest = dotted.partition(".")
    yield from _operator(index, namespace, rest)


def _operator(index: OperatorIndex, namespace: str, rest: str) -> Iterator[Subject]:
    name, dot, overload_name = rest.partition(".")
    operator = index.operator(f"{namespace}::{name}")
    if operator is None:
        return
    path = f"{_OPS}{namespace}.{name}"
    if not dot:
        yield Subject(0, 0, path, operator=operator)
        return
    yield from _overload(operator, path, "" if overload_name == "default" else overload_name)


def _overload(operator: Operator, path: str, overload_name: str) -> Iterator[Subject]:
    for overload in operator.overloads:
        if overload.name == overload_name:
            shown = f"{path}.{overload_name or 'default'}"
            yield Subject(0, 0, shown, operator=operator, overload=overload)


def _overloads(index: OperatorIndex, name: str, overload_name: str) -> Iterator[Subject]:
    """``max.dim``, as schemas are often called without their namespace."""
    for namespace in index.namespaces:
        yield from _operator(index, namespace, f"{name}.{overload_name}")
