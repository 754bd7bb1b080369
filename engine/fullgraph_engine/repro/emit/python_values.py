"""Expressions that recreate values of builtin types and of the standard library."""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import threading
import types
from typing import Any

from ...targets.probes import unwrap_compiled
from .displays import kind_name, list_display
from .printer import PLAIN_BASES, Printer
from .unwritable import UnwritableValue

_LONG = 8
"""Maximum length of a list of consecutive integers to write item by item, not as a ``range``."""

_IMMUTABLE = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))

LOCKS: dict[type, str] = {
    type(threading.Lock()): "Lock",
    type(threading.RLock()): "RLock",
    threading.Condition: "Condition",
    threading.Event: "Event",
}
"""Constructors of locks by class; the generated program creates them unlocked."""


# -- functions ----------------------------------------------------------------------------------


def write_compiled(printer: Printer, value: Any, path: str | None) -> str | None:
    """Return an expression for the original of a function or module that ``torch.compile``
    returned.

    The generated program calls ``torch.compile`` itself. The result is None for other values.
    """
    original = unwrap_compiled(value)
    return None if original is value else printer.expression(original, path)


def write_bound_method(printer: Printer, value: Any, path: str | None) -> str:
    """Return an expression that recreates a bound builtin method, like ``[].append``."""
    return f"{printer.operand(value.__self__, None)}.{value.__name__}"


def write_reference(printer: Printer, value: Any, path: str | None) -> str:
    """Return the generated program's name for a function, class or module."""
    return printer.refer_to(value)


def write_repr(printer: Printer, value: Any, path: str | None) -> str:
    """Return the ``repr`` of a value, like ``range(0, 3)`` or ``torch.float32``."""
    return repr(value)


def write_enum_member(printer: Printer, value: enum.Enum, path: str | None) -> str:
    """Return the name of an enum member, like ``Color.RED``."""
    owner = printer.refer_to(type(value))
    name = value.name
    if isinstance(name, str) and type(value).__members__.get(name) is value:
        return f"{owner}.{name}" if name.isidentifier() else f"{owner}[{name!r}]"
    return f"{owner}({printer.expression(value.value, None)})"


# -- containers ---------------------------------------------------------------------------------


def write_list(printer: Printer, value: list[Any], path: str | None) -> str:
    """Return an expression that recreates a list, like ``[1, 2]`` or ``list(range(9))``."""
    if len(value) > _LONG and value == list(range(len(value))) and {*map(type, value)} == {int}:
        return f"list(range({len(value)}))"
    texts = printer.items(value, path)
    return list_display(texts, immutable=all(isinstance(item, _IMMUTABLE) for item in value))


def write_tuple(printer: Printer, value: tuple[Any, ...], path: str | None) -> str:
    """Return an expression that recreates a tuple, like ``(1, 2)``."""
    texts = printer.items(value, None)
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def write_set(printer: Printer, value: Any, path: str | None) -> str:
    """Return an expression that recreates a set, like ``{1, 2}`` or ``frozenset({1, 2})``."""
    # Sorted, because the order of a set of strings differs between processes.
    shown = "{" + ", ".join(sorted(printer.items(list(value), None))) + "}" if value else ""
    return shown if value and type(value) is set else f"{type(value).__name__}({shown})"


def write_partial(printer: Printer, value: functools.partial[Any], path: str | None) -> str:
    """Return an expression that recreates a partial function, like ``functools.partial(f, 1)``."""
    name = f"{printer.refer_to(functools)}.partial"
    return printer.call_text(name, [value.func, *value.args], value.keywords)


def write_namespace(printer: Printer, value: types.SimpleNamespace, path: str | None) -> str:
    """Return an expression like ``types.SimpleNamespace(a=1)`` that recreates a namespace."""
    return printer.call_text(f"{printer.refer_to(types)}.SimpleNamespace", [], vars(value))


# -- classes ------------------------------------------------------------------------------------


