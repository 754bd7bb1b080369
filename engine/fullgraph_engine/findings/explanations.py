"""Explanations of findings about sizes: the lines that made them constant or equal.

Operations on sizes are recorded while a target is traced, and replayed if a finding needs an
explanation. The replay has a time limit, since a finding without explanation is better than a late
one.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from .. import texts
from ..protocol import Finding, Frame, Position, Range, Related
from ..tracing.recording import Equality, Recording, Specialization, TracedFrame
from .places import SourceText, finding_identity

if TYPE_CHECKING:
    from ..shapes import DataDependentCondition, Explanation, Step, SymbolHistory, Tape
    from ..shapes.explanation import FactKind

EVENTS = 20_000
"""Maximum number of recorded operations on sizes per ShapeEnv; with more, nothing is explained."""

SECONDS = 1.5
"""Maximum seconds for computing all explanations of one trace."""

_ASKS_DATA = re.compile(r"data.depend", re.I)
_MAY_APPLY = ("mark_dynamic", "capture_scalar_outputs", "capture_dynamic_output_shape_ops")


def may_apply(text: str) -> bool:
    """Whether the source text of a file contains anything that affects symbolic sizes, so that
    recording is worthwhile."""
    return any(word in text for word in _MAY_APPLY)


@contextlib.contextmanager
def record_tapes(wanted: bool = True) -> Iterator[Sequence[Tape]]:
    """Record the operations on sizes in every frame traced in the ``with`` block, if the installed
    torch allows it.

    The yielded sequence has one recording (tape) per frame; it is filled when the block ends.
    ``wanted``: False to record nothing.
    """
    if wanted:
        try:
            from .. import shapes

            possible = not shapes.missing_names()
        except (ImportError, AttributeError):  # the installed torch lacks a function
            possible = False
        if possible:
            with shapes.record_tapes(limit=EVENTS) as tapes:
                yield tapes
            return
    yield ()


@dataclass(frozen=True)
class Why:
    """The lines that made a size constant or equal to another one, in words.

    If the lines are unknown, the text is empty and ``notes`` say why.
    """

    text: str = ""
    related: tuple[Related, ...] = ()
    notes: tuple[str, ...] = ()


class Explainer:
    """An explainer of why sizes became constant or equal during one trace, from the recorded
    operations on sizes."""

    def __init__(self, tapes: Sequence[Tape], recording: Recording, source: SourceText) -> None:
        from ..shapes import ReplayBudget

        self.recording = recording
        self._tapes = tapes
        self._source = source
        self._frames = {frame.id: frame for frame in recording.frames}
        self._budget = ReplayBudget(SECONDS)
        self._known: dict[tuple[int, str], Why] = {}
        self._histories: dict[int, SymbolHistory] = {}

    def explain_event(self, event: Specialization | Equality) -> Why:
        """Return the lines that made the size in a recorded event constant, or equal to another
        size.

        This method never raises.
        """
        if not self._tapes:
            return Why()
        try:
            tape = self._tape_of(event)
        except Exception as error:
            return _unknown_cause(f"{type(error).__name__}: {error}")
        if tape is None:
            return Why()
        key = (tape.index, event.symbol)
        if key not in self._known:
            kind: FactKind = "value" if isinstance(event, Specialization) else "equal"
            self._known[key] = self._explain_symbol(tape, event.symbol, kind)
        return self._known[key]

    def _explain_symbol(self, tape: Tape, symbol: str, kind: FactKind) -> Why:
        from ..shapes import OutOfTime, explain_symbol, follow_tape

        if tape.note or len(tape.events) > EVENTS:
            return _unknown_cause(f"the trace has more than {EVENTS:,} operations on sizes")
        try:
            with self._budget.spend_time():
                if tape.index not in self._histories:
                    self._histories[tape.index] = follow_tape(tape)
                explanation = explain_symbol(tape, symbol, kind, self._histories[tape.index])
        except OutOfTime:
            return _unknown_cause("the search would take too long")
        except Exception as error:
            return _unknown_cause(str(error).strip().split("\n")[0] or type(error).__name__)
        if explanation is None:
            return Why()
        notes = (explanation.unexplained,) if explanation.unexplained else ()
        return Why(explanation.text, self._related_places(explanation), notes)

    def with_explanation(self, finding: Finding) -> Finding:
        """Return the finding for an exception about sizes, with the lines that led to it; unchanged
        if they are unknown."""
        if not finding.code.startswith(("graph-break/", "trace/compile-error")):
            return finding
        if "ConstraintViolation" in finding.message:
            return self._with_violations(finding)
        if _ASKS_DATA.search(f"{finding.message} {finding.explanation}"):
            return self._with_checks(finding)
        return finding

    def _with_violations(self, finding: Finding) -> Finding:
        from ..shapes import find_violations

        try:
            with self._budget.spend_time():
                found = next(
                    (f for tape in reversed(self._tapes) if (f := find_violations(tape))), ()
                )
        except Exception as error:  # the failure is reported even if its explanation fails
            return replace(finding, notes=(*finding.notes, *_unknown_cause(str(error)).notes))
        if not found:
            return finding
        steps = [one.explanation.steps[-1] for one in found]
        own = [s for s in steps if s.frame is not None and s.frame.path == self._source.path]
        where = finding.range if finding.stack or not own else self._step_range(own[0])
        words = [texts.capitalize_first(violation.words) for violation in found]
        related = [place for one in found for place in self._related_places(one.explanation)]
        return replace(
            finding,
            range=where,
            identity=finding_identity(finding.code, where),
            explanation="\n".join(filter(None, (*words, finding.explanation))),
            related=(*related, *finding.related),
        )

    def _with_checks(self, finding: Finding) -> Finding:
        hints = [
            "If this condition always has the same result, write "
            f"`{question.torch_checks[0]}` or `{question.torch_checks[1]}` before this line."
            for question in self._questions
            if question.frame is not None
            and question.frame.path == self._source.path
            and finding.range.start.line <= question.frame.line <= finding.range.end.line
        ]
        new = tuple(hint for hint in dict.fromkeys(hints) if hint not in finding.hints)
        return replace(finding, hints=(*finding.hints, *new)) if new else finding

    @cached_property
    def _questions(self) -> tuple[DataDependentCondition, ...]:
        from ..shapes import find_data_dependent

        try:
            with self._budget.spend_time():
                return tuple(one for tape in self._tapes for one in find_data_dependent(tape))
        except Exception:  # the finding states the condition, but not the code to add
            return ()

    def _tape_of(self, event: Specialization | Equality) -> Tape | None:
        """Return the recorded operations on sizes (tape) of the frame in which an event happened.

        If Dynamo restarted the trace of the frame, the tape is from the last attempt. Return None
        if the operations were not recorded.
        """
        frame = self._frames.get(event.frame)
        fitting = [tape for tape in reversed(self._tapes) if _tape_matches(tape, frame, event)]
        if len(fitting) > 1:
            # Several callers may inline one function, each with its own tapes; prefer those with
            # this stack.
            fitting = [
                tape for tape in fitting if any(place.stack == event.stack for place in tape.places)
            ] or fitting
        return fitting[0] if fitting else None

    def _related_places(self, explanation: Explanation) -> tuple[Related, ...]:
        name = explanation.source
        made = f"`{name}` was made symbolic here"
        steps = [
            (step, f"{step.words} here{f': {step.operator}' if step.operator else ''}")
            for step in reversed(explanation.steps)
        ]
        every = [*steps, (explanation.created, made)]
        return tuple(
            Related(step.frame.path, self._step_range(step), words)
            for step, words in every
            if step.frame is not None
        )

    def _step_range(self, step: Step) -> Range:
        frame = step.frame
        assert frame is not None
        return (
            self._source.range_of(frame) if frame.path == self._source.path else _step_range(frame)
        )


def _tape_matches(tape: Tape, frame: TracedFrame | None, event: Specialization | Equality) -> bool:
    from ..shapes import final_value

    if frame is not None and (tape.path, tape.line) != (frame.path, frame.line):
        return False
    return final_value(tape, event.symbol) == event.value


def _step_range(frame: Frame) -> Range:
    start = Position(frame.line, frame.byte)
    end = Position(frame.end_line, frame.end_byte) if frame.end_byte >= 0 else start
    return Range(start, end)


def _unknown_cause(words: str) -> Why:
    return Why(notes=(f"Could not determine which lines caused this: {words.rstrip('.')}.",))
