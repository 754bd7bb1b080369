"""State that a call can change besides its arguments: its object, and the globals of its file."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..targets.probes import unwrap
from .facts import Walk


def subject_of(function: Callable[..., Any]) -> Any:
    """Return the module, or the object of a bound method; None for a plain function."""
    if isinstance(function, torch.nn.Module):
        return function
    return getattr(function, "__self__", None)


def walk_state(walk: Walk, function: Callable[..., Any], namespace: Mapping[str, Any]) -> None:
    """Collect facts of the state that a function may change, in its object and its file."""
    subject = subject_of(function)
    if subject is not None:
        walk.value("self", subject)
    _function(walk, getattr(function, "__name__", "function"), function)
    home = namespace.get("__name__")
    for name, value in list(namespace.items()):
        if name.startswith("__") or isinstance(value, types.ModuleType):
            continue
        if callable(value):
            value = unwrap(value)  # how it is compiled is not part of its behavior
        own = getattr(value, "__module__", None) == home
        if isinstance(value, type):
            if own:
                _class(walk, name, value)
        elif isinstance(value, types.FunctionType):
            if own:
                _function(walk, name, value)
        elif not callable(value) or isinstance(value, torch.nn.Module) or own:
            walk.named(name, value)


def _class(walk: Walk, path: str, kind: type) -> None:
    """Collect the plain attributes of a class, such as counters."""
    for name, value in list(vars(kind).items()):
        descriptor = hasattr(type(value), "__get__") or isinstance(value, type)
        if not name.startswith("__") and not descriptor:
            walk.value(f"{path}.{name}", value)


def _function(walk: Walk, path: str, function: Any) -> None:
    """Collect what a function keeps between calls: defaults, attributes, closure variables."""
    if not isinstance(function, types.FunctionType):
        return
    for number, value in enumerate(function.__defaults__ or ()):
        walk.value(f"default {number} of {path}", value)
    for name, value in (function.__kwdefaults__ or {}).items():
        walk.value(f"default {name} of {path}", value)
    for name, value in list(vars(function).items()):
        walk.value(f"{path}.{name}", value)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        if not isinstance(value, (type, types.FunctionType)):
            walk.value(f"{name} of {path}", value)