def write_dataclass(printer: Printer, value: Any, path: str | None) -> str | None:
    """Return a constructor call that recreates a dataclass instance; None for other values.

    Fields that equal their default are left out.
    """
    kind = type(value)
    given: dict[str, object] = {}
    fields = {field.name: field for field in dataclasses.fields(value)}
    attributes = getattr(value, "__dict__", None)
    if attributes is not None and not set(attributes) <= set(fields):
        return None
    for field in fields.values():
        if not field.init:
            continue
        if not hasattr(value, field.name):
            return None
        content = getattr(value, field.name)
        if not _is_default(field, content):
            given[field.name] = content
    parts = [
        f"{name}={printer.expression(content, None if path is None else f'{path}.{name}')}"
        for name, content in given.items()
    ]
    return f"{printer.refer_to(kind)}({', '.join(parts)})"


def _is_default(field: dataclasses.Field[Any], content: object) -> bool:
    default = field.default
    if default is dataclasses.MISSING:
        if field.default_factory is dataclasses.MISSING:
            return False
        if field.default_factory not in (list, dict, set, tuple):
            return False
        default = field.default_factory()
    if type(default) is not type(content):
        return False
    if isinstance(content, (list, dict, set, tuple)):
        return not content and not default
    return default is content or (isinstance(content, _IMMUTABLE) and default == content)


def write_tuple_subclass(printer: Printer, value: Any, path: str | None) -> str | None:
    """Return an expression that recreates a named tuple or a struct sequence like
    ``time.struct_time``.

    Return None for other values.
    """
    kind = type(value)
    if hasattr(kind, "_fields"):
        return printer.call_text(printer.refer_to(kind), list(value), {})
    if hasattr(kind, "n_sequence_fields"):
        return f"{printer.refer_to(kind)}({printer.expression(tuple(value), None)})"
    return None


def write_plain_subclass(printer: Printer, value: Any, path: str | None) -> str | None:
    """Return an expression for an instance of a class derived from a builtin; None for other
    values.

    Instances with attributes also give None.
    """
    if getattr(value, "__dict__", None):
        return None
    base = next(one for one in PLAIN_BASES if isinstance(value, one))
    plain = base(value)
    return f"{printer.refer_to(type(value))}({printer.expression(plain, None) if plain else ''})"


def write_lock(printer: Printer, value: Any, path: str | None) -> str:
    """Return an expression for a new, unlocked lock."""
    return f"{printer.refer_to(threading)}.{LOCKS[type(value)]}()"


def is_standard(value: object) -> bool:
    """Whether the class of a value is part of Python's standard library."""
    module = type(value).__module__
    return module.split(".")[0] in sys.stdlib_module_names


def write_reduced(printer: Printer, value: Any, path: str | None) -> str | None:
    """Return the expression by which ``pickle`` would recreate an object, or None.

    Only objects of the standard library are written this way. The items of an object become
    arguments of a constructor call: the first argument for a ``deque``, the last for a
    ``defaultdict``.
    """
    try:
        reduced = value.__reduce_ex__(2)
    except Exception as error:
        raise UnwritableValue(
            f"a {kind_name(type(value))} cannot be written as code ({error})"
        ) from error
    if isinstance(reduced, str):
        return printer.refer_to(value)
    function, args, *rest = reduced
    if function is iter and len(args) == 1:
        # The pickled state of an iterator is its position in the list.
        left = args[0][rest[0] or 0 :] if rest else args[0]
        return printer.call_text("iter", [left], {})
    state, items, pairs = (*rest, None, None, None)[:3]
    if state is not None:
        return None
    if getattr(function, "__name__", "") == "__newobj__":
        function, args = args[0], args[1:]
    if items is not None:
        args = (list(items), *args[1:])
    if pairs is not None:
        args = (*args, dict(pairs))
    return printer.call_text(printer.refer_to(function), args, {})
