"""Looking up a private name of torch under the spellings that its releases have for it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..protocol.facts import Fact

Around = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Spelling:
    """An attribute of a torch module: ``where`` is the module, ``path`` the dotted rest.

    ``releases`` says which releases of torch have it (``"2.10 to 2.12"``); empty for all supported
    ones. ``change`` is what upstream did at that border. A spelling is recognized by its presence.
    """

    where: str
    path: str
    releases: str = ""
    change: str = ""

    @property
    def name(self) -> str:
        return f"{self.where}.{self.path}"

    def owner(self) -> Any:
        """The object that holds the last part of the path, or None."""
        value: Any = sys.modules.get(self.where)
        if value is None:
            try:
                value = importlib.import_module(self.where)
            except ImportError:
                return None
        for part in self.path.split(".")[:-1]:
            value = getattr(value, part, None)
        return value

    def get(self) -> Any:
        """The object itself, or None where this torch has no such thing."""
        owner = self.owner()
        return None if owner is None else getattr(owner, self.path.rpartition(".")[2], None)

    def set(self, value: Any) -> None:
        setattr(self.owner(), self.path.rpartition(".")[2], value)


@dataclass(frozen=True)
class Internal:
    """Something of torch that no release promises to keep. ``purpose`` is what it is needed for;
    ``fact`` is degraded where none of the ``spellings`` exists; the first that does is taken."""

    fact: Fact
    purpose: str
    spellings: tuple[Spelling, ...]

    @property
    def name(self) -> str:
        """Of the spelling that this torch has; the newest one where it has none."""
        return (self.spelling() or self.spellings[0]).name

    def spelling(self) -> Spelling | None:
        """The one that this torch has."""
        return next((one for one in self.spellings if one.get() is not None), None)

    def get(self) -> Any:
        """The object itself, or None where this torch has no such thing."""
        for spelling in self.spellings:
            value = spelling.get()
            if value is not None:
                return value
        return None

    def replace(self, value: Any) -> Callable[[], None] | None:
        """Put another object in its place; returns what undoes that, None where it is missing."""
        spelling = self.spelling()
        if spelling is None:
            return None
        original = spelling.get()
        spelling.set(value)
        return lambda: spelling.set(original)

    def wrap(self, around: Around) -> Callable[[], None] | None:
        """Replace a function by ``around(original)``; returns what undoes that, or None where it is
        missing."""
        original = self.get()
        if original is None:
            return None
        wrapper = around(original)
        # Dynamo recognizes its own functions by code and by module; keep the outside the same.
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(wrapper, name, getattr(original, name, None))
        return self.replace(wrapper)


def internal(fact: Fact, purpose: str, where: str, path: str) -> Internal:
    """One that all supported releases call the same."""
    return Internal(fact, purpose, (Spelling(where, path),))
