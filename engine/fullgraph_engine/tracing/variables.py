"""Read what Dynamo already knows about the program's values from its ``VariableTracker`` objects.

Reading does not realize a lazy variable, does not add guards and does not keep values alive.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Union

import torch

from ..protocol import SeenKind
from ..torch_internals import variables as upstream
from ..torch_internals.binding import Internal
from ..torch_internals.shapes import name_of_source

_MAX_ITEMS = 8


def parameter_names(code: types.CodeType) -> tuple[str, ...]:
    """Return the names of a code object's parameters, ``*args`` and ``**kwargs`` last."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS)
    count += bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def unwrap_cell(translator: Any, variable: Any) -> Any:
    """Return the content of a cell, which nested functions share; other variables are returned as
    is.
    """
    if type(variable) is not upstream.CELL.get():
        return variable
    # Read the dictionary directly, because its getter would record that the cell was read.
    attributes = translator.output.side_effects.store_attr_mutations.get(variable, {})
    return attributes.get("cell_contents")


# -- kinds ------------------------------------------------------------------------------------


def variable_kind(variable: Any) -> SeenKind | None:
    """Return the kind of value that a variable of Dynamo represents; None if unknown.

    ``isinstance`` would realize and guard a lazy variable, so only the exact type is compared.
    """
    kind = type(variable)
    try:
        known = _kind_by_class[kind]
    except KeyError:
        known = _kind_by_class[kind] = kind_of_class(kind)
    if known == "number":
        return _kind_of_number(variable)
    if known != "lazy":
        return known
    realized = realized_variable(variable)
    return (
        kind_of_value(vars(variable)["_cache"].value)
        if realized is None
        else variable_kind(realized)
    )


def _kind_of_number(variable: Any) -> SeenKind:
    """Return the kind of a constant, a number in the arguments, or a number computed by a graph."""
    fields = vars(variable)
    return kind_of_value(next((fields[name] for name in _NUMBER_FIELDS if name in fields), None))


_NUMBER_FIELDS = ("value", "raw_value", "sym_num")
"""Fields of the classes of Dynamo that contain a Python number or a symbolic number."""


def realized_variable(variable: Any) -> Any:
    """Return the variable that a lazy variable has become, or None if it is not realized."""
    return vars(variable)["_cache"].vt


KindOfClass = Union[SeenKind, Literal["lazy", "number"], None]
_kind_by_class: dict[type, KindOfClass] = {type(None): None}


def kind_of_class(kind: type) -> KindOfClass:
    """Return the kind of value that a ``VariableTracker`` class represents; None for classes
    without a kind.

    The result is ``"lazy"`` for ``LazyVariableTracker``, and ``"number"`` for classes of constants
    and numbers; their kind depends on the instance.
    """
    bases = kind.__mro__
    for result, hooks in _CLASSES:
        if any(hook.get() in bases for hook in hooks):
            return result
    return "other"


_CLASSES: tuple[tuple[KindOfClass, tuple[Internal, ...]], ...] = (
    ("lazy", (upstream.LAZY,)),
    # Variables that do not stand for a value, or attributes that Dynamo has not resolved.
    (None, (upstream.NULL, upstream.DELETED, upstream.ATTRIBUTE)),
    # Dynamo represents these values by tensors, but they are not tensors in the program.
    ("other", (upstream.ARRAY, upstream.ITEM)),
    ("number", (upstream.NUMBER, upstream.CONSTANT, upstream.SYMBOL)),
    ("tensor", (upstream.TENSOR,)),
    ("module", (upstream.MODULE, upstream.USER_MODULE)),
)


def kind_of_value(value: Any) -> SeenKind:
    """Return the kind of a value of the program by its type, without running code of the value."""
    kind = type(value)
    if issubclass(kind, torch.Tensor):
        return "tensor"
    if issubclass(kind, torch.nn.Module):
        return "module"
    return _PLAIN_KINDS.get(kind, "other")


_PLAIN_KINDS: dict[type, SeenKind] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    torch.SymBool: "bool",
    torch.SymInt: "int",
    torch.SymFloat: "float",
}


# -- contents ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SeenTensor:
    """Properties of a tensor when it was read from Dynamo; in-place operators may change its sizes
    later.
    """

    dtype: torch.dtype
    shape: tuple[Any, ...]
    stride: tuple[Any, ...] | None
    device: torch.device
    layout: torch.layout
    requires_grad: bool
    node: Any = None


@dataclass(frozen=True)
class SeenNumber:
    """A symbolic number: a ``torch.SymInt``, ``torch.SymFloat`` or ``torch.SymBool``."""

    value: Any


@dataclass(frozen=True)
class SeenConstant:
    """A constant in the compiled graph; ``source`` is the expression from which Dynamo took it."""

    value: object
    source: str


@dataclass(frozen=True)
class UnrealizedValue:
    """A lazy variable of Dynamo that was not realized when it was read; read it again when the
    frame is done."""

    variable: Any
    value: object


