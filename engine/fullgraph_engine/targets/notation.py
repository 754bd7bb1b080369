"""Text form of example inputs, as in probe comments: ``# fullgraph: f32[b, 16]``.

``f32[b, 16]`` is a tensor in Dynamo's own notation: the names of ``torch.fx.graph.dtype_abbrs`` and
sizes. A bare letter or ``Sym(s0)`` is a symbolic size; ``b=4`` states the size that it has in the
run. A text also contains Python literals, lists, tuples, dictionaries, keyword arguments, names of
the file (``Config(layers=2)``), and ``init(…) forward(…)`` for a module's constructor and method.
``under(…)`` after a call states the modes in which it is made, and ``then`` begins another call of
the same object. ``f32[4](requires_grad, mark_dynamic=0)`` states further properties of a tensor.

The module ``notation_parser`` parses this form. Nothing here needs torch.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Union

from .context import CallContext

if TYPE_CHECKING:
    import torch

# As torch.fx.graph.dtype_abbrs in torch 2.13; the table of the imported torch takes precedence.
_DTYPES_WORDS = (
    "u8 u16 u32 u64 i8 i16 i32 i64 f16 f32 f64 bf16 c32 c64 c128 b8 b1x8 b2x4 b4x2 b8x1 b16x1 "
    "f8e5m2 f8e4m3fn f8e5m2fnuz f8e4m3fnuz f8e8m0fnu f4e2m1fnx2"
)
_DTYPES = frozenset(_DTYPES_WORDS.split())
# Alternative spellings.
DTYPE_ALIASES = {
    "bool": "b8",
    "float": "f32",
    "int": "i64",
    "long": "i64",
    "half": "f16",
    "double": "f64",
}


class NotationError(ValueError):
    """Raised for example inputs with invalid syntax; ``start`` and ``end`` are character offsets in
    the text."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = max(end, start + 1)


# -- contents of a probe ----------------------------------------------------------------------


@dataclass(frozen=True)
class FixedSize:
    """A size written as a number, such as ``16`` in ``f32[b, 16]``."""

    value: int


@dataclass(frozen=True)
class SymbolicSize:
    """A size written as a name, such as ``b`` in ``f32[b, 16]``; equal names are equal sizes."""

    name: str
    hint: int | None = None


SizeOperator = Literal["+", "-", "*", "//"]
_OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
}


@dataclass(frozen=True)
class Arithmetic:
    """A size computed from other sizes: ``2*b``, ``t+1``, ``h//2``."""

    operator: SizeOperator
    left: Size
    right: Size


Size = Union[FixedSize, SymbolicSize, Arithmetic]


@dataclass(frozen=True)
class TensorText:
    """A tensor as example inputs state it: ``f32[b, 16]``, with strides and device if the text has
    them.

    ``grad`` says whether the tensor requires grad, as a leaf or as the result of an operation.
    ``marks`` are marked dimensions, by the name of the function that marks them.
    """

    dtype: str
    sizes: tuple[Size, ...]
    strides: tuple[int, ...] | None = None
    device: str | None = None
    grad: Literal["", "requires_grad", "grad_fn"] = ""
    marks: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True)
class LiteralValue:
    """A Python literal, such as ``3`` or ``"sum"``, in the text of example inputs."""

    value: object


@dataclass(frozen=True)
class SizeText:
    """An argument that is a size: a number, or a symbolic name such as ``b``."""

    size: Size


@dataclass(frozen=True)
class Sequence:
    """A list or a tuple in the text of example inputs."""

    kind: Literal["list", "tuple"]
    items: tuple[Value, ...]


@dataclass(frozen=True)
class Mapping:
    """A dictionary in the text of example inputs."""

    items: tuple[tuple[Value, Value], ...]


