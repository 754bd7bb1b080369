"""What Dynamo's variables stand for, as far as it has written that down already.

Nothing is realized, guarded or kept alive for it.
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

_MOST_ITEMS = 8


def parameter_names(code: types.CodeType) -> tuple[str, ...]:
    """The names of a code object's parameters, ``*args`` and ``**kwargs`` last."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS)
    count += bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def content_of(translator: Any, variable: Any) -> Any:
    """What is in the cell of a variable that nested functions share."""
    if type(variable) is not upstream.CELL.get():
        return variable
    # The getter of this dictionary would write down that the cell was read.
    attributes = translator.output.side_effects.store_attr_mutations.get(variable, {})
    return attributes.get("cell_contents")


# -- kinds ------------------------------------------------------------------------------------


def kind_of(variable: Any) -> SeenKind | None:
    """What a variable of Dynamo's stands for; None where nobody knows.

    ``isinstance`` would have a lazy variable made, and guarded.
    """
    kind = type(variable)
    try:
        known = _known[kind]
    except KeyError:
        known = _known[kind] = kind_of_class(kind)
    if known != "lazy":
        return known
    made = realized(variable)
    return kind_of_value(vars(variable)["_cache"].value) if made is None else kind_of(made)


def realized(variable: Any) -> Any:
    """What a lazy variable has become; None where nobody has looked at it yet."""
    return vars(variable)["_cache"].vt


Known = Union[SeenKind, Literal["lazy"], None]
_known: dict[type, Known] = {type(None): None}


def kind_of_class(kind: type) -> Known:
    """What variables of a ``VariableTracker`` class stand for; None for those without a value.

    ``"lazy"`` for ``LazyVariableTracker``, of which each instance has to be looked at.
    """
    line = kind.__mro__
    for result, hooks in _CLASSES:
        if any(hook.get() in line for hook in hooks):
            return result
    return "other"


_CLASSES: tuple[tuple[Known, tuple[Internal, ...]], ...] = (
    ("lazy", (upstream.LAZY,)),
    # No value, or an attribute that nobody has looked at yet.
    (None, (upstream.NULL, upstream.DELETED, upstream.ATTRIBUTE)),
    # To Dynamo these are tensors, to the program they are not.
    ("other", (upstream.ARRAY, upstream.NUMBER, upstream.ITEM)),
    ("tensor", (upstream.TENSOR,)),
    ("module", (upstream.MODULE, upstream.USER_MODULE)),
)


def kind_of_value(value: Any) -> SeenKind:
    """What a value of the program is, by its type alone: no code of the value is executed."""
    kind = type(value)
    if issubclass(kind, torch.Tensor):
        return "tensor"
    return "module" if issubclass(kind, torch.nn.Module) else "other"


# -- contents ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tensor:
    """A tensor at one moment; in-place operators may change its sizes later."""

    dtype: torch.dtype
    shape: tuple[Any, ...]
    stride: tuple[Any, ...] | None
    device: torch.device
    layout: torch.layout
    requires_grad: bool
    node: Any = None


@dataclass(frozen=True)
class Number:
    """A symbolic number: a ``torch.SymInt``, ``torch.SymFloat`` or ``torch.SymBool``."""

    value: Any


@dataclass(frozen=True)
class Constant:
    """A value that is compiled into the graph; ``source`` is Dynamo's name for where it is from."""

    value: object
    source: str


@dataclass(frozen=True)
class Later:
    """What nobody had looked at yet; when the frame is done somebody may have."""

    variable: Any
    value: object


@dataclass(frozen=True)
class Several:
    """A tuple or a list of at most ``_MOST_ITEMS`` items; ``brackets`` are ``()`` or ``[]``."""

    brackets: str
    items: tuple[Any, ...]
    """Contents, and None for what is none."""
    names: tuple[str, ...] = ()
    """Of named tuples, as operators return them."""


Content = Union[Tensor, Number, Constant, Later, Several, None]


def read(variable: Any) -> Content:
    """What Dynamo knows of a variable of its own; None for what is none of our kinds."""
    reader = _readers.get(type(variable), _read_first)
    return None if reader is None else reader(variable)


def _read_first(variable: Any) -> Content:
    kind = type(variable)
    reader = _readers[kind] = _reader(kind)
    return None if reader is None else reader(variable)


_Reader = Callable[[Any], Content]
_readers: dict[type, _Reader | None] = {}


def _reader(kind: type) -> _Reader | None:
    line = kind.__mro__
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
        if any(hook.get() in line for hook in hooks):
            return reader
    return _read_list if kind is upstream.LIST.get() else None


def _read_tensor(variable: Any) -> Tensor | None:
    node = variable.proxy.node
    value = node.meta.get("example_value")
    return _of_tensor(value, node) if isinstance(value, torch.Tensor) else None


def _of_tensor(value: torch.Tensor, node: Any) -> Tensor:
    strided = value.layout is torch.strided and not value.is_nested
    return Tensor(
        value.dtype,
        tuple(value.shape),
        value.stride() if strided else None,
        value.device,
        value.layout,
        value.requires_grad,
        node,
    )


def read_again(later: Later) -> Content:
    """Of a value that nobody may ever have looked at."""
    known = realized(later.variable)
    if known is not None:
        return read(known)
    return of_unread(later.value)  # nothing holds another one to what it was in this run


def of_unread(value: object) -> Content:
    """Of a value of the program that Dynamo has no variable for."""
    return _of_tensor(value, None) if isinstance(value, torch.Tensor) else None


def _read_lazy(variable: Any) -> Content:
    known = realized(variable)
    if known is not None:
        return read(known)
    return Later(variable, vars(variable)["_cache"].value)


def _read_symbol(variable: Any) -> Content:
    number = variable.sym_num
    if isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return Number(number)
    return constant(number, "")


def _read_constant(variable: Any) -> Content:
    return constant(variable.value, source_of(variable))


def constant(value: object, source: str) -> Constant | None:
    """The content of None, a number, a string or a non-empty tuple of integers; else None."""
    if value is None or type(value) in (int, float, bool, str):
        return Constant(value, source)
    if type(value) in (tuple, torch.Size) and all(type(item) is int for item in value):  # type: ignore[attr-defined]
        return Constant(tuple(value), source) if value else None  # type: ignore[arg-type]
    return None


def source_of(variable: Any) -> str:
    """Dynamo's name for where a variable comes from; empty where it comes from nowhere."""
    try:
        return name_of_source(getattr(variable, "source", None))
    except NotImplementedError:  # sources of what only Dynamo knows have no name
        return ""


def _read_tuple(variable: Any) -> Content:
    return _read_items(variable, "()")


def _read_named_tuple(variable: Any) -> Content:
    if not hasattr(variable, "items"):
        return None
    content = _read_items(variable, "()")
    # Looked up without running code: the class may be the user's.
    kind = getattr(variable, "tuple_cls", None)
    for where in ("_fields", "__match_args__") if isinstance(kind, type) else ():
        names = inspect.getattr_static(kind, where, ())
        # What `torch.max` returns has no `_fields`.
        if type(names) is tuple and content is not None and len(names) == len(content.items):
            return replace(content, names=names)
    return content


def _read_list(variable: Any) -> Content:
    return _read_items(variable, "[]")


def _read_items(variable: Any, brackets: str) -> Several | None:
    items = variable.items
    if not 0 < len(items) <= _MOST_ITEMS:
        return None
    found = tuple(map(read, items))
    return Several(brackets, found) if any(one is not None for one in found) else None