@dataclass(frozen=True)
class SeenSequence:
    """A tuple or a list of at most ``_MAX_ITEMS`` items; ``brackets`` are ``()`` or ``[]``."""

    brackets: str
    items: tuple[Any, ...]
    """Contents of the items; None for an item whose kind is not recorded."""
    names: tuple[str, ...] = ()
    """Field names of a named tuple, which many operators return."""


Content = Union[SeenTensor, SeenNumber, SeenConstant, UnrealizedValue, SeenSequence, None]


def read_content(variable: Any) -> Content:
    """Return what Dynamo knows about the value of a variable; None if its kind is never
    recorded."""
    reader = _reader_by_class.get(type(variable), _read_unknown_class)
    return None if reader is None else reader(variable)


def _read_unknown_class(variable: Any) -> Content:
    kind = type(variable)
    reader = _reader_by_class[kind] = _select_reader(kind)
    return None if reader is None else reader(variable)


_ContentReader = Callable[[Any], Content]
_reader_by_class: dict[type, _ContentReader | None] = {}


def _select_reader(kind: type) -> _ContentReader | None:
    bases = kind.__mro__
    general = kind_of_class(kind)
    if general == "tensor":
        return _read_tensor
    if general == "lazy":
        return _read_lazy
    if general == "module":
        return None
    for hooks, reader in (
        ((upstream.SYMBOL,), _read_symbol),
        ((upstream.CONSTANT,), _read_constant),
        ((upstream.NAMED_TUPLE,), _read_named_tuple),
        ((upstream.SIZE, upstream.TUPLE), _read_tuple),
    ):
        if any(hook.get() in bases for hook in hooks):
            return reader
    return _read_list if kind is upstream.LIST.get() else None


def _read_tensor(variable: Any) -> SeenTensor | None:
    node = variable.proxy.node
    value = node.meta.get("example_value")
    return _tensor_content(value, node) if isinstance(value, torch.Tensor) else None


def _tensor_content(value: torch.Tensor, node: Any) -> SeenTensor:
    strided = value.layout is torch.strided and not value.is_nested
    return SeenTensor(
        value.dtype,
        tuple(value.shape),
        value.stride() if strided else None,
        value.device,
        value.layout,
        value.requires_grad,
        node,
    )


def reread_content(unrealized: UnrealizedValue) -> Content:
    """Return what Dynamo now knows about a variable that was lazy at the first reading.

    If it is still lazy, return its tensor, or None if it does not hold a tensor.
    """
    known = realized_variable(unrealized.variable)
    if known is not None:
        return read_content(known)
    return unread_content(unrealized.value)  # Dynamo never read this value, so it did not guard it


def unread_content(value: object) -> Content:
    """Return the content of a tensor without a Dynamo variable; None for other values."""
    return _tensor_content(value, None) if isinstance(value, torch.Tensor) else None


def _read_lazy(variable: Any) -> Content:
    known = realized_variable(variable)
    if known is not None:
        return read_content(known)
    return UnrealizedValue(variable, vars(variable)["_cache"].value)


def _read_symbol(variable: Any) -> Content:
    number = variable.sym_num
    if isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return SeenNumber(number)
    return constant_content(number, "")


def _read_constant(variable: Any) -> Content:
    return constant_content(variable.value, variable_source(variable))


def constant_content(value: object, source: str) -> SeenConstant | None:
    """Return the content of None, a number, a string or a non-empty tuple of integers.

    Return None for other values. ``source`` is the expression from which Dynamo took the constant.
    """
    if value is None or type(value) in (int, float, bool, str):
        return SeenConstant(value, source)
    if type(value) in (tuple, torch.Size) and all(type(item) is int for item in value):  # type: ignore[attr-defined]
        return SeenConstant(tuple(value), source) if value else None  # type: ignore[arg-type]
    return None


def variable_source(variable: Any) -> str:
    """Return Dynamo's expression of a variable's origin, or an empty string."""
    try:
        return name_of_source(getattr(variable, "source", None))
    except NotImplementedError:  # sources of Dynamo's internal values do not have a name
        return ""


def _read_tuple(variable: Any) -> Content:
    return _read_items(variable, "()")


def _read_named_tuple(variable: Any) -> Content:
    if not hasattr(variable, "items"):
        return None
    content = _read_items(variable, "()")
    # Looked up statically: the class may be the user's.
    kind = getattr(variable, "tuple_cls", None)
    for attribute in ("_fields", "__match_args__") if isinstance(kind, type) else ():
        names = inspect.getattr_static(kind, attribute, ())
        # The result type of `torch.max` does not have `_fields`.
        if type(names) is tuple and content is not None and len(names) == len(content.items):
            return replace(content, names=names)
    return content


def _read_list(variable: Any) -> Content:
    return _read_items(variable, "[]")


def _read_items(variable: Any, brackets: str) -> SeenSequence | None:
    items = variable.items
    if not 0 < len(items) <= _MAX_ITEMS:
        return None
    found = tuple(map(read_content, items))
    return SeenSequence(brackets, found) if any(item is not None for item in found) else None
