"""Dataclasses as plain data that JSON can hold, and back."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import types
import typing
from typing import Any, Union

# Bound now: user code in the engine's processes may replace the functions of `json`.
_loads, _dumps = json.loads, json.dumps


def to_plain(value: Any) -> Any:
    """Any dataclass of this package as JSON-ready data."""
    return _loads(_dumps(plain(value)))


def from_plain(kind: Any, raw: Any) -> Any:
    """The inverse of :func:`to_plain` for a known dataclass; what is missing has its default.

    Raises:
        TypeError, KeyError, ValueError, AttributeError: it is no such dataclass.
    """
    if dataclasses.is_dataclass(kind):
        hints = _hints(typing.cast("type", kind))
        # Unknown keys are dropped: a newer peer may say more than this one understands.
        return kind(
            **{name: from_plain(hints[name], item) for name, item in raw.items() if name in hints}
        )  # type: ignore[operator]
    origin = typing.get_origin(kind)
    if origin is tuple:
        kinds = typing.get_args(kind)
        if kinds[-1] is Ellipsis:
            return tuple(from_plain(kinds[0], item) for item in raw)
        if len(kinds) != len(raw):
            raise ValueError(f"{len(raw)} items in place of {len(kinds)}")
        return tuple(from_plain(one, item) for one, item in zip(kinds, raw))  # noqa: B905
    if origin in (Union, types.UnionType):
        if raw is None:
            return None
        return from_plain(_chosen(typing.get_args(kind), raw), raw)
    if origin is typing.Literal:
        if raw not in typing.get_args(kind):
            raise ValueError(f"{raw!r} is none of {typing.get_args(kind)}")
        return raw
    if isinstance(kind, enum.EnumMeta):
        return kind(raw)
    if kind is float and type(raw) is int and abs(raw) < 1 << 53:
        return float(raw)
    # User code may write to where this is read from: what is of another type goes no further.
    if kind in (str, int, float, bool) and type(raw) is not kind:
        raise TypeError(f"{type(raw).__name__} in place of {kind.__name__}")
    return raw


def _chosen(kinds: tuple[Any, ...], raw: Any) -> Any:
    """Which of a union: dataclasses are told apart by their field ``kind``, others by type."""
    kinds = tuple(one for one in kinds if one is not type(None))
    if len(kinds) == 1:
        return kinds[0]
    if not all(map(dataclasses.is_dataclass, kinds)):
        return type(raw) if type(raw) in kinds else kinds[0]
    found = [one for one in kinds if dict(defaults(one)).get("kind") == raw["kind"]]
    if not found:
        raise ValueError(f"there is no {raw['kind']!r}")
    return found[0]


def plain(value: Any) -> Any:
    """Dataclasses as dictionaries of all their fields, tuples as lists, enums as their values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value.value if isinstance(value, enum.Enum) else value


def sparse(value: Any) -> Any:
    """As :func:`plain`, leaving out fields that have their default."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            name: sparse(item)
            for name, default in defaults(type(value))
            if (item := getattr(value, name)) != default
        }
    if isinstance(value, (list, tuple)):
        return [sparse(item) for item in value]
    return value


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@functools.cache
def defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    """The fields of a dataclass in their order, each with its default or ``MISSING``."""
    return tuple((field.name, field.default) for field in dataclasses.fields(kind))
