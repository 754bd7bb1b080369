"""Record which expressions and locals of one file are tensors or modules while Dynamo traces it."""

from __future__ import annotations

import types
from typing import Any

from ..code_objects import HAS_COLUMNS
from ..protocol import SeenKind
from ..torch_internals import frames
from . import variables
from .instructions import InstructionListeners
from .recording import Local, Receiver

_LOADS = ("LOAD_ATTR", "LOAD_METHOD") if HAS_COLUMNS else ()
"""Names of the instructions that load an attribute of the object on top of the stack.

Empty if this Python does not record columns, which are needed to find the expression.
"""
STORES = ("STORE_FAST", "STORE_DEREF")


class ValueRecorder:
    """A recorder of the kinds of values in one file. It does not cause Dynamo to add guards."""

    def __init__(self, instructions: InstructionListeners) -> None:
        self._receivers: set[tuple[Any, str, SeenKind]] = set()
        self._locals: set[tuple[str, int, str, SeenKind]] = set()
        instructions.listen_before(_LOADS, self._record_receiver)
        instructions.listen_before(STORES, self._record_local)

    def record_parameters(self, translator: Any) -> None:
        """Record whether the arguments of a function are tensors, modules or other values.

        ``translator`` is the symbolic interpreter that runs the function. For a resume function,
        the arguments are local variables of the function that it continues.
        """
        code: types.CodeType = translator.f_code
        # The outermost interpreter has values; an inlined interpreter has variables of Dynamo.
        frame_locals, inlined = translator.f_locals, translator.symbolic_locals
        for name in variables.parameter_names(code):
            kind: SeenKind | None = None
            if name in frame_locals:
                kind = variables.kind_of_value(frame_locals[name])
            elif name in inlined:
                kind = variables.variable_kind(variables.unwrap_cell(translator, inlined[name]))
            if kind is not None:
                self._locals.add((code.co_name, code.co_firstlineno, name, kind))

    def collect(self) -> list[Receiver | Local]:
        receivers = [
            Receiver(name, place.end_lineno - 1, place.end_col_offset, kind)
            for place, name, kind in self._receivers
            if place.end_lineno and place.end_col_offset
        ]
        found = {
            Local(frames.original_name(function), line - 1, name, kind)
            for function, line, name, kind in self._locals
        }
        return [*receivers, *found]

    def _record_receiver(self, translator: Any, instruction: Any) -> None:
        kind = variables.variable_kind(translator.stack[-1])
        place = instruction.positions
        if kind is not None and place is not None:
            self._receivers.add((place, instruction.argval, kind))

    def _record_local(self, translator: Any, instruction: Any) -> None:
        kind = variables.variable_kind(translator.stack[-1])
        code, name = translator.f_code, instruction.argval
        # A variable of an enclosing function is not a local of this function.
        if kind is not None and name not in code.co_freevars:
            self._locals.add((code.co_name, code.co_firstlineno, name, kind))
