"""A candidate: a rewritten version of a file that may fix a finding and is not verified yet."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fullgraph.domain.positions import TextPositions
from fullgraph_engine.protocol import Part, Range, TextEdit
from fullgraph_engine.protocol.behavior import Aspect

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
"""Pattern of one line with its line end; line ends are the same as in ``TextPositions``."""


@dataclass(frozen=True)
class Candidate:
    """A rewritten text that may fix a finding and was not verified yet.

    ``rewrite`` names the rule that made it (``where``, ``drop-nothing``); ``title`` is an
    imperative sentence for people; ``text`` is the whole new text.
    """

    rewrite: str
    title: str
    text: str
    preserves: bool = False
    """True if the new code is equivalent for every input: values, gradients, mutations, exceptions
    and output.

    Only such a candidate can become a safe fix.
    """
    gives_up: str = ""
    """Sentence that explains what the user gives up with this rewrite; empty if nothing."""
    loses: tuple[Aspect, ...] = ()
    """Aspects of behavior, in addition to ``gives_up``, that may differ from the original, such as
    a warning of the replaced operation.
    """
    extends: bool = False
    """True if the new code may accept inputs for which the original code raises. For these inputs,
    results may differ."""
    computes_more: bool = False
    """True if the new code executes computations that the original skips, and that may fail for
    sizes of 0 or 1."""
    compiles_more: bool = False
    """True if the rewrite moves code from eager mode into compiled code, which adds guards for that
    code."""
    phases: tuple[Part, ...] = ()
    """Phases of a trace in which the rewritten file is checked, such as ``export`` or ``paths``.
    The phases that reported the finding are always checked as well.
    """
    restricts: bool = False
    """True if the rewrite only adds a check, which raises for inputs that the original may
    accept."""
    is_same_eagerly: bool = False
    """True if the new code differs only where ``torch.compiler.is_compiling()`` is true. Then it
    can be verified without inputs that reach both sides of each condition.
    """
    keeps_branches: bool = False
    """True if the rewrite only replaces conditions on integers by conditions with the same result.
    Then it can be verified without inputs that reach both sides of each condition.
    """
    returns_tensors: bool = False
    """True if the rewritten function returns tensors where it returned numbers, and its callers in
    the file convert these tensors to numbers.

    Only a run of the whole program can verify the changed callers.
    """
    compiles_faster: bool = False
    """True if the rewrite only shortens the compilation, so that it is refused if the measured time
    does not become shorter.
    """
    uncompiles_target: bool = False
    """True if the rewritten program compiles parts of the module with the finding separately,
    instead of compiling the whole module.
    """
    left_out: tuple[str, ...] = ()
    """Names of functions that the rewrite leaves out of the graph, so that the graph breaks where
    they are called."""
    suggestion: bool = False
    """True if the candidate is only a draft for the user to adapt; it is never applied
    automatically.
    """

    def then(self, further: Candidate) -> Candidate:
        """Return one candidate that combines this rewrite with ``further``.

        ``further`` rewrites the text of this candidate, to fix a finding that this candidate adds.
        """
        one, other = self.title, further.title
        sentences = (self.gives_up, further.gives_up)
        return Candidate(
            f"{self.rewrite}+{further.rewrite}",
            one if one == other else f"{one}, and {other[:1].lower()}{other[1:]}",
            further.text,
            preserves=self.preserves and further.preserves,
            gives_up=" ".join(dict.fromkeys(one for one in sentences if one)),
            loses=tuple(dict.fromkeys((*self.loses, *further.loses))),
            extends=self.extends or further.extends,
            computes_more=self.computes_more or further.computes_more,
            compiles_more=self.compiles_more or further.compiles_more,
            phases=tuple(dict.fromkeys((*self.phases, *further.phases))),
            restricts=self.restricts or further.restricts,
            is_same_eagerly=self.is_same_eagerly and further.is_same_eagerly,
            keeps_branches=self.keeps_branches and further.keeps_branches,
            returns_tensors=self.returns_tensors or further.returns_tensors,
            compiles_faster=self.compiles_faster or further.compiles_faster,
            uncompiles_target=self.uncompiles_target or further.uncompiles_target,
            left_out=(*self.left_out, *further.left_out),
            suggestion=self.suggestion or further.suggestion,
        )


def edits_between(before: str, after: str) -> tuple[TextEdit, ...]:
    """Return the edits that convert the text ``before`` to the text ``after``: whole lines, in the
    order of the text."""
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


def merge_edits(one: Sequence[TextEdit], other: Sequence[TextEdit]) -> tuple[TextEdit, ...] | None:
    """Return the edits of two versions of a text, equal edits once; None if they overlap."""
    merged = sorted(dict.fromkeys((*one, *other)), key=lambda edit: edit.range)
    for first, second in itertools.pairwise(merged):
        if second.range.start < first.range.end or second.range == first.range:
            return None
    return tuple(merged)


def apply_edits(text: str, edits: Sequence[TextEdit]) -> str:
    """Return the text after edits, which must not overlap and must be in the order of the text."""
    positions = TextPositions(text)
    for edit in reversed(edits):
        start, end = positions.offset(edit.range.start), positions.offset(edit.range.end)
        text = text[:start] + edit.text + text[end:]
    return text
