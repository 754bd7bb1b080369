"""Look up names and operators as users write them: ``max``, ``F.gelu``, ``aten.max.dim``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from fullgraph_engine.protocol.operators import Operator

from .index import OperatorIndex
from .subject import Subject

_OPS_PREFIX = "torch.ops."
_ABBREVIATIONS = {"F": "torch.nn.functional", "Tensor": "torch.Tensor", "nn": "torch.nn"}
"""Paths of torch by common abbreviations for them."""


def look_up(index: OperatorIndex, written: str) -> tuple[Subject, ...]:
    """Return all names and operators of torch that a name typed by the user may mean.

    The path ``torch.max`` matches one entry. The single name ``max`` matches every entry whose path
    ends with it.
    """
    written = written.strip().removesuffix("()")
    if "::" in written:
        namespace, _, rest = written.partition("::")
        return tuple(_find_operator(index, namespace, rest))
    if written.startswith(_OPS_PREFIX):
        return tuple(_find_dotted_operator(index, written.removeprefix(_OPS_PREFIX)))
    if "." in written:
        first, _, rest = written.partition(".")
        paths = (written, f"{_ABBREVIATIONS.get(first, first)}.{rest}", f"torch.{written}")
        for path in paths:
            if found := tuple(_find_name(index, path)):
                return found
        return tuple(_find_dotted_operator(index, written)) or tuple(
            _find_in_all_namespaces(index, first, rest)
        )
    if found := tuple(_find_by_leaf(index, written)):
        return found
    return tuple(
        subject
        for namespace in index.namespaces
        for subject in _find_operator(index, namespace, written)
    ) or tuple(_find_name(index, written))


def nearest_names(index: OperatorIndex, written: str) -> tuple[str, ...]:
    """Return at most three similar names, for a name ``written`` that does not exist."""
    if "::" in written:
        namespace, _, rest = written.partition("::")
        return tuple(
            difflib.get_close_matches(
                f"{namespace}::{rest.partition('.')[0]}",
                [entry.key for entry in index.operators(namespace)],
                n=3,
            )
        )
    leaf = written.strip().rpartition(".")[2]
    close = difflib.get_close_matches(leaf, index.leaves, n=3, cutoff=0.7)
    return tuple(s.path for name in close for s in tuple(_find_by_leaf(index, name))[:1])


def _find_name(index: OperatorIndex, path: str) -> Iterator[Subject]:
    name = index.target(path)
    if name is not None:
        yield Subject(0, 0, path, name=name)


def _find_by_leaf(index: OperatorIndex, leaf: str) -> Iterator[Subject]:
    """Yield the functions and classes whose dotted path ends with ``leaf``: ``torch.add`` for
    ``add``.

    Each object is yielded under one path only. Names of ``torch`` come first, followed by methods
    of tensors. Private names are yielded only if there are not any public ones.
    """
    paths = [
        path for path in index.paths_ending_with(leaf) if not _is_private(path)
    ] or index.paths_ending_with(leaf)
    seen = set()
    for path in sorted(paths, key=_rank_key):
        for subject in _find_name(index, path):
            same = subject.name.path if subject.name is not None else path
            if same not in seen:
                seen.add(same)
                yield subject


def _is_private(path: str) -> bool:
    return any(part.startswith("_") for part in path.split(".")[:-1])


def _rank_key(path: str) -> tuple[int, int, str]:
    parent = path.rpartition(".")[0]
    order = ("torch", "torch.Tensor", "torch.nn.functional")
    return (order.index(parent) if parent in order else len(order), path.count("."), path)


def _find_dotted_operator(index: OperatorIndex, dotted: str) -> Iterator[Subject]:
    """Yield the operator that a user wrote as ``aten.max`` or ``aten.max.dim``, if it exists."""
    namespace, _, rest = dotted.partition(".")
    yield from _find_operator(index, namespace, rest)


def _find_operator(index: OperatorIndex, namespace: str, rest: str) -> Iterator[Subject]:
    name, dot, overload_name = rest.partition(".")
    operator = index.operator(f"{namespace}::{name}")
    if operator is None:
        return
    path = f"{_OPS_PREFIX}{namespace}.{name}"
    if not dot:
        yield Subject(0, 0, path, operator=operator)
        return
    yield from _find_overload(operator, path, "" if overload_name == "default" else overload_name)


def _find_overload(operator: Operator, path: str, overload_name: str) -> Iterator[Subject]:
    for overload in operator.overloads:
        if overload.name == overload_name:
            shown = f"{path}.{overload_name or 'default'}"
            yield Subject(0, 0, shown, operator=operator, overload=overload)


def _find_in_all_namespaces(
    index: OperatorIndex, name: str, overload_name: str
) -> Iterator[Subject]:
    """Yield overloads with this operator and overload name in any namespace, such as
    ``max.dim``.
    """
    for namespace in index.namespaces:
        yield from _find_operator(index, namespace, f"{name}.{overload_name}")
