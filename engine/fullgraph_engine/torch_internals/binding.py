"""Look up private names of torch under the spelling that the installed release uses."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..protocol.facts import Fact

WrapperFactory = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Spelling:
    """One possible location of a private name: an attribute ``path`` (dotted) of a torch
    ``module``.

    ``releases`` states which releases of torch have it (``"2.10 to 2.12"``); it is empty if all
    supported releases have it. ``change`` describes the upstream change that introduced or removed
    it. Whether a spelling applies is decided by its presence, not by the version.
    """

    module: str
    path: str
    releases: str = ""
    change: str = ""

    @property
    def name(self) -> str:
        return f"{self.module}.{self.path}"

    def find_owner(self) -> Any:
        """Return the object on which the last attribute of the path is looked up; None if it does
        not exist."""
        value: Any = sys.modules.get(self.module)
        if value is None:
            try:
                value = importlib.import_module(self.module)
            except ImportError:
                return None
        for part in self.path.split(".")[:-1]:
            value = getattr(value, part, None)
        return value

    def get(self) -> Any:
        """Return the object with this name, or None if the installed torch does not have it."""
        owner = self.find_owner()
        return None if owner is None else getattr(owner, self.path.rpartition(".")[2], None)

    def set(self, value: Any) -> None:
        setattr(self.find_owner(), self.path.rpartition(".")[2], value)


@dataclass(frozen=True)
class Internal:
    """A private name of torch that may differ between releases.

    ``purpose`` states what the engine uses it for. ``fact`` is what the engine cannot show if none
    of the ``spellings`` exists. The first existing spelling is used.
    """

    fact: Fact
    purpose: str
    spellings: tuple[Spelling, ...]

    @property
    def name(self) -> str:
        """Dotted name of the spelling that exists, or of the first spelling if none exists."""
        return (self.find_spelling() or self.spellings[0]).name

    def find_spelling(self) -> Spelling | None:
        """Return the first name under which the installed torch has the object, or None."""
        return next((spelling for spelling in self.spellings if spelling.get() is not None), None)

    def get(self) -> Any:
        """Return the object with this name, or None if the installed torch does not have it."""
        for spelling in self.spellings:
            value = spelling.get()
            if value is not None:
                return value
        return None

    def replace(self, value: Any) -> Callable[[], None] | None:
        """Assign another object to the private name in torch.

        Return a function that restores the original, or None if the name does not exist.
        """
        spelling = self.find_spelling()
        if spelling is None:
            return None
        original = spelling.get()
        spelling.set(value)
        return lambda: spelling.set(original)

    def wrap(self, make_wrapper: WrapperFactory) -> Callable[[], None] | None:
        """Replace the function with this private name by the result of ``make_wrapper(original)``.

        Return a function that restores the original, or None if the name does not exist.
        """
        original = self.get()
        if original is None:
            return None
        wrapper = make_wrapper(original)
        # Dynamo recognizes its own functions by their names and modules, so copy those to the
        # wrapper.
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(wrapper, name, getattr(original, name, None))
        return self.replace(wrapper)


def internal(fact: Fact, purpose: str, module: str, path: str) -> Internal:
    """Return an :class:`Internal` whose spelling is the same in all supported releases."""
    return Internal(fact, purpose, (Spelling(module, path),))
