"""Thousands of small dataclasses as one short text: fields by position, each text once.

``[texts, value]`` as JSON. In the value a dataclass is the list of its fields up to the last that
is not the default, a tuple or a set is a list, and a text is its number in ``texts``.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, TypeVar, Union

from .plain import defaults

# Bound now: user code in the engine's processes may replace the functions of `json`.
_loads, _dumps = json.loads, json.dumps

Decoder = Callable[[Any, "list[str]"], Any]
T = TypeVar("T")


def packed(value: Any) -> str:
    """A dataclass, or a tuple of some, as text.

    Raises:
        TypeError: it holds something else than dataclasses, tuples, sets and plain values.
    """
    texts: dict[str, int] = {}
    body = _encoded(value, texts)
    return _dumps([list(texts), body], separators=(",", ":"), ensure_ascii=False)


def unpacked(kind: Any, text: str) -> Any:
    """The value of this type that was packed.

    Raises:
        ValueError: the text is not that of one.
    """
    try:
        texts, body = _loads(text)
        if not all(type(one) is str for one in texts):
            raise TypeError("not all texts are texts")
        return _decoder(kind)(body, texts)
    except (TypeError, IndexError, KeyError, RecursionError) as error:
        raise ValueError(f"no {kind}: {error}") from error


def items_of(kind: type[T], text: str) -> tuple[T, ...]:
    """The dataclasses of a tuple that was packed; none if the text is not that of one."""
    try:
        found: tuple[T, ...] = unpacked(tuple[kind, ...], text)  # type: ignore[valid-type]
    except ValueError:
        return ()
    return found


def _encoded(value: Any, texts: dict[str, int]) -> Any:
    kind = type(value)
    if kind is str:
        return texts.setdefault(value, len(texts))
    if value is None or kind in (int, float, bool):
        return value
    if kind in (tuple, list):
        return [_encoded(item, texts) for item in value]
    if kind is frozenset:
        return [_encoded(item, texts) for item in sorted(value)]
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"a {kind.__name__} cannot be packed")
    items: list[Any] = []
    last = 0
    for number, (name, default) in enumerate(defaults(kind), start=1):
        item = getattr(value, name)
        last = number if item != default else last
        items.append(item)
    return [_encoded(item, texts) for item in items[:last]]


@functools.cache
def _decoder(kind: Any) -> Decoder:
    """What makes a value of a type out of its packed form."""
    if dataclasses.is_dataclass(kind):
        return _dataclass(typing.cast("type", kind))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (tuple, frozenset):
        item = _decoder(arguments[0])
        return lambda raw, texts: origin([item(one, texts) for one in _checked(raw, list)])
    if origin is Literal:
        return lambda raw, texts: _checked_text(_text(raw, texts), frozenset(arguments))
    if origin in (Union, types.UnionType):
        inner = [one for one in arguments if one is not type(None)]
        if len(inner) > 1:
            # Plain values, which JSON tells apart.
            return lambda raw, texts: raw if raw is None else _checked(raw, bool, int, float)
        one = _decoder(inner[0])
        return lambda raw, texts: None if raw is None else one(raw, texts)
    if kind is str:
        return _text
    kinds = (int, float) if kind is float else (kind,)
    return lambda raw, texts: raw if type(raw) in kinds else _checked(raw, *kinds)


def _dataclass(kind: type) -> Decoder:
    hints = typing.get_type_hints(kind)
    items = [_decoder(hints[name]) for name, _ in defaults(kind)]

    def decode(raw: Any, texts: list[str]) -> Any:
        if len(_checked(raw, list)) > len(items):
            raise TypeError(f"{kind.__name__} has no {len(raw)} fields")
        return kind(*[item(one, texts) for item, one in zip(items, raw)])  # noqa: B905

    return decode


def _checked(raw: Any, *kinds: type) -> Any:
    if type(raw) not in kinds:
        raise TypeError(f"{raw!r} is no {kinds[0].__name__}")
    return raw


def _text(raw: Any, texts: list[str]) -> str:
    if type(raw) is not int or raw < 0:
        raise TypeError(f"{raw!r} is no number of a text")
    return texts[raw]


def _checked_text(text: str, allowed: frozenset[str]) -> str:
    if text not in allowed:
        raise TypeError(f"{text!r} is none of {', '.join(sorted(allowed))}")
    return text
