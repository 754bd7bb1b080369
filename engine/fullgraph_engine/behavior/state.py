"""Collect the state that a call can change besides its arguments: the object of a method, and the
globals of its file.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..targets.probes import unwrap_compiled
from .facts import CLOSURE, FactCollector, default_values, function_state


def subject_of(function: Callable[..., Any]) -> Any:
    """Return the object that a call can change: a module, or the object of a bound method.

    None for a plain function.
    """
    if isinstance(function, torch.nn.Module):
        return function
    return getattr(function, "__self__", None)


def collect_state(
    collector: FactCollector, function: Callable[..., Any], namespace: Mapping[str, Any]
) -> None:
    """Collect everything that a function may change, to compare it before and after a call.

    Collected are the object of the function, and the globals of its file (``namespace``).
    """
    subject = subject_of(function)
    if subject is not None:
        collector.collect("self", subject)
    _collect_function(collector, getattr(function, "__name__", "function"), function)
    home = namespace.get("__name__")
    for name, value in list(namespace.items()):
        if name.startswith("__") or isinstance(value, types.ModuleType):
            continue
        if callable(value):
            # Whether a function is compiled is not part of its behavior.
            value = unwrap_compiled(value)
        is_own = getattr(value, "__module__", None) == home
        if isinstance(value, type):
            if is_own:
                _collect_class(collector, name, value)
        elif isinstance(value, types.FunctionType):
            if is_own:
                _collect_function(collector, name, value)
        elif not callable(value) or isinstance(value, torch.nn.Module) or is_own:
            collector.collect_global(name, value)


def _collect_class(collector: FactCollector, path: str, kind: type) -> None:
    """Collect the values of plain attributes of the class ``kind``, such as counters, and the
    defaults of its methods. ``path`` names the class.
    """
    for name, value in list(vars(kind).items()):
        if isinstance(value, types.FunctionType):
            _collect_defaults(collector, f"{path}.{name}", value)
        descriptor = hasattr(type(value), "__get__") or isinstance(value, type)
        if not name.startswith("__") and not descriptor:
            collector.collect(f"{path}.{name}", value)


def _collect_function(collector: FactCollector, path: str, function: Any) -> None:
    """Collect the values of a function's defaults, attributes and closure variables. ``path`` names
    the function.
    """
    if not isinstance(function, types.FunctionType):
        return
    _collect_defaults(collector, path, function)
    for name, value in function_state(function):
        variable = name.removeprefix(CLOSURE)
        if variable == name:
            collector.collect(f"{path}.{name}", value)
        elif not isinstance(value, (type, types.FunctionType)):
            collector.collect(f"{variable} of {path}", value)


def _collect_defaults(collector: FactCollector, path: str, function: types.FunctionType) -> None:
    for name, value in default_values(function).items():
        collector.collect(f"the default of `{name}` of {path}", value)
