"""What the values of one file are while Dynamo traces it: dtypes, sizes, constants.

Looks at what is assigned and returned, and at what is on top of the stack behind an instruction
that computes something. It reads what Dynamo has written down of a value already.

Dynamo traces a frame again from its start whenever it comes across something that it has to know
before; only the last attempt counts. What it gave up is forgotten: that code ran without it.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from .. import texts
from ..code_objects import HAS_COLUMNS, loads_method
from ..protocol.shapes import MOST_VALUES, ShapeKind, ShapeRole, ShapeSeen
from ..torch_internals import frames
from . import variables
from .describe import dtype_name
from .instructions import Instructions
from .recording import ShapedPlace
from .size_names import FrameNames, SizeNames
from .values import STORES
from .variables import Constant, Content, Later, Number, Several, Tensor

# Only with columns is it known which expression it was.
_RESULTS = (
    (
        *(name for name in dis.opmap if name.startswith(("BINARY_", "UNARY_", "CALL"))),
        *("COMPARE_OP", "LOAD_ATTR"),
    )
    if HAS_COLUMNS
    else ()
)
_VARIABLES = (
    ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_DEREF") if HAS_COLUMNS else ()
)
_NOT_RESULTS = ("CALL_INTRINSIC_1", "CALL_INTRINSIC_2", "CALL_FINALLY")

MOST_ENTRIES = 200_000
"""Values that are kept of one attempt at a frame."""
_LONGEST_TEXT = 40

_Place = tuple[ShapeRole, Any, int, str, str, int]
"""Role, bytecode position, line, name, and the function's name and first line."""


class _Attempt:
    """What is known of a frame since Dynamo last began with it."""

    def __init__(self, variables: Any = None) -> None:
        self.entries: list[tuple[_Place, Content]] = []
        self.names = FrameNames(variables)
        self.graph = 0


