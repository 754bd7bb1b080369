"""Iterators and dictionary views as arguments of a call.

An iterator can be consumed only once, and each test call needs its own iterator with its own
tensors. So these arguments are converted to tuples when the call is built, and back before each
test call.
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

_MAX_ELEMENTS = 1_000
"""Maximum number of elements of an iterator argument; longer iterators are not converted to a
tuple.
"""

_consumed: dict[int, tuple[Any, tuple[Any, ...]]] = {}
"""Elements of iterators that were already consumed, by the iterator's ``id``.

They are needed because the user's inputs may contain one iterator twice.
"""


def _identity(value: Any) -> Any:
    return value


def _accept(_: Any) -> bool:
    return True


def _generate(values: tuple[Any, ...]) -> Iterator[Any]:
    yield from values


def _enumerate_again(values: tuple[Any, ...]) -> Any:
    return enumerate((one for _, one in values), values[0][0] if values else 0)


_BUILDERS: dict[type, Callable[[tuple[Any, ...]], Any]] = {
    type({}.items()): lambda values: dict(values).items(),
    type({}.values()): lambda values: dict(enumerate(values)).values(),
    zip: lambda values: zip(*zip(*values)),  # noqa: B905
    map: lambda values: map(_identity, values),
    filter: lambda values: filter(_accept, values),
    enumerate: _enumerate_again,
    types.GeneratorType: _generate,
    type(iter([])): lambda values: iter(list(values)),
    type(reversed([])): lambda values: reversed(list(values[::-1])),
    itertools.chain: lambda values: itertools.chain(values),
    itertools.islice: lambda values: itertools.islice(values, len(values)),
}
"""Function that builds an iterator or dictionary view from its elements, by its type."""


def replace_iterators(call: Call) -> Call:
    """Replace iterators and dictionary views among the arguments of a call by tuples."""
    bound = bind_arguments(call.function, call.args, call.kwargs)
    if bound is None:
        return call
    kinds: dict[str, type] = {}
    for name, value in list(bound.arguments.items()):
        elements = _read_elements(value)
        if elements is not None:
            bound.arguments[name] = elements
            kinds[name] = type(value)
    if not kinds:
        return call
    return replace(call, args=bound.args, kwargs=bound.kwargs, iterated=kinds)


def rebuild_iterators(
    call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Convert the tuples among the arguments back to iterators and dictionary views.

    ``call`` remembers which arguments :func:`replace_iterators` converted.
    """
    bound = bind_arguments(call.function, args, kwargs) if call.iterated else None
    if bound is None:
        return args, kwargs
    for name, kind in call.iterated.items():
        bound.arguments[name] = _BUILDERS[kind](bound.arguments[name])
    return bound.args, bound.kwargs


def bind_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> inspect.BoundArguments | None:
    """Return the arguments by parameter, or None if they do not match the function's signature."""
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        return inspect.signature(called).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None


def _read_elements(value: Any) -> tuple[Any, ...] | None:
    """Return the elements of an iterator or dictionary view.

    Return None for other values, for more than ``_MAX_ELEMENTS`` elements, and if iterating raises.
    """
    if type(value) not in _BUILDERS:
        return None
    if id(value) not in _consumed:
        try:
            found = tuple(itertools.islice(value, _MAX_ELEMENTS + 1))
        except Exception:  # raised by the user's generator
            return None
        _consumed[id(value)] = (value, found)
    found = _consumed[id(value)][1]
    return found if len(found) <= _MAX_ELEMENTS else None