@dataclass(frozen=True)
class Reference:
    """A dotted name of the file in the text of example inputs, such as ``Config``.

    ``call`` has the arguments if the name is called, as in ``Config(layers=2)``, else None.
    """

    name: str
    call: Arguments | None = None


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call in the text of example inputs: positional and named values."""

    positional: tuple[Value, ...] = ()
    named: tuple[tuple[str, Value], ...] = ()


Value = Union[TensorText, LiteralValue, SizeText, Sequence, Mapping, Reference]


@dataclass(frozen=True)
class FurtherCall:
    """A second or later call of the traced object, written as ``then f32[3, 4]`` in example inputs.

    An empty ``method`` means the first call's method.
    """

    inputs: Arguments
    method: str = ""
    context: CallContext = field(default_factory=CallContext)


@dataclass(frozen=True)
class Notation:
    """The parsed text of example inputs: constructor arguments, inputs, and modes of the call.

    ``init``, ``inputs`` and ``context`` are None if the text omits them; ``method`` is then empty.
    """

    init: Arguments | None = None
    method: str = ""
    inputs: Arguments | None = None
    context: CallContext | None = None
    then: tuple[FurtherCall, ...] = ()


def dtype_names() -> frozenset[str]:
    """Return the names of dtypes that example inputs may use; from torch if it is loaded, else a
    fixed set."""
    loaded = getattr(sys.modules.get("torch.fx.graph"), "dtype_abbrs", None)
    return _DTYPES if loaded is None else frozenset(loaded.values())


def dtype_abbreviations() -> dict[torch.dtype, str]:
    """Return the short name, such as ``f32``, of every dtype of this torch."""
    import torch.fx.graph

    return dict(vars(torch.fx.graph)["dtype_abbrs"])


def compute_size(symbol: SizeOperator, left: Size, right: Size) -> Size:
    """Return the size of ``left symbol right``, such as ``2*b``; a number if both operands are
    numbers."""
    if isinstance(left, FixedSize) and isinstance(right, FixedSize):
        return FixedSize(_OPERATORS[symbol](left.value, right.value))
    return Arithmetic(symbol, left, right)


# -- queries ----------------------------------------------------------------------------------


def symbolic_sizes(arguments: Arguments) -> tuple[SymbolicSize, ...]:
    """Return the symbolic sizes (``b`` in ``f32[b, 16]``) of the tensors in ``arguments``, in text
    order."""
    values = (*arguments.positional, *(value for _, value in arguments.named))
    return tuple(symbol for value in values for symbol in _symbols_of(value))


def fixed_sizes(arguments: Arguments) -> frozenset[int]:
    """Return the sizes written as numbers in the tensors of ``arguments``."""
    found: set[int] = set()
    for tensor in tensor_texts(arguments):
        found.update(size.value for size in tensor.sizes if isinstance(size, FixedSize))
    return frozenset(found)


def tensor_texts(arguments: Arguments) -> tuple[TensorText, ...]:
    """Return the tensors in ``arguments``, also those inside containers, in text order."""
    values = (*arguments.positional, *(value for _, value in arguments.named))
    return tuple(tensor for value in values for tensor in _tensors_of(value))


def _tensors_of(value: Value) -> Iterator[TensorText]:
    if isinstance(value, TensorText):
        yield value
    for inner in inner_values(value):
        yield from _tensors_of(inner)


def inner_values(value: Value) -> tuple[Value, ...]:
    """Return the values directly inside a list, tuple, dictionary or call of example inputs, in
    text order.

    Keys of dictionaries are left out.
    """
    if isinstance(value, Sequence):
        return value.items
    if isinstance(value, Mapping):
        return tuple(item for _, item in value.items)
    if isinstance(value, Reference) and value.call is not None:
        return (*value.call.positional, *(item for _, item in value.call.named))
    return ()


def with_parts(value: Value, inner: tuple[Value, ...]) -> Value:
    """Return a copy of a container or call with other inner values; a value without inner values is
    returned unchanged."""
    if isinstance(value, Sequence):
        return Sequence(value.kind, inner)
    if isinstance(value, Mapping):
        keys = [key for key, _ in value.items]
        return Mapping(tuple(zip(keys, inner, strict=True)))
    if isinstance(value, Reference) and value.call is not None:
        count = len(value.call.positional)
        names = [name for name, _ in value.call.named]
        named = tuple(zip(names, inner[count:], strict=True))
        return Reference(value.name, Arguments(inner[:count], named))
    return value


def _symbols_of(value: Value) -> Iterator[SymbolicSize]:
    for tensor in _tensors_of(value):
        for size in tensor.sizes:
            yield from symbols_of_size(size)


def symbols_of_size(size: Size) -> Iterator[SymbolicSize]:
    """Yield the symbols in the expression of a size: ``b`` and ``t`` for ``b*t``."""
    if isinstance(size, SymbolicSize):
        yield size
    elif isinstance(size, Arithmetic):
        yield from symbols_of_size(size.left)
        yield from symbols_of_size(size.right)


# Sizes that suit most models: even, divisible by a few heads, and not 0 or 1, which Dynamo
# specializes. Images must survive some strides. All chosen sizes differ, since Dynamo treats
# equal sizes as one symbol.
_SMALL = (4, 8, 6, 12, 10, 16, 20, 24, 14, 18, 28, 36)
_LARGE = (32, 64, 48, 96, 80, 128)


def choose_sizes(*parts: Arguments | None) -> dict[str, int]:
    """Return a number for every symbolic size of the arguments: the one stated as ``b=4``, or a
    small unique number."""
    given = [part for part in parts if part is not None]
    names: list[SymbolicSize] = [symbol for part in given for symbol in symbolic_sizes(part)]
    chosen = {symbol.name: symbol.hint for symbol in names if symbol.hint is not None}
    taken = set(chosen.values()).union(*(fixed_sizes(part) for part in given))
    for symbol in names:
        if symbol.name in chosen:
            continue
        image = symbol.name.lower() in ("h", "w", "height", "width")
        candidates = _LARGE if image else _SMALL
        size = next((size for size in candidates if size not in taken), max(taken, default=2) + 2)
        chosen[symbol.name] = size
        taken.add(size)
    return chosen


def with_numbers(said: Notation) -> Notation:
    """Return example inputs with every symbolic size replaced by a number."""
    sizes = choose_sizes(said.init, said.inputs, *(call.inputs for call in said.then))

    def is_known(size: Size) -> bool:
        return all(symbol.name in sizes for symbol in symbols_of_size(size))

    def value_with_numbers(given: Value) -> Value:
        if isinstance(given, TensorText):
            return replace(
                given, sizes=tuple(FixedSize(evaluate_size(one, sizes)) for one in given.sizes)
            )
        if isinstance(given, SizeText) and is_known(given.size):
            return LiteralValue(evaluate_size(given.size, sizes))
        return with_parts(given, tuple(map(value_with_numbers, inner_values(given))))

    def arguments_with_numbers(given: Arguments) -> Arguments:
        return Arguments(
            tuple(map(value_with_numbers, given.positional)),
            tuple((name, value_with_numbers(one)) for name, one in given.named),
        )

    return replace(
        said,
        init=said.init and arguments_with_numbers(said.init),
        inputs=said.inputs and arguments_with_numbers(said.inputs),
        then=tuple(replace(call, inputs=arguments_with_numbers(call.inputs)) for call in said.then),
    )


def evaluate_size(size: Size, sizes: dict[str, int]) -> int:
    """Return a size as a number; ``sizes`` has the numbers of symbolic sizes."""
    if isinstance(size, FixedSize):
        return size.value
    if isinstance(size, SymbolicSize):
        return sizes[size.name]
    left, right = evaluate_size(size.left, sizes), evaluate_size(size.right, sizes)
    if size.operator == "//" and right == 0:
        return 0
    return int(_OPERATORS[size.operator](left, right))


# -- printing ---------------------------------------------------------------------------------


def show_notation(notation: Notation) -> str:
    """Return the text of a probe comment (without ``# fullgraph:``) for parsed example inputs; the
    inverse of ``parse_probe``."""
    parts = []
    if notation.init is not None:
        parts.append(f"init({show_arguments(notation.init)})")
    if notation.inputs is not None:
        inputs = show_arguments(notation.inputs)
        if notation.method or notation.init is not None:
            inputs = f"{notation.method or 'forward'}({inputs})"
        parts.append(inputs)
    if notation.context is not None:
        parts.append(f"under({notation.context.text})")
    parts += [show_further(call, notation.method) for call in notation.then]
    return " ".join(parts)


def show_further(call: FurtherCall, method: str = "") -> str:
    """Return the text of a further call of the traced object: ``then forward(f32[5, 16])``.

    ``method`` is the method of the first call, which is used if ``call`` does not name one.
    """
    inputs, called = show_arguments(call.inputs), call.method or method
    text = f"then {called}({inputs})" if called else f"then {inputs}"
    return text + (f" under({call.context.text})" if call.context != CallContext() else "")


def show_arguments(arguments: Arguments) -> str:
    """Return arguments as the text of example inputs: ``f32[b, 16], mask=b8[b]``."""
    return ", ".join(
        (
            *(show_value(value) for value in arguments.positional),
            *(f"{name}={show_value(value)}" for name, value in arguments.named),
        )
    )


def show_value(value: Value) -> str:
    """Return a value as the text of example inputs states it."""
    if isinstance(value, TensorText):
        text = f"{value.dtype}[{', '.join(show_size(size) for size in value.sizes)}]"
        if value.strides is not None:
            text += f"[{', '.join(str(stride) for stride in value.strides)}]"
        text += f"@{value.device}" if value.device else ""
        facts: list[str] = [value.grad] if value.grad else []
        facts += [show_mark(name, dimensions) for name, dimensions in value.marks]
        return f"{text}({', '.join(facts)})" if facts else text
    if isinstance(value, LiteralValue):
        return repr(value.value)
    if isinstance(value, SizeText):
        return show_size(value.size)
    if isinstance(value, Mapping):
        items = (f"{show_value(key)}: {show_value(item)}" for key, item in value.items)
        return "{" + ", ".join(items) + "}"
    if isinstance(value, Reference):
        return value.name + (f"({show_arguments(value.call)})" if value.call is not None else "")
    inner = ", ".join(show_value(item) for item in value.items)
    if value.kind == "list":
        return f"[{inner}]"
    return f"({inner},)" if len(value.items) == 1 else f"({inner})"


def show_mark(name: str, dimensions: tuple[int, ...]) -> str:
    """Return marked dimensions as the text of example inputs: ``mark_dynamic=0``, or
    ``mark_dynamic=(0, 1)`` for several."""
    return f"{name}={dimensions[0] if len(dimensions) == 1 else dimensions}"


def show_size(size: Size, outer: int = 0) -> str:
    """Return the text of a size, such as ``2*b``.

    ``outer`` is the precedence of the surrounding operator, for parentheses.
    """
    if isinstance(size, FixedSize):
        return str(size.value)
    if isinstance(size, SymbolicSize):
        return size.name if size.hint is None else f"{size.name}={size.hint}"
    binding = 1 if size.operator in "+-" else 2
    text = f"{show_size(size.left, binding)}{size.operator}{show_size(size.right, binding + 1)}"
    return f"({text})" if binding < outer else text
