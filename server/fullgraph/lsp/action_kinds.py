"""Kinds of code actions. They are paths: a request for a kind includes all kinds below it."""

from __future__ import annotations

from collections.abc import Iterable

from lsprotocol import types


def asked_for(kind: str, only: Iterable[types.CodeActionKind | str] | None) -> bool:
    """Whether a request includes a kind of code action; without ``only`` it includes all kinds."""
    return only is None or any(_includes(asked, kind) for asked in only)


def _includes(asked: types.CodeActionKind | str, kind: str) -> bool:
    name = asked.value if isinstance(asked, types.CodeActionKind) else asked
    return not name or name == kind or kind.startswith(f"{name}.")
