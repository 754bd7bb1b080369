"""Try the candidates of a finding: trace each, compare what it does, and grade it."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from fullgraph.domain.positions import TextPositions, text_hash
from fullgraph.fixes.candidate import Candidate, edits_between
from fullgraph.fixes.catalogue import candidates
from fullgraph.fixes.site import Text, Unparsable
from fullgraph.fixes.tracing import Asked, Judgment, Traced, events, judged, same, traced
from fullgraph_engine.protocol import (
    Analyze,
    Compare,
    Compared,
    Finding,
    Part,
    SeenValue,
    TextEdit,
)

Grade = Literal["safe", "unsafe", "suggestion"]
"""As clippy and ruff grade fixes. Safe: means the same for any input by construction, and was
verified. Unsafe: verified on the inputs that were tried, or it gives something up. Suggestion: to
be adapted by hand; the break is gone with it, but it was not shown to do the same."""

COMPARE_SECONDS = 10.0
"""What comparing one candidate may take."""
_MOST_TARGETS = 3
"""Targets that a finding is looked at in; a fix of a shared function is tried with these."""
_MOST_TRIED = 12
"""Candidates of one finding that are traced."""
_TOGETHER: tuple[Part, ...] = ("first", "paths")
_FURTHER: tuple[Part, ...] = ("second", "forecast")
"""What a fix is looked at with in the end: it must bring no constants and no recompiles."""


class Tracer(Protocol):
    """What verifying needs of :class:`fullgraph.engines.Engine`."""

    def analyze(self, request: Analyze) -> Asked: ...

    def compare(self, request: Compare) -> Asked: ...


@dataclass(frozen=True)
class Fix:
    """A candidate that was tried. ``findings`` is what it ends, the one it was made for first."""

    candidate: Candidate
    grade: Grade
    findings: tuple[Finding, ...]
    edits: tuple[TextEdit, ...]
    judgment: Judgment
    compared: tuple[Compared, ...] = ()
    """What it does beside the original, for each target that was compared."""
    seconds: float = 0.0
    """From the beginning of the search for its finding until it was verified."""
    doubt: str = ""
    """Why it is no better than its grade, as a sentence; empty for a safe one."""


@dataclass(frozen=True)
class Refused:
    """A candidate that is no fix, and why, as a sentence."""

    candidate: Candidate
    why: str


@dataclass(frozen=True)
class Search:
    """What became of the candidates of a finding; fixes are the best first."""

    fixes: tuple[Fix, ...] = ()
    refused: tuple[Refused, ...] = ()


class Verifier:
    """Tries candidates for the findings of one text. ``request`` is how that text is analyzed."""

    def __init__(self, tracer: Tracer, request: Analyze, *, backend: bool = False) -> None:
        self._tracer = tracer
        self._request = request
        self._backend = backend
        self._text: Text | None = None
        self._before: dict[tuple[tuple[str, ...], tuple[Part, ...]], Traced] = {}

    async def fixes(
        self, finding: Finding, targets: Sequence[str], seen: Sequence[SeenValue] = ()
    ) -> Search:
        """Try the candidates of a finding; the first safe one ends the search."""
        began = time.monotonic()
        only = tuple(targets[:_MOST_TARGETS])
        made = await asyncio.to_thread(self._candidates, finding, seen)
        if not made:
            return Search()
        parts = _parts(finding)
        before = await self._traced(only, parts)
        if before.of_run(finding) is None:
            return Search()
        found: list[Fix] = []
        refused: list[Refused] = []
        for candidate in made[:_MOST_TRIED]:
            tried = await self._tried(candidate, finding, only, before, parts)
            if isinstance(tried, Refused):
                refused.append(tried)
                continue
            found.append(dataclasses.replace(tried, seconds=time.monotonic() - began))
            if tried.grade == "safe":
                break
        order: list[Grade] = ["safe", "unsafe", "suggestion"]
        found.sort(key=lambda fix: order.index(fix.grade))
        return Search(tuple(found), tuple(refused))

    async def together(self, fixes: Sequence[Fix]) -> Fix | None:
        """Several fixes as one, tried anew; those that touch lines of an earlier one are left out.

        None if there are none, or not all of what they end is gone.
        """
        chosen = _apart(fixes)
        if len(chosen) < 2:
            return chosen[0] if chosen else None
        ended = tuple(finding for fix in chosen for finding in fix.findings)
        edits = sorted((edit for fix in chosen for edit in fix.edits), key=lambda edit: edit.range)
        candidate = Candidate(
            "together",
            f"Apply {len(chosen)} safe fixes",
            _edited(self._request.text, edits),
            preserves=all(fix.candidate.preserves for fix in chosen),
        )
        only = tuple(dict.fromkeys(finding.target for finding in ended))
        before = await self._traced(only, _TOGETHER)
        fix = await self._tried(candidate, ended[0], only, before, _TOGETHER)
        if isinstance(fix, Refused):
            return None
        gone = all(any(same(one, each) for one in fix.findings) for each in ended)
        return fix if gone else None

    def _candidates(self, finding: Finding, seen: Sequence[SeenValue]) -> tuple[Candidate, ...]:
        if self._text is None:
            try:
                self._text = Text(self._request.text)
            except Unparsable:
                return ()
        return candidates(self._text, finding, seen)

    async def _tried(
        self,
        candidate: Candidate,
        finding: Finding,
        only: tuple[str, ...],
        before: Traced,
        parts: tuple[Part, ...],
    ) -> Fix | Refused:
        after = await traced(self._tracer, self._asked(only, parts, candidate.text))
        judgment = judged(before, after, finding)
        if not judgment.better:
            return Refused(candidate, judgment.why)
        compared = [await self._compared(candidate.text, target) for target in only]
        for one in compared:
            allowed = (
                candidate.suggestion
                or (candidate.extends and _extended(one))
                or (bool(one.aspects) and set(one.aspects) <= set(candidate.loses))
            )
            if one.outcome == "differs" and not allowed:
                return Refused(candidate, one.reason)
        rest = tuple(part for part in _FURTHER if part not in parts)
        further = judged(
            await self._traced(only, rest),
            await traced(self._tracer, self._asked(only, rest, candidate.text)),
            finding,
        )
        if further.appeared or further.problem:
            return Refused(candidate, further.why)
        grade, doubt = _graded(candidate, compared)
        ended = (finding, *(one for one in judgment.ended if not same(one, finding)))
        edits = edits_between(self._request.text, candidate.text)
        return Fix(candidate, grade, ended, edits, judgment, tuple(compared), doubt=doubt)

    async def _traced(self, only: tuple[str, ...], parts: tuple[Part, ...]) -> Traced:
        """The original text, traced once."""
        known = self._before.get((only, parts))
        if known is None:
            known = await traced(self._tracer, self._asked(only, parts, self._request.text))
            self._before[only, parts] = known
        return known

    def _asked(self, only: tuple[str, ...], parts: tuple[Part, ...], text: str) -> Analyze:
        generation = text_hash(text)
        return dataclasses.replace(
            self._request, text=text, generation=generation, only=only, parts=parts, documents=()
        )

    async def _compared(self, changed: str, target: str) -> Compared:
        request = Compare(
            request=0,
            analyze=self._request,
            target=target,
            changed=changed,
            seconds=COMPARE_SECONDS,
            backend=self._backend,
        )
        last = Compared(0, "unverified", reason="The engine gave no answer.")
        async for event in events(self._tracer.compare(request)):
            if isinstance(event, Compared):
                last = event
        return last


_EMPTY_OR_ONE = re.compile(r"\[(?:[^\]]*, )?[01](?:, [^\]]*)?\]")
"""In probe notation: a tensor with a dimension of size 0 or 1."""


def _extended(compared: Compared) -> bool:
    """Whether they differ only where the original raises, or at sizes that broadcast or leave
    nothing, and not with the inputs of the probe."""
    given = [case for case in compared.cases if case.values == "given"]
    usual = {size for case in given[:1] for size in _EMPTY_OR_ONE.findall(case.inputs)}
    return bool(given) and all(
        case.same
        or case.outcome == "raised"
        or bool(set(_EMPTY_OR_ONE.findall(case.inputs)) - usual)
        for case in compared.cases
    )


def _parts(finding: Finding) -> tuple[Part, ...]:
    """What shows whether the finding is there: how targets end is known of the first part."""
    if finding.path is not None:
        return "first", "paths"
    part = finding.run.part if finding.run is not None else "first"
    return ("first",) if part == "first" else ("first", part)


def _graded(candidate: Candidate, compared: Sequence[Compared]) -> tuple[Grade, str]:
    """The grade of a candidate that nothing speaks against, and why it is no better."""
    doubts = [one.reason for one in compared if one.outcome == "unverified"]
    differs = [one.reason for one in compared if one.outcome == "differs"]
    if candidate.suggestion or doubts:
        return "suggestion", (*doubts, *differs, candidate.gives_up)[0]
    if differs and candidate.extends:
        return "unsafe", f"It is not the same for every size: {differs[0]}"
    if differs:
        return "unsafe", differs[0]
    if candidate.gives_up:
        return "unsafe", candidate.gives_up
    if not candidate.preserves:
        return "unsafe", "It does the same on the inputs that were tried; others may differ."
    if not all(one.exact for one in compared):
        return "unsafe", "Its results differ from the original's in rounding."
    return "safe", ""


def _apart(fixes: Sequence[Fix]) -> list[Fix]:
    """Fixes no two of which touch the same line, earlier ones first."""
    chosen: list[Fix] = []
    taken: set[int] = set()
    for fix in fixes:
        lines = {
            line
            for edit in fix.edits
            for line in range(edit.range.start.line, edit.range.end.line + 1)
        }
        if taken.isdisjoint(lines):
            chosen.append(fix)
            taken |= lines
    return chosen


def _edited(text: str, edits: Sequence[TextEdit]) -> str:
    """A text after edits, which are in its order and apart."""
    positions = TextPositions(text)
    for edit in reversed(edits):
        start, end = positions.offset(edit.range.start), positions.offset(edit.range.end)
        text = text[:start] + edit.text + text[end:]
    return text
