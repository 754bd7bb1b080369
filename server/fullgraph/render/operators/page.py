"""One page on a name or an operator, before it is written in any format.

Prose holds inline code in backticks and nothing else that a format would have to understand.
"""

from __future__ import annotations

from dataclasses import dataclass

from fullgraph.domain.phrases import amount
from fullgraph_engine.protocol.operators import Name, Operator, Overload

VISIBLE_SIGNATURES = 8


@dataclass(frozen=True)
class Fact:
    """A few words that matter for compilation; ``alarming`` where they stand in its way."""

    text: str
    alarming: bool = False


@dataclass(frozen=True)
class Section:
    """What stands under a heading: lines of code, then items of prose."""

    heading: str
    code: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    numbered: bool = False
    """The lines of code are alternatives, tried in this order."""


@dataclass(frozen=True)
class Called:
    """An overload, with the operator that it is of."""

    operator: Operator
    overload: Overload

    @property
    def short(self) -> str:
        """``max.dim``"""
        name = self.operator.name.partition("::")[2]
        return f"{name}.{self.overload.name}" if self.overload.name else name

    @property
    def full(self) -> str:
        """``aten::max.dim``"""
        return f"{self.operator.namespace}::{self.short}"


@dataclass(frozen=True)
class OperatorPage:
    """``signatures`` are all ways of calling it, of which the first few are shown at once.

    ``kind`` is a word: that of the name, or ``operator``, ``overload``, ``parameter``. ``path`` is
    what it is the page of. ``name`` and ``overloads`` are what it was made from.
    """

    path: str
    kind: str
    signatures: tuple[str, ...] = ()
    summary: str = ""
    remarks: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    sections: tuple[Section, ...] = ()
    href: str = ""
    name: Name | None = None
    overloads: tuple[Called, ...] = ()

    @property
    def visible(self) -> tuple[str, ...]:
        return self.signatures[:VISIBLE_SIGNATURES]

    @property
    def hidden(self) -> int:
        return len(self.signatures) - len(self.visible)

    @property
    def all_of_them(self) -> str:
        """A heading over all signatures."""
        noun = "overload" if self.kind == "operator" else "signature"
        return f"All {amount(len(self.signatures), noun)}"

    @property
    def numbered(self) -> bool:
        return len(self.signatures) > 1


def sentence(words: str) -> str:
    """With a capital letter, unless it begins with code."""
    return words[:1].upper() + words[1:]
