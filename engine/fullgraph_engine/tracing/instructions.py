"""Listen to the instructions of one file's code while Dynamo interprets them.

Dynamo finds the handler of an instruction in a table of the interpreter's class. An interpreter of
the file's code gets its own table, whose handlers call listener functions before or after the
original handler. Code of other files is traced without any change.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Listener = Callable[[Any, Any], None]
"""Function called with the symbolic interpreter and the instruction; it must not change either."""

Handler = Callable[[Any, Any], Any]

_FIRST_COMPILER_OPCODE = 256
"""First opcode number of instructions that only the compiler uses and replaces before the code
runs."""


class _OpcodeListeners(NamedTuple):
    before: list[Listener]
    after: list[Listener]


class InstructionListeners:
    """Functions to call when Dynamo interprets instructions of the code in ``file``, by opcode.

    ``on_loss`` receives an exception that a listener function raises; Dynamo does not see it.
    """

    def __init__(self, file: str, on_loss: Callable[[Exception], None]) -> None:
        self.file = file
        self._on_loss = on_loss
        self._listeners: dict[int, _OpcodeListeners] = {}
        self._tables: dict[type, list[Any]] = {}
        """Handler tables by class of symbolic interpreter; Dynamo has three classes and many
        instances."""

    def listen_before(self, names: Iterable[str], listener: Listener) -> None:
        """Call ``listener`` before instructions with these opcode names, while their operands are
        on the stack.
        """
        for listeners in self._select(names):
            listeners.before.append(listener)

    def listen_after(self, names: Iterable[str], listener: Listener) -> None:
        """Call ``listener`` after instructions with these opcode names, when their result is on the
        stack.

        It is not called if the instruction broke the graph: the stack then belongs to another
        frame.
        """
        for listeners in self._select(names):
            listeners.after.append(listener)

    def attach(self, translator: Any) -> bool:
        """Call the listener functions for the code that a new symbolic interpreter (``translator``)
        runs.

        Return False, without effect, if the code is from another file.
        """
        if translator.f_code.co_filename != self.file:
            return False
        kind = type(translator)
        table = self._tables.get(kind)
        if table is None:
            table = self._tables[kind] = self._build_table(kind.dispatch_table)
        translator.dispatch_table = table
        return True

    def _select(self, names: Iterable[str]) -> list[_OpcodeListeners]:
        """Return the listeners of the given opcodes. Skip opcode names that this Python lacks."""
        numbers = [dis.opmap[name] for name in names if name in dis.opmap]
        return [
            self._listeners.setdefault(number, _OpcodeListeners([], []))
            for number in numbers
            if number < _FIRST_COMPILER_OPCODE
        ]

    def _build_table(self, handlers: list[Any]) -> list[Any]:
        table = list(handlers)
        for number, listeners in self._listeners.items():
            if table[number] is not None:
                table[number] = self._wrap_handler(table[number], *listeners)
        return table

    def _wrap_handler(
        self, original: Handler, before: list[Listener], after: list[Listener]
    ) -> Handler:
        on_loss = self._on_loss

        def handle(translator: Any, instruction: Any) -> Any:
            for listener in before:
                try:
                    listener(translator, instruction)
                except Exception as error:
                    # An error of the listener must not change what Dynamo does.
                    on_loss(error)
            result = original(translator, instruction)
            if after and translator.instruction_pointer is not None:
                for listener in after:
                    try:
                        listener(translator, instruction)
                    except Exception as error:
                        on_loss(error)
            return result

        return handle
