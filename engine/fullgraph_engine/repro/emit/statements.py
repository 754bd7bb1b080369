"""The statements of a generated program, the names that they bind, and the values of the names."""

from __future__ import annotations

import ast
import builtins
import keyword
import types
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from ..inputs.loading import NAME as STORED
from .ordering import Piece, analyze_statement
from .reachability import ReachedMembers, find_reached_members, words_of, words_of_syntax
from .sources import Home, Key
from .tensors.layouts import Base, StorageKey, remember_storage

_RESERVED = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | {"torch", STORED}


class NamedValues:
    """The variables of the generated program and their values, and the classes that the program
    defines.
    """

    def __init__(self) -> None:
        self._names: dict[int, tuple[object, str]] = {}
        self.storages: dict[StorageKey, Base] = {}
        self.classes: dict[str, str] = {}
        self.mentioned: set[str] = set()
        self._reached: dict[tuple[type, frozenset[str]], ReachedMembers] = {}

    def name(self, value: object, name: str) -> None:
        """Record that a variable holds a value."""
        self._names[id(value)] = (value, name)
        if isinstance(value, torch.Tensor):
            remember_storage(self.storages, value, name)

    def name_of(self, value: object) -> str | None:
        known = self._names.get(id(value))
        return None if known is None else known[1]

    def add_mentioned(self, code: object) -> None:
        """Note the names and strings in a function or statement, because the generated program
        contains it.

        Objects written later must have the attributes with these names.
        """
        self.mentioned |= words_of_syntax(code) if isinstance(code, ast.AST) else words_of(code)

    def reached_members(self, kind: type, words: frozenset[str]) -> ReachedMembers:
        """Return the members of a class that the generated program must copy.

        ``words`` are the names in code that uses the class; if it is empty, all members are
        returned.
        """
        if (kind, words) not in self._reached:
            self._reached[kind, words] = find_reached_members(kind, words, everything=not words)
        return self._reached[kind, words]


@dataclass
class DraftState:
    """The state of the program under construction, which is restored if writing a definition
    fails.
    """

    names: set[str] = field(default_factory=lambda: set(_RESERVED))
    things: dict[int, tuple[object, str]] = field(default_factory=dict)
    keys: dict[Key, str] = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)
    imports: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    homes: dict[int, Home] = field(default_factory=dict)
    copied: set[int] = field(default_factory=set)
    made: set[Key] = field(default_factory=set)
    """Variables of user modules that copied statements bind.

    Other statements that change these variables are copied, too.
    """
    operators: set[str] = field(default_factory=set)
    lines: int = 0


class ProgramStatements:
    """The statements that the program under construction has so far."""

    def __init__(self) -> None:
        self.written = NamedValues()
        self._state = DraftState()
        self._aliases: dict[int, str] = {}

    @property
    def notes(self) -> list[str]:
        """Notes for the reader of the generated program."""
        return self._state.notes

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def add(self, statement: str) -> None:
        """Parse source text and add its statements; statements that share values keep their
        order.
        """
        for node in ast.parse(statement).body:
            self.written.add_mentioned(node)
            self.append(node)

    def define(self, name: str, text: str) -> None:
        """Add a definition (its source text) whose name was reserved with :meth:`fresh_name`."""
        for node in ast.parse(text).body:
            self.append(node)

    def variable_for(self, value: object, text: str, hint: str) -> str:
        """Return the variable that holds a value; if there is none, assign it to a new one.

        ``text`` is the expression to assign, and ``hint`` a name to prefer.
        """
        name = self.written.name_of(value)
        if name is None:
            name = self.fresh_name(hint)
            self.add(f"{name} = {text}")
            self.written.name(value, name)
        return name

    def append(self, node: ast.stmt, *, is_effect: bool = False) -> None:
        self._state.pieces.append(analyze_statement(node, is_effect=is_effect))

    def fresh_name(self, hint: str, avoid: Collection[str] = ()) -> str:
        """Reserve and return an unused name that resembles ``hint``."""
        stem = "".join(char if char.isalnum() or char == "_" else "_" for char in hint)
        if not stem.isidentifier():
            stem = "value"
        name, number = stem, 0
        while name in self._state.names or name in avoid:
            number += 1
            name = f"{stem}_{number}"
        self._state.names.add(name)
        return name

    def knows(self, thing: object) -> bool:
        """Whether the generated program already defines or imports a class or function."""
        return id(thing) in self._state.things

    def bind(self, thing: object, name: str) -> None:
        """Record the name of a class or function that the caller adds to the generated program."""
        self._state.names.add(name)
        self._state.things[id(thing)] = (thing, name)

    @contextmanager
    def alias(self, thing: object, name: str) -> Iterator[None]:
        """Use ``name`` for a class or function of the generated program inside the ``with``
        block.
        """
        outer = self._aliases.get(id(thing))
        self._aliases[id(thing)] = name
        try:
            yield
        finally:
            if outer is None:
                del self._aliases[id(thing)]
            else:
                self._aliases[id(thing)] = outer

    def visit(self, home: Home) -> None:
        """Remember the user module ``home``; the generated program may need its module-level
        statements.
        """
        self._state.homes.setdefault(id(home.namespace), home)

    def add_mentioned(self, function: object) -> None:
        """Note the names in a function, because the generated program now contains the function.

        Objects written later must have the attributes with these names.
        """
        if isinstance(function, types.FunctionType):
            self.written.add_mentioned(function)

    def mark_copied(self, node: ast.AST) -> bool:
        """Record that the generated program copies a statement; return False if that was recorded
        before.
        """
        if id(node) in self._state.copied:
            return False
        self._state.copied.add(id(node))
        return True

    def key_name(self, key: Key, avoid: Collection[str] = ()) -> str:
        """Return the generated program's name for a variable of a user module; reserve a name if it
        has none.
        """
        if key not in self._state.keys:
            self._state.keys[key] = self.fresh_name(key[1], avoid)
            self._state.made.add(key)
        return self._state.keys[key]

    def has_definition(self, home: Home, name: str) -> bool:
        """Whether the generated program defines the variable ``name`` of the module ``home``."""
        known = self._state.things.get(id(home.namespace.get(name)))
        if known is not None and known[1].isidentifier():
            return True
        return (id(home.namespace), name) in self._state.made
