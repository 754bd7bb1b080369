"""Listening to the instructions of one file's code while Dynamo interprets them.

Dynamo looks up the handler of every instruction in a table of the interpreter's class. The
interpreters of code of the file get a table of their own, in which those who asked for an
instruction come before its handler, or behind it. All other code is traced as if we were not there.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Listener = Callable[[Any, Any], None]
"""Called with the symbolic interpreter and the instruction; may look, and change nothing."""

Handler = Callable[[Any, Any], Any]

_LARGEST = 256
"""Larger numbers are the compiler's own: it writes other instructions for them."""


class _Audience(NamedTuple):
    before: list[Listener]
    behind: list[Listener]


class Instructions:
    """The instructions of ``file``. What a listener raises goes to ``on_loss``, and no further."""

    def __init__(self, file: str, on_loss: Callable[[Exception], None]) -> None:
        self.file = file
        self._on_loss = on_loss
        self._audiences: dict[int, _Audience] = {}
        self._tables: dict[type, list[Any]] = {}
        """By class of interpreter: there are three, and many interpreters."""

    def before(self, names: Iterable[str], listener: Listener) -> None:
        """Tell a listener of these instructions while their operands are on the stack."""
        for audience in self._of(names):
            audience.before.append(listener)

    def behind(self, names: Iterable[str], listener: Listener) -> None:
        """Tell a listener of these instructions when their result is on the stack.

        Not where the instruction broke the graph: what is on the stack then is of another frame.
        """
        for audience in self._of(names):
            audience.behind.append(listener)

    def attend(self, translator: Any) -> bool:
        """Listen to a new symbolic interpreter, if it is one of the file's code."""
        if translator.f_code.co_filename != self.file:
            return False
        kind = type(translator)
        table = self._tables.get(kind)
        if table is None:
            table = self._tables[kind] = self._table(kind.dispatch_table)
        translator.dispatch_table = table
        return True

    def _of(self, names: Iterable[str]) -> list[_Audience]:
        """Of those names that instructions have in this Python."""
        numbers = [dis.opmap[name] for name in names if name in dis.opmap]
        return [
            self._audiences.setdefault(number, _Audience([], []))
            for number in numbers
            if number < _LARGEST
        ]

    def _table(self, handlers: list[Any]) -> list[Any]:
        table = list(handlers)
        for number, audience in self._audiences.items():
            if table[number] is not None:
                table[number] = self._heard(table[number], *audience)
        return table

    def _heard(self, original: Handler, before: list[Listener], behind: list[Listener]) -> Handler:
        on_loss = self._on_loss

        def handle(translator: Any, instruction: Any) -> Any:
            for listener in before:
                try:
                    listener(translator, instruction)
                except Exception as error:  # it must not change what Dynamo does
                    on_loss(error)
            result = original(translator, instruction)
            if behind and translator.instruction_pointer is not None:
                for listener in behind:
                    try:
                        listener(translator, instruction)
                    except Exception as error:
                        on_loss(error)
            return result

        return handle
