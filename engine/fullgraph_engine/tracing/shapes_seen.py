"""Record the dtypes, sizes and constants of the values in one file while Dynamo traces it.

The recorder reads each assigned or returned value, and the top of the stack after an instruction
that computes something. It reads only what Dynamo has already determined.

Dynamo restarts the trace of a frame when it needs to know something earlier. Only the last attempt
counts. If Dynamo skips the frame, no attempt counts, because its code then runs without Dynamo.
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
from .instructions import InstructionListeners
from .recording import ShapedPlace
from .size_names import FrameNames, SizeNames
from .values import STORES
from .variables import Content, SeenConstant, SeenNumber, SeenSequence, SeenTensor, UnrealizedValue

# Without column numbers, the expression that an instruction belongs to is unknown.
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

MAX_ENTRIES = 200_000
"""Maximum number of values kept for each attempt of Dynamo to trace a frame."""
_MAX_TEXT_LENGTH = 40

_ValuePlace = tuple[ShapeRole, Any, int, str, str, int]
"""Key for the values that one place in the source code had while it was traced.

It has the kind of place (such as a parameter), the position in the bytecode, the line, the name of
the variable, the name of the function, and the function's first line.
"""


class _FrameAttempt:
    """Values seen in the latest attempt of Dynamo to trace a frame; Dynamo may restart a trace
    several times.
    """

    def __init__(self, variables: Any = None) -> None:
        self.entries: list[tuple[_ValuePlace, Content]] = []
        self.names = FrameNames(variables)
        self.graph = 0


class ShapeRecorder:
    """A recorder of dtypes, sizes and constants in one file. It does not cause Dynamo to add
    guards."""

    def __init__(self, instructions: InstructionListeners) -> None:
        self.left_out = 0
        self._attempts: dict[int, _FrameAttempt] = {}
        self._current = _FrameAttempt()
        self._failed_attempt: _FrameAttempt | None = None
        self._places: dict[_ValuePlace, dict[ShapeSeen, list[Any]]] = {}
        self._left_out: dict[_ValuePlace, int] = {}
        self._names = SizeNames()
        instructions.listen_before(STORES, self._record_assignment)
        instructions.listen_before(("RETURN_VALUE",), self._record_return)
        instructions.listen_before(("RETURN_CONST",), self._record_constant_return)
        results = [name for name in _RESULTS if name not in _NOT_RESULTS]
        instructions.listen_after(results, self._record_result)
        instructions.listen_after(_VARIABLES, self._record_variable)

    # -- events from the recorder -------------------------------------------------------------

    def set_size_name(self, tensor: torch.Tensor, dim: int, name: str) -> None:
        """Set the user's name for a size of a tensor, before a frame receives the tensor."""
        self._names.set_name(tensor, dim, name)

    def begin_frame(self, frame: int, variables: Any) -> None:
        """Start to collect values for a new attempt of Dynamo to trace a frame.

        ``variables`` are the frame's local variables by name.
        """
        self._failed_attempt = None
        self._current = self._attempts[frame] = _FrameAttempt(variables)

    def leave_frame(self, frame: int, outer: int, outcome: str) -> None:
        """Stop collecting values for a frame and continue with the enclosing frame ``outer``.

        The values are used if ``outcome`` is "compiled". If it is "failed", they are kept for
        :meth:`collect`.
        """
        attempt = self._attempts.pop(frame, None)
        self._current = self._attempts.get(outer) or _FrameAttempt()
        if attempt is None:
            return
        if outcome == "compiled":
            self._merge_attempt(attempt)
        elif outcome == "failed":
            self._failed_attempt = attempt

    def set_graph(self, graph: int) -> None:
        self._current.graph = graph

    def note_symbol(self, symbol: str, source: str, hint: int | None) -> str:
        """Record a new symbolic size; return the user's name for it, or "" if the user did not name
        it.

        ``source`` is Dynamo's name of the size, and ``hint`` its value in this run.
        """
        return self._names.note_symbol(self._current.names, symbol, source, hint)

    def format_size(self, size: Any) -> str:
        """Format a size that the current frame uses, with the user's names for symbols."""
        return self._names.format_size(self._current.names, size)

    def record_parameters(self, translator: Any) -> None:
        """Record the argument values of the function that a symbolic interpreter runs."""
        code: types.CodeType = translator.f_code
        if frames.original_name(code.co_name) != code.co_name:
            return  # Dynamo adds parameters to a resume function; they are not the user's
        frame_locals = self._current.names.variables if translator.parent is None else None
        for name in variables.parameter_names(code):
            variable = translator.symbolic_locals.get(name)
            if variable is not None:
                content = variables.read_content(variables.unwrap_cell(translator, variable))
            else:  # since torch 2.15 Dynamo omits parameters that the code never reads
                content = variables.unread_content((frame_locals or {}).get(name))
            self._add_entry("parameter", content, None, name, code)

    def collect(self, failed: bool) -> list[ShapedPlace]:
        """Return the recorded values of all source ranges.

        ``failed`` is true if the tracer raised an exception. Then the values of the last attempt to
        trace the frame are included, too, because the frame did not run without Dynamo.
        """
        if failed and self._failed_attempt is not None:
            self._merge_attempt(self._failed_attempt)
            self._failed_attempt = None
        return [
            _make_place(place, found, self._left_out.get(place, 0))
            for place, found in self._places.items()
        ]

    # -- instructions -------------------------------------------------------------------------

    def _record_assignment(self, translator: Any, instruction: Any) -> None:
        self._add_entry(
            "assigned",
            variables.read_content(translator.stack[-1]),
            instruction.positions,
            instruction.argval,
            translator.f_code,
            translator.lineno,
        )

    def _record_return(self, translator: Any, instruction: Any) -> None:
        self._add_return(translator, instruction, variables.read_content(translator.stack[-1]))

    def _record_constant_return(self, translator: Any, instruction: Any) -> None:
        self._add_return(
            translator, instruction, variables.constant_content(instruction.argval, "")
        )

    def _add_return(self, translator: Any, instruction: Any, content: Content) -> None:
        code, line = translator.f_code, translator.lineno
        self._add_entry("return", content, instruction.positions, "", code, line)

    def _record_result(self, translator: Any, instruction: Any) -> None:
        if not loads_method(instruction):
            self._add_expression(translator, instruction, "")

    def _record_variable(self, translator: Any, instruction: Any) -> None:
        self._add_expression(translator, instruction, instruction.argval)

    def _add_expression(self, translator: Any, instruction: Any, name: str) -> None:
        stack, position = translator.stack, instruction.positions
        if not stack or position is None or position.end_col_offset is None:
            return
        content = variables.read_content(stack[-1])
        if type(content) is not SeenConstant:
            self._add_entry("expression", content, position, name, translator.f_code)

    def _add_entry(
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
        entries = self._current.entries
        if len(entries) < MAX_ENTRIES:
            place = role, position, line or 0, name, code.co_name, code.co_firstlineno
            entries.append((place, content))
        else:
            self.left_out += 1

    # -- descriptions -------------------------------------------------------------------------

    def _merge_attempt(self, attempt: _FrameAttempt) -> None:
        described_by_id: dict[int, tuple[Any, ShapeSeen | None]] = {}
        for place, value in attempt.entries:
            known = described_by_id.get(id(value))
            if known is None:
                known = described_by_id[id(value)] = value, self._describe_content(value, attempt)
            described = known[1]
            if described is None or (place[0] == "expression" and described.kind == "constant"):
                continue
            found = self._places.setdefault(place, {})
            # Values that differ only in their graph node count as equal.
            without_node = replace(described, graph=0, node="")
            counted = found.get(without_node)
            if counted is not None:
                counted[0] += 1
            else:
                if len(found) == MOST_VALUES:
                    _, (count, *_) = found.popitem()
                    self._left_out[place] = self._left_out.get(place, 0) + count
                found[without_node] = [1, described.graph, described.node]

    def _describe_content(self, value: Content, attempt: _FrameAttempt) -> ShapeSeen | None:
        if type(value) is UnrealizedValue:
            value = variables.reread_content(value)
        match value:
            case SeenTensor():
                return self._describe_tensor(value, attempt)
            case SeenNumber():
                text = self._names.format_size(attempt.names, value.value)
                if text.lstrip("-").isdigit():  # Dynamo has specialized the size to a number
                    return ShapeSeen("constant", text)
                kind = type(value.value).__name__
                return ShapeSeen("integer", f"{kind} {text}", _hint_text(value.value))
            case SeenConstant():
                return ShapeSeen("constant", _shorten_repr(value.value), source=value.source)
            case SeenSequence():
                return self._describe_sequence(value, attempt)
        return None

    def _describe_tensor(self, value: SeenTensor, attempt: _FrameAttempt) -> ShapeSeen:
        sizes = [self._names.format_size(attempt.names, size) for size in value.shape]
        device = value.device.type
        template = f"{dtype_name(value.dtype)}[%s]" + ("" if device == "cpu" else f"@{device}")
        concrete = ""
        if not all(size.isdigit() for size in sizes):
            concrete = template % ", ".join(_hint_text(size) or "?" for size in value.shape)
        stride = ""
        if value.stride is not None:
            stride = ", ".join(
                self._names.format_size(attempt.names, step) for step in value.stride
            )
        strided = value.layout is torch.strided
        return ShapeSeen(
            "tensor",
            template % ", ".join(sizes),
            concrete,
            str(value.device),
            f"({stride})" if value.stride is not None else "",
            "" if strided else str(value.layout).removeprefix("torch."),
            value.requires_grad,
            "",
            attempt.graph if value.node is not None else 0,
            str(value.node.name) if value.node is not None and attempt.graph else "",
        )

    def _describe_sequence(self, value: SeenSequence, attempt: _FrameAttempt) -> ShapeSeen | None:
        parts = [self._describe_content(item, attempt) for item in value.items]
        known = [part for part in parts if part is not None]
        kind: ShapeKind = "several"
        if all(part.kind == "constant" for part in known):
            if value.brackets == "[]" or len(known) < len(parts):
                return None  # the code may change a list at any time
            kind = "constant"
        opening, closing = value.brackets[0], value.brackets[1]
        comma = "," if len(parts) == 1 and opening == "(" and not value.names else ""

        def join_parts(format_part: Callable[[ShapeSeen], str]) -> str:
            texts = ["…" if part is None else format_part(part) for part in parts]
            if value.names:
                texts = [f"{name}: {text}" for name, text in zip(value.names, texts, strict=True)]
            inner = ", ".join(texts)
            return f"{opening}{inner}{comma}{closing}"

        text = join_parts(lambda part: part.text.removeprefix("SymInt "))
        concrete = join_parts(lambda part: part.concrete or part.text)
        source = next((part.source for part in known if part.source), "")
        return ShapeSeen(kind, text, "" if concrete == text else concrete, source=source)


def _make_place(
    place: _ValuePlace, found: dict[ShapeSeen, list[Any]], left_out: int
) -> ShapedPlace:
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
    original = frames.original_name(function)
    line = (line or first) - 1
    return ShapedPlace(role, original, first - 1, name, line, start, end, seen, left_out)


def _hint_text(size: Any) -> str:
    if isinstance(size, (bool, int, float)):
        return str(size)
    hint = getattr(size.node, "hint", None)
    return "" if hint is None else str(hint)


def _shorten_repr(value: object) -> str:
    text = texts.safe_repr(value)
    return text if len(text) <= _MAX_TEXT_LENGTH else f"{text[: _MAX_TEXT_LENGTH - 1]}…"
