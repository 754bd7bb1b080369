"""Conversion between dataclasses and plain data for JSON."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import types
import typing
from typing import Any, Union

# Bound at import: user code in the engine's processes may replace functions of `json`.
_loads, _dumps = json.loads, json.dumps


def to_plain(value: Any) -> Any:
    """Convert a dataclass to dictionaries, lists and values that JSON can represent; the inverse of
    :func:`from_plain`."""
    return _loads(_dumps(as_plain(value)))


def from_plain(kind: Any, raw: Any) -> Any:
    """Convert plain JSON data to a value of type ``kind``; missing dataclass fields get their
    defaults.

    Raises:
        TypeError, KeyError, ValueError, AttributeError: The data does not fit the type.
    """
    if dataclasses.is_dataclass(kind):
        hints = _type_hints(typing.cast("type", kind))
        # Unknown keys are ignored: a newer peer may send more than this version knows.
        return kind(
            **{name: from_plain(hints[name], item) for name, item in raw.items() if name in hints}
        )  # type: ignore[operator]
    origin = typing.get_origin(kind)
    if origin is tuple:
        kinds = typing.get_args(kind)
        if kinds[-1] is Ellipsis:
            return tuple(from_plain(kinds[0], item) for item in raw)
        if len(kinds) != len(raw):
            raise ValueError(f"{len(raw)} items instead of {len(kinds)}")
        return tuple(from_plain(one, item) for one, item in zip(kinds, raw))  # noqa: B905
    if origin in (Union, types.UnionType):
        if raw is None:
            return None
        return from_plain(_select_type(typing.get_args(kind), raw), raw)
    if origin is typing.Literal:
        if raw not in typing.get_args(kind):
            raise ValueError(f"{raw!r} is not one of {typing.get_args(kind)}")
        return raw
    if isinstance(kind, enum.EnumMeta):
        return kind(raw)
    if kind is float and type(raw) is int and abs(raw) < 1 << 53:
        return float(raw)
    # User code can change this data, so values of another type than the declared one are rejected.
    if kind in (str, int, float, bool) and type(raw) is not kind:
        raise TypeError(f"{type(raw).__name__} instead of {kind.__name__}")
    return raw


def _select_type(kinds: tuple[Any, ...], raw: Any) -> Any:
    """Return the type of a union that fits plain data: a dataclass by its field ``kind``, other
    types by the data's Python type."""
    kinds = tuple(one for one in kinds if one is not type(None))
    if len(kinds) == 1:
        return kinds[0]
    if not all(map(dataclasses.is_dataclass, kinds)):
        return type(raw) if type(raw) in kinds else kinds[0]
    found = [one for one in kinds if dict(field_defaults(one)).get("kind") == raw["kind"]]
    if not found:
        raise ValueError(f"there is no kind {raw['kind']!r}")
    return found[0]


def as_plain(value: Any) -> Any:
    """Convert nested dataclasses to dictionaries of all fields, tuples to lists, and enums to their
    values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): as_plain(item) for key, item in value.items()}
    return value.value if isinstance(value, enum.Enum) else value


def as_sparse_plain(value: Any) -> Any:
    """Convert nested dataclasses to dictionaries, leaving out fields with their default values.

    Tuples become lists, and enums become their values.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            name: as_sparse_plain(item)
            for name, default in field_defaults(type(value))
            if (item := getattr(value, name)) != default
        }
    if isinstance(value, (list, tuple)):
        return [as_sparse_plain(item) for item in value]
    return value


@functools.cache
def _type_hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@functools.cache
def field_defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a dataclass in order, each with its default or ``MISSING``."""
    return tuple((field.name, field.default) for field in dataclasses.fields(kind))
