"""The interfaces of writers (functions that write a value as source text), and their table.

A writer returns an expression for a value. It calls the :class:`Printer` for items and attributes
of the value, and the :class:`ProgramBuilder` to add statements to the generated program. Writers
thus do not depend on each other.
"""

from __future__ import annotations

import enum
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ..inputs.store import TensorStore
from .displays import kind_name, literal_text
from .sources import ResolvedName
from .statements import ProgramStatements
from .unwritable import UnwritableValue

PLAIN_BASES: tuple[type, ...] = (int, float, str, bytes, dict, list, set, frozenset, tuple)

_WITHOUT_IDENTITY = (
    *(type, types.FunctionType, types.ModuleType, types.MethodType, enum.Enum),
    *PLAIN_BASES,
)


class ProgramBuilder(ProgramStatements, ABC):
    """Interface of the program under construction that writers add statements to.

    With a ``store``, the program loads the contents of its tensors from files.
    """

    def __init__(self, store: TensorStore | None = None) -> None:
        super().__init__()
        self.store = store

    @abstractmethod
    def expressions(self, several: Sequence[object], hints: Sequence[str] = ()) -> list[str]:
        """Return expressions that recreate the values ``several``, and add the definitions they
        need.

        The values may share objects. ``hints`` are suggested names for the variables of values that
        need one.

        Raises:
            UnwritableValue: One of the values cannot be written as source text.
        """

    def expression(self, value: object, hint: str = "value") -> str:
        """Return an expression that recreates a value; ``hint`` is a name for its variable, if
        needed.
        """
        return self.expressions([value], [hint])[0]

    @abstractmethod
    def refer_to(self, thing: object) -> str:
        """Return the name by which the generated program can use a class, function or module.

        Raises:
            UnwritableValue: The object cannot be imported, and cannot be written as source text.
        """

    @abstractmethod
    def method(self, owner: type, name: str) -> str:
        """Return the source text of a method for a class body, with decorators.

        For a property, include the setter. Definitions that the code uses are added to the
        generated program.

        Raises:
            UnwritableValue: The method cannot be written as source text.
        """

    @abstractmethod
    def path(
        self, found: ResolvedName, attributes: Sequence[str], hidden: Collection[str]
    ) -> tuple[str, int]:
        """Return an expression that reads a chain of attributes of a variable, such as
        ``config.size``.

        Return also the number of ``attributes`` that the expression reads; it may stop before the
        last. ``found`` is the variable. ``hidden`` are names that the expression must not use,
        because local variables have the same names.
        """


