"""Compact JSON for thousands of small dataclasses: fields by position, and each distinct string
only once.

The text is ``[texts, value]`` as JSON. In the value, a dataclass is the list of its fields up to
the last field with another value than its default. A tuple or a set is a list, and a string is its
index in ``texts``.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, TypeVar, Union

from .plain import field_defaults

# Bound at import: user code in the engine's processes may replace functions of `json`.
_loads, _dumps = json.loads, json.dumps

Decoder = Callable[[Any, "list[str]"], Any]
T = TypeVar("T")


def pack(value: Any) -> str:
    """Return a compact JSON text of a dataclass, or of a tuple of dataclasses.

    Raises:
        TypeError: It contains other values than dataclasses, tuples, sets and plain values.
    """
    texts: dict[str, int] = {}
    body = _encode(value, texts)
    return _dumps([list(texts), body], separators=(",", ":"), ensure_ascii=False)


def unpack(kind: Any, text: str) -> Any:
    """Decode a text that :func:`pack` wrote into a value of type ``kind``.

    Raises:
        ValueError: The text is not a packed value of this type.
    """
    try:
        texts, body = _loads(text)
        if not all(type(one) is str for one in texts):
            raise TypeError("an item of the list of texts is not a string")
        return _build_decoder(kind)(body, texts)
    except (TypeError, IndexError, KeyError, RecursionError) as error:
        raise ValueError(f"no {kind}: {error}") from error


def unpack_items(kind: type[T], text: str) -> tuple[T, ...]:
    """Decode a text that :func:`pack` wrote from a tuple of ``kind``; return an empty tuple if it
    is invalid."""
    try:
        found: tuple[T, ...] = unpack(tuple[kind, ...], text)  # type: ignore[valid-type]
    except ValueError:
        return ()
    return found


def _encode(value: Any, texts: dict[str, int]) -> Any:
    kind = type(value)
    if kind is str:
        return texts.setdefault(value, len(texts))
    if value is None or kind in (int, float, bool):
        return value
    if kind in (tuple, list):
        return [_encode(item, texts) for item in value]
    if kind is frozenset:
        return [_encode(item, texts) for item in sorted(value)]
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"a {kind.__name__} cannot be packed")
    items: list[Any] = []
    last = 0
    for number, (name, default) in enumerate(field_defaults(kind), start=1):
        item = getattr(value, name)
        last = number if item != default else last
        items.append(item)
    return [_encode(item, texts) for item in items[:last]]


@functools.cache
def _build_decoder(kind: Any) -> Decoder:
    """Return a function that decodes the JSON value of :func:`pack` into a value of type
    ``kind``."""
    if dataclasses.is_dataclass(kind):
        return _build_dataclass_decoder(typing.cast("type", kind))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (tuple, frozenset):
        item = _build_decoder(arguments[0])
        return lambda raw, texts: origin([item(one, texts) for one in _check_type(raw, list)])
    if origin is Literal:
        return lambda raw, texts: _check_choice(_look_up_text(raw, texts), frozenset(arguments))
    if origin in (Union, types.UnionType):
        inner = [one for one in arguments if one is not type(None)]
        if len(inner) > 1:
            # Plain values, which JSON keeps distinct.
            return lambda raw, texts: raw if raw is None else _check_type(raw, bool, int, float)
        one = _build_decoder(inner[0])
        return lambda raw, texts: None if raw is None else one(raw, texts)
    if kind is str:
        return _look_up_text
    kinds = (int, float) if kind is float else (kind,)
    return lambda raw, texts: raw if type(raw) in kinds else _check_type(raw, *kinds)


def _build_dataclass_decoder(kind: type) -> Decoder:
    hints = typing.get_type_hints(kind)
    items = [_build_decoder(hints[name]) for name, _ in field_defaults(kind)]

    def decode(raw: Any, texts: list[str]) -> Any:
        if len(_check_type(raw, list)) > len(items):
            raise TypeError(f"{kind.__name__} has fewer than {len(raw)} fields")
        return kind(*[item(one, texts) for item, one in zip(items, raw)])  # noqa: B905

    return decode


def _check_type(raw: Any, *kinds: type) -> Any:
    if type(raw) not in kinds:
        raise TypeError(f"{raw!r} is no {kinds[0].__name__}")
    return raw


def _look_up_text(raw: Any, texts: list[str]) -> str:
    if type(raw) is not int or raw < 0:
        raise TypeError(f"{raw!r} is not the number of a text")
    return texts[raw]


def _check_choice(text: str, allowed: frozenset[str]) -> str:
    if text not in allowed:
        raise TypeError(f"{text!r} is not one of {', '.join(sorted(allowed))}")
    return text
