"""A documentation page about a Python name of torch or an operator, independent of the output
format.

Prose may contain inline code in backticks, and no other markup.
"""

from __future__ import annotations

from dataclasses import dataclass

from fullgraph.domain.phrases import amount
from fullgraph_engine.protocol.operators import Name, Operator, Overload

VISIBLE_SIGNATURES = 8


@dataclass(frozen=True)
class OperatorFact:
    """A short statement about an operator that matters for compilation; ``alarming`` if it hinders
    compilation."""

    text: str
    alarming: bool = False


@dataclass(frozen=True)
class PageSection:
    """A section of a page: a heading, then lines of code, then items of prose."""

    heading: str
    code: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    numbered: bool = False
    """True if the lines of code are alternatives, which torch tries in this order."""


@dataclass(frozen=True)
class CalledOverload:
    """An operator overload that a Python function calls, and its operator."""

    operator: Operator
    overload: Overload

    @property
    def short(self) -> str:
        """Name without namespace: ``max.dim``."""
        name = self.operator.name.partition("::")[2]
        return f"{name}.{self.overload.name}" if self.overload.name else name

    @property
    def full(self) -> str:
        """Name with namespace: ``aten::max.dim``."""
        return f"{self.operator.namespace}::{self.short}"


@dataclass(frozen=True)
class OperatorPage:
    """A documentation page about a Python name of torch, an operator or a parameter.

    ``path`` identifies it, such as ``torch.max``. ``kind`` is the kind of the name, or
    ``operator``, ``overload``, ``parameter`` or ``schema``. ``signatures`` are all ways to call it;
    only the first few are visible at once. ``name`` and ``overloads`` are the data that the page
    was built from.
    """

    path: str
    kind: str
    signatures: tuple[str, ...] = ()
    summary: str = ""
    remarks: tuple[str, ...] = ()
    facts: tuple[OperatorFact, ...] = ()
    sections: tuple[PageSection, ...] = ()
    href: str = ""
    name: Name | None = None
    overloads: tuple[CalledOverload, ...] = ()

    @property
    def visible(self) -> tuple[str, ...]:
        return self.signatures[:VISIBLE_SIGNATURES]

    @property
    def hidden(self) -> int:
        return len(self.signatures) - len(self.visible)

    @property
    def all_heading(self) -> str:
        """Heading above the page's complete list of signatures."""
        noun = "overload" if self.kind == "operator" else "signature"
        return f"All {amount(len(self.signatures), noun)}"

    @property
    def numbered(self) -> bool:
        return len(self.signatures) > 1


def capitalize_sentence(words: str) -> str:
    """Capitalize the first letter of a sentence, unless it begins with code."""
    return words[:1].upper() + words[1:]


def non_empty(*sections: PageSection) -> tuple[PageSection, ...]:
    """Return the given sections of a page without empty ones, which contain neither code nor
    prose.
    """
    return tuple(section for section in sections if section.code or section.items)