class Shapes:
    """What was seen in the code. Nothing that it does makes Dynamo guard anything."""

    def __init__(self, instructions: Instructions) -> None:
        self.left_out = 0
        self._attempts: dict[int, _Attempt] = {}
        self._here = _Attempt()
        self._failed: _Attempt | None = None
        self._places: dict[_Place, dict[ShapeSeen, list[Any]]] = {}
        self._left_out: dict[_Place, int] = {}
        self._names = SizeNames()
        instructions.before(STORES, self._stores)
        instructions.before(("RETURN_VALUE",), self._returns)
        instructions.before(("RETURN_CONST",), self._returns_constant)
        results = [name for name in _RESULTS if name not in _NOT_RESULTS]
        instructions.behind(results, self._computed)
        instructions.behind(_VARIABLES, self._loaded)

    # -- what the recorder tells --------------------------------------------------------------

    def name(self, tensor: torch.Tensor, dim: int, name: str) -> None:
        """The user's name of a size, before the tensor comes to a frame."""
        self._names.wish(tensor, dim, name)

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

    def created(self, symbol: str, source: str, hint: int | None) -> str:
        """A symbol begins; what the user calls it, if that is known."""
        return self._names.created(self._here.names, symbol, source, hint)

    def words(self, size: Any) -> str:
        """A size of the frame that is being traced."""
        return self._names.words(self._here.names, size)

    def parameters(self, translator: Any) -> None:
        """A symbolic interpreter knows what its code is called with."""
        code: types.CodeType = translator.f_code
        if frames.original_name(code.co_name) != code.co_name:
            return  # what a resume function is given are no parameters of the user's
        given = self._here.names.variables if translator.parent is None else None
        for name in variables.parameter_names(code):
            variable = translator.symbolic_locals.get(name)
            if variable is not None:
                content = variables.read(variables.content_of(translator, variable))
            else:  # since torch 2.15 Dynamo leaves out what the code never reads
                content = variables.of_unread((given or {}).get(name))
            self._note("parameter", content, None, name, code)

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

    def _stores(self, translator: Any, instruction: Any) -> None:
        self._note(
            "assigned",
            variables.read(translator.stack[-1]),
            instruction.positions,
            instruction.argval,
            translator.f_code,
            translator.lineno,
        )

    def _returns(self, translator: Any, instruction: Any) -> None:
        self._returned(translator, instruction, variables.read(translator.stack[-1]))

    def _returns_constant(self, translator: Any, instruction: Any) -> None:
        self._returned(translator, instruction, variables.constant(instruction.argval, ""))

    def _returned(self, translator: Any, instruction: Any, content: Content) -> None:
        code, line = translator.f_code, translator.lineno
        self._note("return", content, instruction.positions, "", code, line)

    def _computed(self, translator: Any, instruction: Any) -> None:
        if not loads_method(instruction):
            self._expression(translator, instruction, "")

    def _loaded(self, translator: Any, instruction: Any) -> None:
        self._expression(translator, instruction, instruction.argval)

    def _expression(self, translator: Any, instruction: Any, name: str) -> None:
        stack, position = translator.stack, instruction.positions
        if not stack or position is None or position.end_col_offset is None:
            return
        content = variables.read(stack[-1])
        if type(content) is not Constant:
            self._note("expression", content, position, name, translator.f_code)

    def _note(
        self,
        role: ShapeRole,
        content: Content,
        position: Any,
        name: str,
        code: types.CodeType,
        line: int | None = None,
    ) -> None:
        if content is None:
            return
        entries = self._here.entries
        if len(entries) < MOST_ENTRIES:
            place = role, position, line or 0, name, code.co_name, code.co_firstlineno
            entries.append((place, content))
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

    def _describe(self, value: Content, attempt: _Attempt) -> ShapeSeen | None:
        if type(value) is Later:
            value = variables.read_again(value)
        match value:
            case Tensor():
                return self._tensor(value, attempt)
            case Number():
                words = self._names.words(attempt.names, value.value)
                if words.lstrip("-").isdigit():  # it has been specialized
                    return ShapeSeen("constant", words)
                kind = type(value.value).__name__
                return ShapeSeen("integer", f"{kind} {words}", _hint(value.value))
            case Constant():
                return ShapeSeen("constant", _shown(value.value), source=value.source)
            case Several():
                return self._several(value, attempt)
        return None

    def _tensor(self, value: Tensor, attempt: _Attempt) -> ShapeSeen:
        sizes = [self._names.words(attempt.names, size) for size in value.shape]
        device = value.device.type
        form = f"{dtype_name(value.dtype)}[%s]" + ("" if device == "cpu" else f"@{device}")
        concrete = ""
        if not all(size.isdigit() for size in sizes):
            concrete = form % ", ".join(_hint(size) or "?" for size in value.shape)
        stride = ""
        if value.stride is not None:
            stride = ", ".join(self._names.words(attempt.names, step) for step in value.stride)
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

    def _several(self, value: Several, attempt: _Attempt) -> ShapeSeen | None:
        parts = [self._describe(item, attempt) for item in value.items]
        known = [part for part in parts if part is not None]
        kind: ShapeKind = "several"
        if all(part.kind == "constant" for part in known):
            if value.brackets == "[]" or len(known) < len(parts):
                return None  # a list may be another one in a moment
            kind = "constant"
        opening, closing = value.brackets[0], value.brackets[1]
        comma = "," if len(parts) == 1 and opening == "(" and not value.names else ""

        def joined(words: Callable[[ShapeSeen], str]) -> str:
            each = ["…" if part is None else words(part) for part in parts]
            if value.names:
                each = [f"{name}: {text}" for name, text in zip(value.names, each, strict=True)]
            inner = ", ".join(each)
            return f"{opening}{inner}{comma}{closing}"

        text = joined(lambda part: part.text.removeprefix("SymInt "))
        concrete = joined(lambda part: part.concrete or part.text)
        source = next((part.source for part in known if part.source), "")
        return ShapeSeen(kind, text, "" if concrete == text else concrete, source=source)


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
    name_now = frames.original_name(function)
    line = (line or first) - 1
    return ShapedPlace(role, name_now, first - 1, name, line, start, end, seen, left_out)


def _hint(size: Any) -> str:
    if isinstance(size, (bool, int, float)):
        return str(size)
    hint = getattr(size.node, "hint", None)
    return "" if hint is None else str(hint)


def _shown(value: object) -> str:
    text = texts.safe_repr(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"
