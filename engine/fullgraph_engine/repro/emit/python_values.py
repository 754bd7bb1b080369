"""Values of Python's own types and of its standard library."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import sys
import threading
import types
from typing import Any

from ...targets.probes import unwrap_compiled
from .displays import kind_name, repeated
from .printer import PLAIN_BASES, Printer
from .unwritable import Unwritable

_LONG = 8
"""From how many equal items on a list is written as a product or a comprehension."""

_IMMUTABLE = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))

VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))

LOCKS: dict[type, str] = {
    type(threading.Lock()): "Lock",
    type(threading.RLock()): "RLock",
    threading.Condition: "Condition",
    threading.Event: "Event",
}
"""Nobody holds them in the program."""


# -- functions ----------------------------------------------------------------------------------


def compiled(printer: Printer, value: Any, place: str | None) -> str | None:
    """What ``torch.compile`` was applied to: the program compiles it itself."""
    original = unwrap_compiled(value)
    return None if original is value else printer.expression(original, place)


def bound_method(printer: Printer, value: Any, place: str | None) -> str:
    """``[].append``"""
    return f"{printer.operand(value.__self__, None)}.{value.__name__}"


def named(printer: Printer, value: Any, place: str | None) -> str:
    """What the program has, or imports, under a name."""
    return printer.refer(value)


def enum_member(printer: Printer, value: enum.Enum, place: str | None) -> str:
    """``Color.RED``"""
    owner = printer.refer(type(value))
    name = value.name
    if isinstance(name, str) and type(value).__members__.get(name) is value:
        return f"{owner}.{name}" if name.isidentifier() else f"{owner}[{name!r}]"
    return f"{owner}({printer.expression(value.value, None)})"


# -- containers ---------------------------------------------------------------------------------


def list_(printer: Printer, value: list[Any], place: str | None) -> str:
    """``[1, 2]``, ``list(range(9))``"""
    if len(value) > _LONG and value == list(range(len(value))) and {*map(type, value)} == {int}:
        return f"list(range({len(value)}))"
    texts = printer.items(value, place)
    return repeated(texts, immutable=all(isinstance(item, _IMMUTABLE) for item in value))


def tuple_(printer: Printer, value: tuple[Any, ...], place: str | None) -> str:
    """``(1, 2)``"""
    texts = printer.items(value, None)
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def ordered_dict(printer: Printer, value: Any, place: str | None) -> str:
    """``collections.OrderedDict({…})``"""
    inner = printer.entries(value, place)
    return f"{printer.refer(collections)}.OrderedDict({'' if inner == '{}' else inner})"


def defaultdict(printer: Printer, value: Any, place: str | None) -> str:
    """``collections.defaultdict(list, {…})``"""
    factory = printer.expression(value.default_factory, None)
    inner = f", {printer.entries(value, place)}" if value else ""
    return f"{printer.refer(collections)}.defaultdict({factory}{inner})"


def counter(printer: Printer, value: Any, place: str | None) -> str:
    """``collections.Counter({…})``"""
    return f"{printer.refer(collections)}.Counter({printer.entries(value, place)})"


def deque(printer: Printer, value: Any, place: str | None) -> str:
    """``collections.deque([…], maxlen=3)``"""
    inner = repeated(printer.items(list(value), place))
    length = "" if value.maxlen is None else f", maxlen={value.maxlen}"
    return f"{printer.refer(collections)}.deque({inner}{length})"


def set_(printer: Printer, value: Any, place: str | None) -> str:
    """``{1, 2}``"""
    # Sorted, as the order of a set of strings differs from process to process.
    return "{" + ", ".join(sorted(printer.items(list(value), None))) + "}" if value else "set()"


def frozenset_(printer: Printer, value: Any, place: str | None) -> str:
    """``frozenset({1, 2})``"""
    return f"frozenset({set_(printer, value, None) if value else ''})"


def range_(printer: Printer, value: range, place: str | None) -> str:
    """``range(3)``"""
    parts = [value.start, value.stop, value.step]
    if value.step == 1:
        parts.pop()
        if value.start == 0:
            parts.pop(0)
    return f"range({', '.join(map(str, parts))})"


def slice_(printer: Printer, value: slice, place: str | None) -> str:
    """``slice(3)``"""
    parts = [printer.expression(part, None) for part in (value.start, value.stop, value.step)]
    if parts[2] == "None":
        parts.pop()
        if parts[0] == "None":
            parts.pop(0)
    return f"slice({', '.join(parts)})"


def partial(printer: Printer, value: functools.partial[Any], place: str | None) -> str:
    """``functools.partial(f, 1)``"""
    name = f"{printer.refer(functools)}.partial"
    return printer.called(name, [value.func, *value.args], value.keywords)


def namespace(printer: Printer, value: types.SimpleNamespace, place: str | None) -> str:
    """``types.SimpleNamespace(a=1)``"""
    parts = [
        f"{name}={printer.expression(item, None if place is None else f'{place}.{name}')}"
        for name, item in vars(value).items()
    ]
    return f"{printer.refer(types)}.SimpleNamespace({', '.join(parts)})"


def mapping_proxy(printer: Printer, value: Any, place: str | None) -> str:
    """``types.MappingProxyType({…})``"""
    return f"{printer.refer(types)}.MappingProxyType({printer.entries(value, None)})"


def bytearray_(printer: Printer, value: bytearray, place: str | None) -> str:
    """``bytearray(b"")``"""
    return repr(value)


def generic_alias(printer: Printer, value: Any, place: str | None) -> str:
    """``list[int]``"""
    inner = ", ".join(printer.items(value.__args__, None))
    return f"{printer.expression(value.__origin__, None)}[{inner}]"


# -- classes ------------------------------------------------------------------------------------


def dataclass(printer: Printer, value: Any, place: str | None) -> str | None:
    """A call with the fields that differ from their defaults, if there is nothing else."""
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
        f"{name}={printer.expression(content, None if place is None else f'{place}.{name}')}"
        for name, content in given.items()
    ]
    return f"{printer.refer(kind)}({', '.join(parts)})"


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


def tuple_subclass(printer: Printer, value: Any, place: str | None) -> str | None:
    """Named tuples, and those that C code makes, such as ``time.struct_time``."""
    kind = type(value)
    if hasattr(kind, "_fields"):
        return printer.called(printer.refer(kind), list(value), {})
    if hasattr(kind, "n_sequence_fields"):
        return f"{printer.refer(kind)}({printer.expression(tuple(value), None)})"
    return None


def plain_subclass(printer: Printer, value: Any, place: str | None) -> str | None:
    """What a derived class without attributes has of the builtin class below it."""
    if getattr(value, "__dict__", None):
        return None
    base = next(one for one in PLAIN_BASES if isinstance(value, one))
    plain = base(value)
    return f"{printer.refer(type(value))}({printer.expression(plain, None) if plain else ''})"


def view(printer: Printer, value: Any, place: str | None) -> str:
    """``{}.keys()``"""
    method = type(value).__name__.removeprefix("dict_")
    return f"{printer.expression(dict(value.mapping), None)}.{method}()"


def lock(printer: Printer, value: Any, place: str | None) -> str:
    """One that is not held."""
    return f"{printer.refer(threading)}.{LOCKS[type(value)]}()"


def is_standard(value: object) -> bool:
    """Whether the standard library has the class of a value."""
    module = type(value).__module__
    return module.split(".")[0] in sys.stdlib_module_names


def reduced(printer: Printer, value: Any, place: str | None) -> str | None:
    """Objects of the standard library, the way ``pickle`` would make them."""
    try:
        reduced = value.__reduce_ex__(2)
    except Exception as error:
        raise Unwritable(f"a {kind_name(type(value))} has no source text ({error})") from error
    if isinstance(reduced, str):
        return printer.refer(value)
    function, args, *rest = reduced
    if function is iter and len(args) == 1:
        # The third part of what iterators give is how far they are.
        left = args[0][rest[0] or 0 :] if rest else args[0]
        return printer.called("iter", [left], {})
    if any(part is not None for part in rest):
        return None
    if getattr(function, "__name__", "") == "__newobj__":
        function, args = args[0], args[1:]
    return printer.called(printer.refer(function), args, {})
