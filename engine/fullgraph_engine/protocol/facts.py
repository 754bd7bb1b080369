"""Facts about a trace, such as graphs and guards, and which of them the installed torch does not
show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Fact = Literal[
    "graphs",
    "breaks",
    "skips",
    "recompiles",
    "guards",
    "specializations",
    "compliance",
    "fake tensors",
    "values",
    "shapes",
    "lines",
    "explanations",
    "backends",
    "documents",
    "repros",
    "speed",
    "regions",
    "compiler checks",
]

CODES: dict[Fact, tuple[str, ...]] = {
    "graphs": ("",),
    "breaks": ("graph-break/",),
    "skips": ("frame-skipped/",),
    "recompiles": ("recompile/",),
    "guards": ("guard/mutated", "guard/value", "guard/global", "guard/identity"),
    "specializations": (
        "guard/specialized-dimension",
        "guard/limited-dimension",
        "guard/equal-dimensions",
    ),
    "compliance": ("op/not-pt2-compliant",),
    "compiler checks": ("compile/different-code",),
}
"""Prefixes of finding codes, by the fact about a trace that these findings are derived from. If
torch does not show the fact, the absence of such findings means nothing. Findings with other codes
do not need any fact."""

WORDS: dict[Fact, str] = {
    "graphs": "captured graphs",
    "breaks": "graph breaks",
    "skips": "skipped frames",
    "recompiles": "recompiles",
    "guards": "guards",
    "specializations": "specialized dimensions",
    "compliance": "operators that are not PT2-compliant",
    "fake tensors": "static shapes of parameters and values of scalars, in fake mode",
    "values": "which expressions are tensors",
    "shapes": "dtypes and sizes",
    "lines": "which lines are traced",
    "explanations": "why a size is specialized",
    "backends": "calls of `torch.compile` in the file, traced without their backend",
    "documents": "bytecode before and after Dynamo",
    "repros": "repros of backend failures",
    "speed": "faster traces",
    "regions": "the list of functions that a program compiles",
    "compiler checks": "checks for code that runs only with, or only without, `torch.compile`",
}


@dataclass(frozen=True)
class Degraded:
    """A fact about a trace, such as its graphs, that the installed torch does not show completely.

    ``reason`` is part of a sentence.
    """

    fact: Fact
    reason: str

    @property
    def words(self) -> str:
        """Sentence for the user, without its full stop, that the installed torch does not show the
        fact, and why."""
        return f"Not available with this torch: {WORDS[self.fact]} ({self.reason})"
