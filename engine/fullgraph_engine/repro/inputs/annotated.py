"""Inputs for a function whose annotations say what it takes: ``def f(x: "f32[s0, 16]")``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ...targets import NotationError, notation, tensors
from ..writing.unwritable import Unwritable


def arguments(
    function: Callable[..., Any], sizes: Mapping[str, int] | None = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What ``function`` can be called with. ``sizes`` are those of symbols, the others are chosen.

    Raises:
        Unwritable: a parameter without a default has no such annotation.
    """
    positional: list[notation.Value] = []
    named: list[tuple[str, notation.Value]] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        value = _value(parameter.annotation)
        if value is None:
            if parameter.default is parameter.empty:
                raise Unwritable(f"the parameter `{parameter.name}` has no shape annotation")
            continue
        skipped = len(positional) < _position(function, parameter.name)
        if parameter.kind is parameter.KEYWORD_ONLY or skipped:
            named.append((parameter.name, value))
        else:
            positional.append(value)
    wanted = notation.Arguments(tuple(positional), tuple(named))
    chosen = {**notation.choose_sizes(wanted), **(sizes or {})}
    built = tensors.build(wanted, chosen, getattr(function, "__globals__", {}))
    return built.args, built.kwargs


def _position(function: Callable[..., Any], name: str) -> int:
    return list(inspect.signature(function).parameters).index(name)


def _value(annotation: object) -> notation.Value | None:
    if not isinstance(annotation, str):
        return None
    # Under ``from __future__ import annotations`` the text of a string has its quotes.
    text = annotation.strip()
    if text[:1] in "\"'" and text[-1:] == text[:1]:
        text = text[1:-1]
    try:
        value = notation.parse_value(text)
    except NotationError:
        return None
    return value if next(iter(notation.tensors(notation.Arguments((value,)))), None) else None
