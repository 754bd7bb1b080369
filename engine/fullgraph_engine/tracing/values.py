"""Which expressions and locals of one file are tensors while Dynamo traces it."""

from __future__ import annotations

import types
from typing import Any

from ..code_objects import HAS_COLUMNS
from ..protocol import SeenKind
from ..torch_internals import frames
from . import variables
from .instructions import Instructions
from .recording import Local, Receiver

_LOADS = ("LOAD_ATTR", "LOAD_METHOD") if HAS_COLUMNS else ()
"""Instructions with an object on top of the stack and the columns of the attribute."""
STORES = ("STORE_FAST", "STORE_DEREF")


class Values:
    """What was seen in the code. Nothing that it does makes Dynamo guard anything."""

    def __init__(self, instructions: Instructions) -> None:
        self._receivers: set[tuple[Any, str, SeenKind]] = set()
        self._locals: set[tuple[str, int, str, SeenKind]] = set()
        instructions.before(_LOADS, self._loads)
        instructions.before(STORES, self._stores)

    def parameters(self, translator: Any) -> None:
        """A new symbolic interpreter knows what its code is called with.

        Also what a resume function is given: locals of the function that it continues.
        """
        code: types.CodeType = translator.f_code
        # The outermost interpreter has values, those inside it what stands for values.
        given, inlined = translator.f_locals, translator.symbolic_locals
        for name in variables.parameter_names(code):
            kind: SeenKind | None = None
            if name in given:
                kind = variables.kind_of_value(given[name])
            elif name in inlined:
                kind = variables.kind_of(variables.content_of(translator, inlined[name]))
            if kind is not None:
                self._locals.add((code.co_name, code.co_firstlineno, name, kind))

    def seen(self) -> list[Receiver | Local]:
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

    def _loads(self, translator: Any, instruction: Any) -> None:
        kind = variables.kind_of(translator.stack[-1])
        place = instruction.positions
        if kind is not None and place is not None:
            self._receivers.add((place, instruction.argval, kind))

    def _stores(self, translator: Any, instruction: Any) -> None:
        kind = variables.kind_of(translator.stack[-1])
        code, name = translator.f_code, instruction.argval
        # What a nested function stores in a variable of another is not its own.
        if kind is not None and name not in code.co_freevars:
            self._locals.add((code.co_name, code.co_firstlineno, name, kind))
