"""Arguments that can be iterated over only once, or are views of a dictionary.

Each case needs its own, with tensors of its own in it. So they are taken apart into tuples, as they
may be written in the other text, and made anew for the call.
"""

from __future__ import annotations

import inspect
import itertools
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from ..targets import Call

_MOST = 1_000
"""Elements; of more, an iterator is left as it is."""

_taken: dict[int, tuple[Any, tuple[Any, ...]]] = {}
"""Iterators by their ids, with what was in them: the probe gives the same one again."""


def _same(value: Any) -> Any:
    return value


def _all(_: Any) -> bool:
    return True


def _generated(values: tuple[Any, ...]) -> Iterator[Any]:
    yield from values


def _numbered(values: tuple[Any, ...]) -> Any:
    return enumerate((one for _, one in values), values[0][0] if values else 0)


_MADE: dict[type, Callable[[tuple[Any, ...]], Any]] = {
    type({}.items()): lambda values: dict(values).items(),
    type({}.values()): lambda values: dict(enumerate(values)).values(),
    zip: lambda values: zip(*zip(*values)),  # noqa: B905
    map: lambda values: map(_same, values),
    filter: lambda values: filter(_all, values),
    enumerate: _numbered,
    types.GeneratorType: _generated,
    type(iter([])): lambda values: iter(list(values)),
    type(reversed([])): lambda values: reversed(list(values[::-1])),
    itertools.chain: lambda values: itertools.chain(values),
    itertools.islice: lambda values: itertools.islice(values, len(values)),
}
"""How an object of a type is made of its elements."""


def taken_apart(call: Call) -> Call:
    """A call with tuples in place of such arguments."""
    bound = _bound(call.function, call.args, call.kwargs)
    if bound is None:
        return call
    kinds: dict[str, type] = {}
    for name, value in list(bound.arguments.items()):
        elements = _elements(value)
        if elements is not None:
            bound.arguments[name] = elements
            kinds[name] = type(value)
    if not kinds:
        return call
    return replace(call, args=bound.args, kwargs=bound.kwargs, iterated=kinds)


def made_anew(
    call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments for the function of such a call, with iterators and views again."""
    bound = _bound(call.function, args, kwargs) if call.iterated else None
    if bound is None:
        return args, kwargs
    for name, kind in call.iterated.items():
        bound.arguments[name] = _MADE[kind](bound.arguments[name])
    return bound.args, bound.kwargs


def _bound(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> inspect.BoundArguments | None:
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        return inspect.signature(called).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None


def _elements(value: Any) -> tuple[Any, ...] | None:
    """What is in an iterator or view; None for anything else, and for too many or an error."""
    if type(value) not in _MADE:
        return None
    if id(value) not in _taken:
        try:
            found = tuple(itertools.islice(value, _MOST + 1))
        except Exception:  # of the user's code in it
            return None
        _taken[id(value)] = (value, found)
    found = _taken[id(value)][1]
    return found if len(found) <= _MOST else None
