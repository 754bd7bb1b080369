"""Conversion between dataclasses and plain data for JSON."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import types
import typing
from collections.abc import Callable
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
    return _find_reader(kind)(raw)


@functools.cache
def _find_reader(kind: Any) -> Callable[[Any], Any]:
    """Return a function that converts plain data to a value of type ``kind``.

    It is made once for each type, because examining types takes longer than reading a value.
    """
    if dataclasses.is_dataclass(kind):
        return functools.partial(_read_dataclass, kind)
    origin, kinds = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and kinds[-1] is Ellipsis:
        return functools.partial(_read_items, _find_reader(kinds[0]))
    if origin is tuple:
        return functools.partial(_read_fixed_items, tuple(map(_find_reader, kinds)))
    if origin in (Union, types.UnionType):
        return functools.partial(_read_union, kinds)
    if origin is typing.Literal:
        return functools.partial(_read_literal, frozenset(kinds))
    if isinstance(kind, enum.EnumMeta):
        return kind
    if kind in (str, int, float, bool):
        return functools.partial(_read_scalar, kind)
    return _return_unchanged


def _read_dataclass(kind: Any, raw: Any) -> Any:
    readers = _field_readers(kind)
    # Unknown keys are ignored: a newer peer may send more than this version knows.
    return kind(**{name: readers[name](item) for name, item in raw.items() if name in readers})


@functools.cache
def _field_readers(kind: type) -> dict[str, Callable[[Any], Any]]:
    return {name: _find_reader(hint) for name, hint in typing.get_type_hints(kind).items()}


def _read_items(read_item: Callable[[Any], Any], raw: Any) -> Any:
    return tuple(map(read_item, raw))


def _read_fixed_items(readers: tuple[Callable[[Any], Any], ...], raw: Any) -> Any:
    if len(readers) != len(raw):
        raise ValueError(f"{len(raw)} items instead of {len(readers)}")
    return tuple(read(item) for read, item in zip(readers, raw))  # noqa: B905


def _read_union(kinds: tuple[Any, ...], raw: Any) -> Any:
    return None if raw is None else _find_reader(_select_type(kinds, raw))(raw)


def _read_literal(values: frozenset[Any], raw: Any) -> Any:
    if raw not in values:
        raise ValueError(f"{raw!r} is not one of {sorted(values, key=repr)}")
    return raw


def _read_scalar(kind: type, raw: Any) -> Any:
    # User code can change this data, so values of another type than the declared one are rejected.
    if type(raw) is kind:
        return raw
    if kind is float and type(raw) is int and abs(raw) < 1 << 53:
        return float(raw)
    raise TypeError(f"{type(raw).__name__} instead of {kind.__name__}")


def _return_unchanged(raw: Any) -> Any:
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
def field_defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a dataclass in order, each with its default or ``MISSING``."""
    return tuple((field.name, field.default) for field in dataclasses.fields(kind))