@dataclass(frozen=True)
class Outer:
    """The state, such as a dtype, that one call on a whole module sets for its submodules.

    Submodules write only their differences from this state.
    """

    dtype: torch.dtype | None = None
    device: torch.device | None = None
    training: bool = True
    grad: bool = True

    def creation_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype to create a parameter with, so that it has ``dtype`` in the end.

        The parameter is created as float32 if a ``.to`` call on the whole module converts it to
        ``dtype``.
        """
        return torch.float32 if dtype == self.dtype else dtype


@dataclass(frozen=True)
class Afterwards:
    """A statement that must run after a value is created, such as an assignment to an item of the
    value.

    ``template`` is its source text, in which ``{0}``, ``{1}`` and so on stand for items of the
    value. ``places`` are the paths to these items.
    """

    template: str
    places: tuple[str, ...]

    def within(self, path: str) -> bool:
        starts = (f"{path}.", f"{path}[") if path else ("",)
        return all(one == path or one.startswith(starts) for one in self.places)

    def text(self, root: str, name: str) -> str:
        """Return the source text of the statement, in which the variable ``name`` holds the value.

        The paths of the statement begin with ``root``, which is replaced by ``name``.
        """
        text = self.template
        for index, path in enumerate(self.places):
            text = text.replace(f"{{{index}}}", name + path[len(root) :])
        return text


class Printer:
    """A writer of the expression for one value, with all objects inside the value.

    A *path* leads from the whole value to an object in it, such as ``.layers[0].weight``. It
    is None if the object cannot be assigned, as in a tuple. ``words`` are the names in the
    generated program's code; it does not need attributes with other names.
    """

    def __init__(self, program: ProgramBuilder, writers: Writers) -> None:
        self.program = program
        self.refer_to = program.refer_to
        self.after: list[Afterwards] = []
        self.outer = Outer()
        self.words = frozenset(program.written.mentioned)
        self._writers = writers
        self._paths: dict[int, tuple[object, str | None]] = {}
        self._active: set[int] = set()
        self._copies = 0

    def expression(self, value: object, path: str | None) -> str:
        """Return an expression that recreates ``value``, which is part of the whole value.

        ``path`` is the path to it, such as ``.layers[0]``; None if it cannot be assigned.

        Raises:
            UnwritableValue: The value, or something in it, cannot be written as source text.
        """
        text = literal_text(value)
        if text is None:
            text = self.program.written.name_of(value)
        return self._write_object(value, path) if text is None else text

    def operand(self, value: object, path: str | None) -> str:
        """Return an expression that recreates ``value``, in parentheses if ``.name`` or an operator
        cannot follow it directly.

        ``path`` is the path to it, as in ``expression``.
        """
        text = self.expression(value, path)
        return f"({text})" if text[:1] in "-~" or text[:1].isdigit() else text

    def items(self, values: Sequence[object], path: str | None) -> list[str]:
        """Return an expression for each item of the sequence at ``path``."""
        return [
            self.expression(value, None if path is None else f"{path}[{index}]")
            for index, value in enumerate(values)
        ]

    def dict_display(self, values: Mapping[Any, object], path: str | None) -> str:
        """Return the source text of a dictionary, for the mapping at ``path``."""
        parts = []
        for key, value in values.items():
            name = self.expression(key, None)
            where = None if path is None else f"{path}[{name}]"
            parts.append(f"{name}: {self.expression(value, where)}")
        return "{" + ", ".join(parts) + "}"

    def call_text(self, function: str, args: Sequence[object], kwargs: dict[str, object]) -> str:
        """Return the source text of a call; ``function`` is the text before its parentheses.

        ``args`` and ``kwargs`` are the values that the call passes.
        """
        parts = [self.expression(value, None) for value in args]
        parts += [f"{name}={self.expression(value, None)}" for name, value in kwargs.items()]
        return f"{function}({', '.join(parts)})"

    def run_afterwards(self, template: str, *places: str | None) -> None:
        """Add a statement to run after the whole value is created.

        ``template`` refers to the items at the paths ``places`` as ``{0}``, ``{1}`` and so on.
        """
        known = [path for path in places if path is not None]
        if len(known) < len(places):
            raise UnwritableValue(
                "an object inside a tuple or a set was changed after it was constructed"
            )
        if not self._copies:
            self.after.append(Afterwards(template, tuple(known)))

    def place_of(self, value: object) -> str | None:
        """Return the path at which ``value`` was first written in the generated program; None if it
        was not written before.
        """
        known = self._paths.get(id(value))
        return None if known is None else known[1]

    def mark_placed(self, value: object, path: str | None) -> None:
        """Record the path of an object without an own expression, such as a weight that a module's
        constructor creates.
        """
        self._paths.setdefault(id(value), (value, path))

    @contextmanager
    def within(
        self, *, outer: Outer | None = None, words: frozenset[str] | None = None
    ) -> Iterator[None]:
        """Inside the ``with`` block, replace the state and the names that this printer assumes.

        ``outer`` is the state that a call on the whole module sets. ``words`` are the names in the
        generated program's code.
        """
        before = self.outer, self.words
        self.outer = self.outer if outer is None else outer
        self.words = self.words if words is None else words
        try:
            yield
        finally:
            self.outer, self.words = before

    def _write_object(self, value: object, path: str | None) -> str:
        known = self._paths.get(id(value))
        if known is None:
            self._paths[id(value)] = (value, path)
            return self._apply_writers(value, path)
        if id(value) in self._active:
            if path is None or known[1] is None:
                raise UnwritableValue(f"a {type(value).__name__} contains itself")
            self.run_afterwards("{0} = {1}", path, known[1])
            return "None"
        if path is not None and known[1] is not None and _has_identity(value):
            self.run_afterwards("{0} = {1}", path, known[1])
        self._copies += 1
        try:
            return self._apply_writers(value, path)
        finally:
            self._copies -= 1

    def _apply_writers(self, value: object, path: str | None) -> str:
        self._active.add(id(value))
        try:
            for kind, write in self._writers:
                applies = type(value) is kind if isinstance(kind, type) else kind(value)
                text = write(self, value, path) if applies else None
                if text is not None:
                    return text
        finally:
            self._active.discard(id(value))
        raise UnwritableValue(f"a {kind_name(type(value))} cannot be written as code")


Writer = Callable[[Printer, Any, str | None], str | None]
"""Function that returns an expression for a value at a path; None makes the next writer try."""

Writers = Sequence[tuple[type | Callable[[Any], bool], Writer]]
"""Table of writers in the order of use, each with a class, or a condition, for the values it can
write.
"""


def _has_identity(value: object) -> bool:
    """Whether code may distinguish a value from an equal copy."""
    return not isinstance(value, _WITHOUT_IDENTITY) and (
        type(value).__hash__ is object.__hash__ or isinstance(value, torch.Tensor)
    )
