"""What a writer of one kind of value may ask for, and the table that writers are found in.

A writer makes an expression of a value. What is inside it, it asks the :class:`Printer` for;
what the program must have besides, its :class:`Program`. So writers need not know each other.
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
    """The program that is being written. With a ``store`` its tensors have their real contents."""

    def __init__(self, store: TensorStore | None = None) -> None:
        super().__init__()
        self.store = store

    @abstractmethod
    def expressions(self, several: Sequence[object], hints: Sequence[str] = ()) -> list[str]:
        """Python expressions for values that may share objects, as the arguments of one call do.

        What they need is added to the program. ``hints``: what to call those that need a name.

        Raises:
            Unwritable: something in them has no source text.
        """

    def expression(self, value: object, hint: str = "value") -> str:
        """The same for one value."""
        return self.expressions([value], [hint])[0]

    @abstractmethod
    def refer_to(self, thing: object) -> str:
        """The name by which a class, function or module can be used in the program.

        Raises:
            Unwritable: it has no source text, and cannot be imported either.
        """

    @abstractmethod
    def method(self, owner: type, name: str) -> str:
        """The source text of a method as it stands in a class body, with decorators.

        A property's setter comes with it. What the code reaches is added to the program.

        Raises:
            Unwritable: it has no source text.
        """

    @abstractmethod
    def path(
        self, found: ResolvedName, attributes: Sequence[str], hidden: Collection[str]
    ) -> tuple[str, int]:
        """How the program says a name with its attributes; how many attributes that covers."""


@dataclass(frozen=True)
class Outer:
    """What a call around a part will do to it: only what differs from that is written inside."""

    dtype: torch.dtype | None = None
    device: torch.device | None = None
    training: bool = True
    grad: bool = True

    def creation_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype with which a parameter is made that shall have ``dtype`` in the end."""
        return torch.float32 if dtype == self.dtype else dtype


@dataclass(frozen=True)
class Afterwards:
    """A statement to be run when the value is there. ``template`` holds its places as ``{0}``."""

    template: str
    places: tuple[str, ...]

    def within(self, place: str) -> bool:
        starts = (f"{place}.", f"{place}[") if place else ("",)
        return all(one == place or one.startswith(starts) for one in self.places)

    def text(self, root: str, name: str) -> str:
        """The statement, where what is at ``root`` is called ``name``."""
        text = self.template
        for index, place in enumerate(self.places):
            text = text.replace(f"{{{index}}}", name + place[len(root) :])
        return text


class Printer:
    """One value being written. A *place* says how to get from the whole value to a part of it:
    ``.layers[0].weight``; None where a part cannot be assigned, as in a tuple.

    ``words`` are the names that the code of the program speaks of: no other attributes are needed.
    """

    def __init__(self, program: ProgramBuilder, writers: Writers) -> None:
        self.program = program
        self.refer_to = program.refer_to
        self.after: list[Afterwards] = []
        self.outer = Outer()
        self.words = frozenset(program.written.mentioned)
        self._writers = writers
        self._places: dict[int, tuple[object, str | None]] = {}
        self._active: set[int] = set()
        self._copies = 0

    def expression(self, value: object, place: str | None) -> str:
        """An expression for a part of the value.

        Raises:
            Unwritable: something in it has no source text.
        """
        text = literal_text(value)
        if text is None:
            text = self.program.written.name_of(value)
        return self._write_object(value, place) if text is None else text

    def operand(self, value: object, place: str | None) -> str:
        """An expression that an attribute or an operator can follow."""
        text = self.expression(value, place)
        return f"({text})" if text[:1] in "-~" or text[:1].isdigit() else text

    def items(self, values: Sequence[object], place: str | None) -> list[str]:
        """An expression for each item of what is at ``place``."""
        return [
            self.expression(value, None if place is None else f"{place}[{index}]")
            for index, value in enumerate(values)
        ]

    def dict_display(self, values: Mapping[Any, object], place: str | None) -> str:
        """A dictionary of what is at ``place``."""
        parts = []
        for key, value in values.items():
            name = self.expression(key, None)
            where = None if place is None else f"{place}[{name}]"
            parts.append(f"{name}: {self.expression(value, where)}")
        return "{" + ", ".join(parts) + "}"

    def call_text(self, function: str, args: Sequence[object], kwargs: dict[str, object]) -> str:
        """A call, its arguments written."""
        parts = [self.expression(value, None) for value in args]
        parts += [f"{name}={self.expression(value, None)}" for name, value in kwargs.items()]
        return f"{function}({', '.join(parts)})"

    def run_afterwards(self, template: str, *places: str | None) -> None:
        """Run a statement on parts of the value when it is there."""
        known = [place for place in places if place is not None]
        if len(known) < len(places):
            raise UnwritableValue(
                "an object inside a tuple or a set differs from how it is constructed"
            )
        if not self._copies:
            self.after.append(Afterwards(template, tuple(known)))

    def place_of(self, value: object) -> str | None:
        """Where ``value`` was written first."""
        known = self._places.get(id(value))
        return None if known is None else known[1]

    def mark_placed(self, value: object, place: str | None) -> None:
        """``value`` comes to be at ``place`` without being written."""
        self._places.setdefault(id(value), (value, place))

    @contextmanager
    def within(
        self, *, outer: Outer | None = None, words: frozenset[str] | None = None
    ) -> Iterator[None]:
        """For parts around which ``outer`` is said, or of which code needs the ``words``."""
        before = self.outer, self.words
        self.outer = self.outer if outer is None else outer
        self.words = self.words if words is None else words
        try:
            yield
        finally:
            self.outer, self.words = before

    def _write_object(self, value: object, place: str | None) -> str:
        known = self._places.get(id(value))
        if known is None:
            self._places[id(value)] = (value, place)
            return self._apply_writers(value, place)
        if id(value) in self._active:
            if place is None or known[1] is None:
                raise UnwritableValue(f"a {type(value).__name__} contains itself")
            self.run_afterwards("{0} = {1}", place, known[1])
            return "None"
        if place is not None and known[1] is not None and _has_identity(value):
            self.run_afterwards("{0} = {1}", place, known[1])
        self._copies += 1
        try:
            return self._apply_writers(value, place)
        finally:
            self._copies -= 1

    def _apply_writers(self, value: object, place: str | None) -> str:
        self._active.add(id(value))
        try:
            for kind, write in self._writers:
                applies = type(value) is kind if isinstance(kind, type) else kind(value)
                text = write(self, value, place) if applies else None
                if text is not None:
                    return text
        finally:
            self._active.discard(id(value))
        raise UnwritableValue(f"a {kind_name(type(value))} has no source text")


Writer = Callable[[Printer, Any, str | None], str | None]
"""Makes an expression of a value at a place; None leaves it to the writers behind."""

Writers = Sequence[tuple[type | Callable[[Any], bool], Writer]]
"""Who writes what, the first first: a class, which derived classes are not, or a condition."""


def _has_identity(value: object) -> bool:
    """Whether it shows that two equal values are not one."""
    return not isinstance(value, _WITHOUT_IDENTITY) and (
        type(value).__hash__ is object.__hash__ or isinstance(value, torch.Tensor)
    )
