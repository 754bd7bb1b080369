"""Which expressions and locals of one file are tensors while Dynamo traces it.

Dynamo looks up the handler of every instruction in a table of the interpreter's class. The
interpreters of code of the file get a table of their own, in which a few handlers first look at
what they are about to take off the stack. All other code is traced as if we were not there.
"""

from __future__ import annotations

import dis
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, Literal, Union

import torch

from ..protocol import SeenKind
from . import adapter, stacks
from .recording import Local, Receiver

Handler = Callable[[Any, Any], Any]

_LOADS = ("LOAD_ATTR", "LOAD_METHOD") if sys.version_info >= (3, 11) else ()
"""Instructions with an object on top of the stack and the columns of the attribute."""
_STORES = ("STORE_FAST", "STORE_DEREF")


class Values:
    """What was seen in the code of ``file``. Nothing that it does makes Dynamo guard anything."""

    def __init__(self, file: str, on_loss: Callable[[Exception], None]) -> None:
        self.file = file
        self._on_loss = on_loss
        self._receivers: set[tuple[Any, str, SeenKind]] = set()
        self._locals: set[tuple[str, int, str, SeenKind]] = set()
        self._tables: dict[type, list[Any]] = {}

    def watch(self, translator: Any) -> None:
        """Have a new symbolic interpreter tell what it comes across."""
        kind = type(translator)
        table = self._tables.get(kind)
        if table is None:
            table = self._tables[kind] = self._table(kind.dispatch_table)
        translator.dispatch_table = table
        self._note_parameters(translator)

    def seen(self) -> list[Receiver | Local]:
        receivers = [
            Receiver(name, place.end_lineno - 1, place.end_col_offset, kind)
            for place, name, kind in self._receivers
            if place.end_lineno and place.end_col_offset
        ]
        variables = {
            Local(stacks.original_name(function), line - 1, name, kind)
            for function, line, name, kind in self._locals
        }
        return [*receivers, *variables]

    # -- instructions -------------------------------------------------------------------------

    def _table(self, handlers: list[Any]) -> list[Any]:
        table = list(handlers)
        for names, around in ((_LOADS, self._before_load), (_STORES, self._before_store)):
            for name in names:
                number = dis.opmap.get(name)
                if number is not None and table[number] is not None:
                    table[number] = around(table[number])
        return table

    def _before_load(self, original: Handler) -> Handler:
        receivers = self._receivers

        def load(translator: Any, instruction: Any) -> Any:
            try:
                kind = kind_of(translator.stack[-1])
                place = instruction.positions
                if kind is not None and place is not None:
                    receivers.add((place, instruction.argval, kind))
            except Exception as error:  # it must not change what Dynamo does
                self._on_loss(error)
            return original(translator, instruction)

        return load

    def _before_store(self, original: Handler) -> Handler:
        variables = self._locals

        def store(translator: Any, instruction: Any) -> Any:
            try:
                kind = kind_of(translator.stack[-1])
                code, name = translator.f_code, instruction.argval
                # What a nested function stores in a variable of another is not its own.
                if kind is not None and name not in code.co_freevars:
                    variables.add((code.co_name, code.co_firstlineno, name, kind))
            except Exception as error:  # it must not change what Dynamo does
                self._on_loss(error)
            return original(translator, instruction)

        return store

    def _note_parameters(self, translator: Any) -> None:
        """Also what a resume function is given: locals of the function that it continues."""
        code: types.CodeType = translator.f_code
        # The outermost interpreter has values, those inside it what stands for values.
        given, inlined = translator.f_locals, translator.symbolic_locals
        for name in parameter_names(code):
            kind: SeenKind | None = None
            if name in given:
                kind = kind_of_value(given[name])
            elif name in inlined:
                kind = kind_of(content_of(translator, inlined[name]))
            if kind is not None:
                self._locals.add((code.co_name, code.co_firstlineno, name, kind))


def parameter_names(code: types.CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS)
    count += bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def content_of(translator: Any, variable: Any) -> Any:
    """What is in the cell of a variable that nested functions share."""
    if type(variable) is not adapter.CELL_VARIABLE.get():
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
    made = realised(variable)
    return kind_of_value(vars(variable)["_cache"].value) if made is None else kind_of(made)


def realised(variable: Any) -> Any:
    """What a lazy variable has become; None where nobody has looked at it yet."""
    return vars(variable)["_cache"].vt


Known = Union[SeenKind, Literal["lazy"], None]
_known: dict[type, Known] = {type(None): None}


def kind_of_class(kind: type) -> Known:
    line = kind.__mro__
    for result, hooks in _CLASSES:
        if any(hook.get() in line for hook in hooks):
            return result
    return "other"


_CLASSES: tuple[tuple[Known, tuple[adapter.Private, ...]], ...] = (
    ("lazy", (adapter.LAZY_VARIABLE,)),
    # No value, or an attribute that nobody has looked at yet.
    (None, (adapter.NULL_VARIABLE, adapter.DELETED_VARIABLE, adapter.ATTRIBUTE_VARIABLE)),
    # To Dynamo these are tensors, to the program they are not.
    ("other", (adapter.ARRAY_VARIABLE, adapter.NUMBER_VARIABLE, adapter.ITEM_VARIABLE)),
    ("tensor", (adapter.TENSOR_VARIABLE,)),
    ("module", (adapter.MODULE_VARIABLE, adapter.USER_MODULE_VARIABLE)),
)


def kind_of_value(value: Any) -> SeenKind:
    kind = type(value)
    if issubclass(kind, torch.Tensor):
        return "tensor"
    return "module" if issubclass(kind, torch.nn.Module) else "other"
