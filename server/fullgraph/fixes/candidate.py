"""A rewrite of a text: before it was tried, and as it is offered after that."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from fullgraph.domain.positions import TextPositions
from fullgraph_engine.protocol import Part, Range, TextEdit
from fullgraph_engine.protocol.behavior import Aspect

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
"""One line with its end; only these end a line, as in ``TextPositions``."""


@dataclass(frozen=True)
class Candidate:
    """A rewrite that was not tried yet.

    ``rewrite`` names the rule that made it (``where``, ``drop-nothing``); ``title`` is an
    imperative sentence for people; ``text`` is the whole new text.
    """

    rewrite: str
    title: str
    text: str
    preserves: bool = False
    """The new code means the same for every input: values, gradients, mutations, exceptions and
    output. Only such a candidate can become a safe fix."""
    gives_up: str = ""
    """Sentence about what the user gives up; empty for nothing."""
    loses: tuple[Aspect, ...] = ()
    """Aspects of the behavior that the rewrite loses in addition to ``gives_up``, for example the
    warning of an operation that it replaces."""
    extends: bool = False
    """It is to accept inputs that the original raises for: there they may differ."""
    computes_more: bool = False
    """It computes what the original leaves out, which may not fit at sizes of 0 or 1."""
    compiles_more: bool = False
    """True if the new lines compile code from eager mode, which has guards then."""
    parts: tuple[Part, ...] = ()
    """Parts that verify the candidate, in addition to the parts that show the finding."""
    restricts: bool = False
    """It only adds a check, which raises for inputs that the original may accept."""
    suggestion: bool = False
    """A snippet to adapt, which is never applied without a person."""

    def then(self, further: Candidate) -> Candidate:
        """Both as one: ``further`` was made for a finding that this one brings, in its text."""
        one, other = self.title, further.title
        told = (self.gives_up, further.gives_up)
        return Candidate(
            f"{self.rewrite}+{further.rewrite}",
            one if one == other else f"{one}, and {other[:1].lower()}{other[1:]}",
            further.text,
            preserves=self.preserves and further.preserves,
            gives_up=" ".join(dict.fromkeys(one for one in told if one)),
            loses=tuple(dict.fromkeys((*self.loses, *further.loses))),
            extends=self.extends or further.extends,
            computes_more=self.computes_more or further.computes_more,
            compiles_more=self.compiles_more or further.compiles_more,
            parts=tuple(dict.fromkeys((*self.parts, *further.parts))),
            restricts=self.restricts or further.restricts,
            suggestion=self.suggestion or further.suggestion,
        )


def edits_between(before: str, after: str) -> tuple[TextEdit, ...]:
    """The edits that make one text of the other: whole lines, in the order of the text."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    positions = TextPositions(before)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return tuple(
        TextEdit(
            Range(positions.position_at(starts[first]), positions.position_at(starts[last])),
            "".join(new[new_first:new_last]),
        )
        for tag, first, last, new_first, new_last in matcher.get_opcodes()
        if tag != "equal"
    )
