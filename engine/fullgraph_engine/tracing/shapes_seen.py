"""What the values of one file are while Dynamo traces it: dtypes, sizes, constants.

Looks at the same instructions as :mod:`.values`, and one further: at what is assigned and returned,
and at what is on top of the stack behind an instruction that computes something. It reads what
Dynamo has written down of a value already. Nothing is realised, guarded or kept alive for it.

Dynamo traces a frame again from its start whenever it comes across something that it has to know
before; only the last attempt counts. What it gave up is forgotten: that code ran without it.
"""

from __future__ import annotations

import dis
import re
import sys
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..protocol.shapes import MOST_VALUES, ShapeKind, ShapeRole, ShapeSeen
from . import adapter, stacks, values
from .describe import dtype_name
from .recording import ShapedPlace

Handler = Callable[[Any, Any], Any]

_STORES = ("STORE_FAST", "STORE_DEREF")
_RETURNS = ("RETURN_VALUE",)
# Only with columns is it known which expression it was.
_RESULTS = (
    (
        *(name for name in dis.opmap if name.startswith(("BINARY_", "UNARY_", "CALL"))),
        *("COMPARE_OP", "LOAD_ATTR", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_DEREF"),
        *("LOAD_FAST_BORROW",),
    )
    if sys.version_info >= (3, 11)
    else ()
)
_NOT_RESULTS = ("CALL_INTRINSIC_1", "CALL_INTRINSIC_2", "CALL_FINALLY")
_METHOD_FLAG = sys.version_info >= (3, 12)
"""``LOAD_ATTR`` may load a method and its object."""

MOST_ENTRIES = 200_000
"""Values that are kept of one attempt at a frame."""
_MOST_ITEMS = 8
_LONGEST_TEXT = 40

_SYMBOL = re.compile(r"\b[a-z]{1,4}\d+\b")


@dataclass(frozen=True)
class _Tensor:
    """A tensor at one moment; in-place operators may change its sizes later."""

    dtype: torch.dtype
    shape: tuple[Any, ...]
    stride: tuple[Any, ...] | None
    device: torch.device
    layout: torch.layout
    requires_grad: bool
    node: Any = None


@dataclass(frozen=True)
class _Integer:
    value: Any


@dataclass(frozen=True)
class _Constant:
    value: object
    source: str


@dataclass(frozen=True)
class _Later:
    """What nobody had looked at yet; when the frame is done somebody may have."""

    variable: Any
    value: object


@dataclass(frozen=True)
class _Several:
    brackets: str
    items: tuple[Any, ...]


_Place = tuple[ShapeRole, Any, int, str, str, int]
"""Role, bytecode position, line, name, and the function's name and first line."""


class _Attempt:
    """What is known of a frame since Dynamo last began with it."""

    def __init__(self, variables: Any = None) -> None:
        self.entries: list[tuple[_Place, Any]] = []
        self.names: dict[str, str] = {}
        self.sources: dict[str, tuple[str, int | None]] = {}
        self.variables = variables
        """Of the frame; the sources of its symbols begin there."""
        self.graph = 0


class Shapes:
    """What was seen in the code of ``file``. Nothing that it does makes Dynamo guard anything."""

    def __init__(self, file: str, on_loss: Callable[[Exception], None]) -> None:
        self.file = file
        self.left_out = 0
        self._on_loss = on_loss
        self._tables: dict[type, list[Any]] = {}
        self._attempts: dict[int, _Attempt] = {}
        self._here = _Attempt()
        self._failed: _Attempt | None = None
        self._places: dict[_Place, dict[ShapeSeen, list[Any]]] = {}
        self._left_out: dict[_Place, int] = {}
        self._wished: dict[int, tuple[weakref.ref[Any], dict[int, str]]] = {}
        self._unnamed: dict[object, str] = {}

    # -- what the recorder tells --------------------------------------------------------------

    def name(self, tensor: torch.Tensor, dim: int, name: str) -> None:
        """The user's name of a size, before the tensor comes to a frame."""
        known = self._wished.get(id(tensor))
        if known is None or known[0]() is not tensor:
            known = self._wished[id(tensor)] = weakref.ref(tensor), {}
        known[1][dim] = name

    def begin(self, frame: int, variables: Any) -> None:
        """Dynamo starts with a frame, or starts over. ``variables`` are the frame's own."""
        self._failed = None
        self._here = self._attempts[frame] = _Attempt(variables)

    def leave(self, frame: int, outer: int, outcome: str) -> None:
        """Dynamo is through with a frame and goes on with the one around it, if there is one."""
        attempt = self._attempts.pop(frame, None)
        self._here = self._attempts.get(outer) or _Attempt()
        if attempt is None:
            return
        if outcome == "compiled":
            self._keep(attempt)
        elif outcome == "failed":
            self._failed = attempt

    def captured(self, graph: int) -> None:
        self._here.graph = graph

    def created(self, symbol: str, source: str, hint: int | None) -> None:
        self._here.sources[symbol] = source, hint
        match = _SIZE.fullmatch(source)
        if match is None or not self._wished:
            return
        tensor = _found(match["tensor"], self._here.variables)
        wished = self._wished.get(id(tensor))
        if wished is not None and wished[0]() is tensor:
            name = wished[1].get(int(match["axis"]))
            if name is not None:
                self._here.names[symbol] = name

    def words(self, size: Any) -> str:
        """A size of the frame that is being traced."""
        return self._words(size, self._here)

    def seen(self, failed: bool) -> list[ShapedPlace]:
        """``failed``: the tracer raised, so that what it saw last did not run without it."""
        if failed and self._failed is not None:
            self._keep(self._failed)
            self._failed = None
        return [
            _placed(place, found, self._left_out.get(place, 0))
            for place, found in self._places.items()
        ]

    # -- instructions -------------------------------------------------------------------------

    def watch(self, translator: Any) -> None:
        """Have a new symbolic interpreter tell what it comes across."""
        kind = type(translator)
        table = self._tables.get(kind)
        if table is None:
            table = self._tables[kind] = self._table(translator.dispatch_table)
        translator.dispatch_table = table
        if translator.symbolic_locals:  # those of a frame come later
            self.parameters(translator)

    def parameters(self, translator: Any) -> None:
        code: types.CodeType = translator.f_code
        if stacks.original_name(code.co_name) != code.co_name:
            return  # what a resume function is given are no parameters of the user's
        for name in values.parameter_names(code):
            variable = translator.symbolic_locals.get(name)
            if variable is not None:
                self._note("parameter", values.content_of(translator, variable), None, name, code)

    def _table(self, handlers: list[Any]) -> list[Any]:
        table = list(handlers)

        def put(names: tuple[str, ...], around: Callable[[Handler], Handler]) -> None:
            for name in names:
                number = dis.opmap.get(name)
                if number is not None and table[number] is not None:
                    table[number] = around(table[number])

        put(_STORES, self._before_store)
        put(_RETURNS, self._before_return)
        put(("RETURN_CONST",), self._before_constant_return)
        put(tuple(name for name in _RESULTS if name not in _NOT_RESULTS), self._behind)
        return table

    def _before_store(self, original: Handler) -> Handler:
        def store(translator: Any, instruction: Any) -> Any:
            try:
                self._note(
                    "assigned",
                    translator.stack[-1],
                    instruction.positions,
                    instruction.argval,
                    translator.f_code,
                    translator.lineno,
                )
            except Exception as error:  # it must not change what Dynamo does
                self._on_loss(error)
            return original(translator, instruction)

        return store

    def _before_return(self, original: Handler) -> Handler:
        def leave(translator: Any, instruction: Any) -> Any:
            try:
                self._note(
                    "return",
                    translator.stack[-1],
                    instruction.positions,
                    "",
                    translator.f_code,
                    translator.lineno,
                )
            except Exception as error:  # it must not change what Dynamo does
                self._on_loss(error)
            return original(translator, instruction)

        return leave

    def _before_constant_return(self, original: Handler) -> Handler:
        def leave(translator: Any, instruction: Any) -> Any:
            try:
                place = "return", instruction.positions, translator.lineno, ""
                value = _constant(instruction.argval, "")
                if value is not None:
                    self._add((*place, *_function(translator.f_code)), value)  # type: ignore[arg-type]
            except Exception as error:  # it must not change what Dynamo does
                self._on_loss(error)
            return original(translator, instruction)

        return leave

    def _behind(self, original: Handler) -> Handler:
        readers = _readers

        def compute(translator: Any, instruction: Any) -> Any:
            result = original(translator, instruction)
            try:
                stack = translator.stack
                # No pointer: the graph was broken, and what is on the stack is of another frame.
                if stack and translator.instruction_pointer is not None:
                    variable = stack[-1]
                    if readers.get(type(variable), _read_first) is not None and not (
                        _METHOD_FLAG and instruction.opname == "LOAD_ATTR" and instruction.arg & 1
                    ):
                        position = instruction.positions
                        if position is not None and position.end_col_offset is not None:
                            self._note("expression", variable, position, "", translator.f_code)
            except Exception as error:  # it must not change what Dynamo does
                self._on_loss(error)
            return result

        return compute

    def _note(
        self,
        role: ShapeRole,
        variable: Any,
        position: Any,
        name: str,
        code: types.CodeType,
        line: int | None = None,
    ) -> None:
        value = read(variable)
        if value is not None and not (role == "expression" and type(value) is _Constant):
            self._add((role, position, line or 0, name, *_function(code)), value)

    def _add(self, place: _Place, value: Any) -> None:
        entries = self._here.entries
        if len(entries) < MOST_ENTRIES:
            entries.append((place, value))
        else:
            self.left_out += 1

    # -- words --------------------------------------------------------------------------------

    def _keep(self, attempt: _Attempt) -> None:
        told: dict[int, tuple[Any, ShapeSeen | None]] = {}
        for place, value in attempt.entries:
            known = told.get(id(value))
            if known is None:
                known = told[id(value)] = value, self._describe(value, attempt)
            described = known[1]
            if described is None or (place[0] == "expression" and described.kind == "constant"):
                continue
            found = self._places.setdefault(place, {})
            # Equal but for its place in a graph.
            plain = replace(described, graph=0, node="")
            counted = found.get(plain)
            if counted is not None:
                counted[0] += 1
            else:
                if len(found) == MOST_VALUES:
                    _, (count, *_) = found.popitem()
                    self._left_out[place] = self._left_out.get(place, 0) + count
                found[plain] = [1, described.graph, described.node]

    def _describe(self, value: Any, attempt: _Attempt) -> ShapeSeen | None:
        if type(value) is _Later:
            known = values.realised(value.variable)
            value = read(known) if known is not None else _read_value(value.value)
        match value:
            case _Tensor():
                return self._tensor(value, attempt)
            case _Integer():
                words = self._words(value.value, attempt)
                if words.lstrip("-").isdigit():  # it has been specialised
                    return ShapeSeen("constant", words)
                kind = type(value.value).__name__
                return ShapeSeen("integer", f"{kind} {words}", _hint(value.value))
            case _Constant():
                return ShapeSeen("constant", _shown(value.value), source=value.source)
            case _Several():
                return self._several(value, attempt)
        return None

    def _tensor(self, value: _Tensor, attempt: _Attempt) -> ShapeSeen:
        sizes = [self._words(size, attempt) for size in value.shape]
        device = value.device.type
        form = f"{dtype_name(value.dtype)}[%s]" + ("" if device == "cpu" else f"@{device}")
        concrete = ""
        if not all(size.isdigit() for size in sizes):
            concrete = form % ", ".join(_hint(size) or "?" for size in value.shape)
        stride = ""
        if value.stride is not None:
            stride = ", ".join(self._words(step, attempt) for step in value.stride)
        strided = value.layout is torch.strided
        return ShapeSeen(
            "tensor",
            form % ", ".join(sizes),
            concrete,
            str(value.device),
            f"({stride})" if value.stride is not None else "",
            "" if strided else str(value.layout).removeprefix("torch."),
            value.requires_grad,
            "",
            attempt.graph if value.node is not None else 0,
            str(value.node.name) if value.node is not None and attempt.graph else "",
        )

    def _several(self, value: _Several, attempt: _Attempt) -> ShapeSeen | None:
        parts = [self._describe(item, attempt) for item in value.items]
        known = [part for part in parts if part is not None]
        kind: ShapeKind = "several"
        if all(part.kind == "constant" for part in known):
            if value.brackets == "[]" or len(known) < len(parts):
                return None  # a list may be another one in a moment
            kind = "constant"
        opening, closing = value.brackets[0], value.brackets[1]
        comma = "," if len(parts) == 1 and opening == "(" else ""

        def joined(words: Callable[[ShapeSeen], str]) -> str:
            inner = ", ".join("…" if part is None else words(part) for part in parts)
            return f"{opening}{inner}{comma}{closing}"

        text = joined(lambda part: part.text.removeprefix("SymInt "))
        concrete = joined(lambda part: part.concrete or part.text)
        source = next((part.source for part in known if part.source), "")
        return ShapeSeen(kind, text, "" if concrete == text else concrete, source=source)

    def _words(self, size: Any, attempt: _Attempt) -> str:
        """A size or number as the probe would write it."""
        words = str(size)
        if isinstance(size, int):
            return words
        alone = _SYMBOL.fullmatch(words) is not None

        def named(match: re.Match[str]) -> str:
            name = self._symbol(match[0], attempt)
            return name if alone or name.isidentifier() else f"({name})"

        words = _SYMBOL.sub(named, words)
        while words.startswith("(") and words.endswith(")") and _encloses(words):
            words = words[1:-1]
        return words

    def _symbol(self, symbol: str, attempt: _Attempt) -> str:
        name = attempt.names.get(symbol)
        if name is not None:
            return name
        source, hint = attempt.sources.get(symbol, ("", None))
        key: object = (source, hint) if source else (id(attempt), symbol)
        known = self._unnamed.get(key)
        if known is None:
            letter = symbol.rstrip("0123456789")
            taken = {*self._unnamed.values()}
            for _, wished in self._wished.values():
                taken.update(wished.values())
            number = 0
            while f"{letter}{number}" in taken:
                number += 1
            known = self._unnamed[key] = f"{letter}{number}"
            if not source:
                attempt.names[symbol] = known
        return known


def _placed(place: _Place, found: dict[ShapeSeen, list[Any]], left_out: int) -> ShapedPlace:
    role, position, line, name, function, first = place
    start = end = None
    if position is not None and position.lineno and position.end_lineno:
        if position.col_offset is not None and position.end_col_offset is not None:
            start = position.lineno - 1, position.col_offset
            end = position.end_lineno - 1, position.end_col_offset
        line = position.lineno
    seen = tuple(
        replace(value, count=count, graph=graph, node=node)
        for value, (count, graph, node) in found.items()
    )
    name_now = stacks.original_name(function)
    line = (line or first) - 1
    return ShapedPlace(role, name_now, first - 1, name, line, start, end, seen, left_out)


def _function(code: types.CodeType) -> tuple[str, int]:
    return code.co_name, code.co_firstlineno


# -- sources ----------------------------------------------------------------------------------

_SIZE = re.compile(r"(?P<tensor>L\['\w+'\](?:\[[^\[\]]+\])*)\.size\(\)\[(?P<axis>\d+)\]")
_ITEM = re.compile(r"\[(?:(?P<number>\d+)|'(?P<key>[^']*)')\]")


def _found(source: str, scope: Any) -> Any:
    """The value of ``L['x'][0]``, if getting it runs no code of the user's."""
    value: Any = scope
    for match in _ITEM.finditer(source):
        key = match["key"] if match["number"] is None else int(match["number"])
        try:
            if type(value) is not dict and not (
                isinstance(key, int) and type(value) in (list, tuple)
            ):
                return None
            value = value[key]
        except (LookupError, TypeError):
            return None
    return value


# -- values -----------------------------------------------------------------------------------


def read(variable: Any) -> Any:
    """What Dynamo knows of a variable of its own; None for what is none of our kinds."""
    reader = _readers.get(type(variable), _read_first)
    return None if reader is None else reader(variable)


def _read_first(variable: Any) -> Any:
    kind = type(variable)
    reader = _readers[kind] = _reader(kind)
    return None if reader is None else reader(variable)


_Reader = Callable[[Any], Any]
_readers: dict[type, _Reader | None] = {}


def _reader(kind: type) -> _Reader | None:
    line = kind.__mro__
    general = values.kind_of_class(kind)
    if general == "tensor":
        return _read_tensor
    if general == "lazy":
        return _read_lazy
    if general == "module":
        return None
    for hooks, reader in (
        ((adapter.SYMBOL_VARIABLE,), _read_symbol),
        ((adapter.CONSTANT_VARIABLE,), _read_constant),
        ((adapter.SIZE_VARIABLE, adapter.TUPLE_VARIABLE), _read_tuple),
    ):
        if any(hook.get() in line for hook in hooks):
            return reader
    return _read_list if kind is adapter.LIST_VARIABLE.get() else None


def _read_tensor(variable: Any) -> _Tensor | None:
    node = variable.proxy.node
    value = node.meta.get("example_value")
    return _of_tensor(value, node) if isinstance(value, torch.Tensor) else None


def _of_tensor(value: torch.Tensor, node: Any) -> _Tensor:
    strided = value.layout is torch.strided and not value.is_nested
    return _Tensor(
        value.dtype,
        tuple(value.shape),
        value.stride() if strided else None,
        value.device,
        value.layout,
        value.requires_grad,
        node,
    )


def _read_value(value: object) -> _Tensor | None:
    """Of a value that Dynamo never looked at."""
    if not isinstance(value, torch.Tensor):
        return None  # nothing holds it to what it was in this run
    return _of_tensor(value, None)


def _read_lazy(variable: Any) -> Any:
    known = values.realised(variable)
    if known is not None:
        return read(known)
    return _Later(variable, vars(variable)["_cache"].value)


def _read_symbol(variable: Any) -> Any:
    number = variable.sym_num
    if isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return _Integer(number)
    return _constant(number, "")


def _read_constant(variable: Any) -> Any:
    return _constant(variable.value, _source(variable))


def _constant(value: object, source: str) -> _Constant | None:
    if value is None or type(value) in (int, float, bool, str):
        return _Constant(value, source)
    if type(value) in (tuple, torch.Size) and all(type(item) is int for item in value):  # type: ignore[attr-defined]
        return _Constant(tuple(value), source) if value else None  # type: ignore[arg-type]
    return None


def _source(variable: Any) -> str:
    try:
        name = getattr(getattr(variable, "source", None), "name", "")
        return str(name() if callable(name) else name)
    except NotImplementedError:  # sources of what only Dynamo knows have no name
        return ""


def _read_tuple(variable: Any) -> Any:
    return _read_items(variable, "()")


def _read_list(variable: Any) -> Any:
    return _read_items(variable, "[]")


def _read_items(variable: Any, brackets: str) -> _Several | None:
    items = variable.items
    if not 0 < len(items) <= _MOST_ITEMS:
        return None
    found = tuple(map(read, items))
    return _Several(brackets, found) if any(one is not None for one in found) else None


def _hint(size: Any) -> str:
    if isinstance(size, (bool, int, float)):
        return str(size)
    hint = getattr(size.node, "hint", None)
    return "" if hint is None else str(hint)


def _shown(value: object) -> str:
    words = repr(value)
    return words if len(words) <= _LONGEST_TEXT else f"{words[: _LONGEST_TEXT - 1]}…"


def _encloses(words: str) -> bool:
    """Whether the first bracket is closed by the last."""
    depth = 0
    for number, letter in enumerate(words):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return number == len(words) - 1
    return False
