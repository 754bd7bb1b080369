"""Kinds of code actions, written as dotted names: a request for a kind includes all kinds below
it."""

from __future__ import annotations

from collections.abc import Iterable

from lsprotocol import types


def is_requested(kind: str, only: Iterable[types.CodeActionKind | str] | None) -> bool:
    """Whether a request for code actions includes ``kind``. ``only`` lists the requested kinds;
    None includes all kinds."""
    return only is None or any(_includes_kind(requested, kind) for requested in only)


def _includes_kind(requested: types.CodeActionKind | str, kind: str) -> bool:
    name = requested.value if isinstance(requested, types.CodeActionKind) else requested
    return not name or name == kind or kind.startswith(f"{name}.")
