"""Trace execution paths of a target that its example inputs do not take.

The target is traced in its other mode (training or evaluation), with flags inverted, and with
optional arguments left out or given. Where eager code between graphs reads a value from a fake
tensor, as by ``item()``, it gets other values. Every finding comes from a trace in a separate
process; only the choice of paths is heuristic.
"""

from __future__ import annotations

import base64
import bisect
import dataclasses
import functools
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from ..protocol import Finding, Frame, PathReport, Position, Range, TracedPaths, TracePath
from ..protocol.packing import pack, unpack
from ..protocol.paths import PathAnswer, PathValue
from ..targets import Call
from ..targets.notation_parser import parse_value
from ..targets.tensors import build_value
from ..tracing import stacks
from ..tracing.recording import Recording, TracedLines
from ..tracing.variations import Inputs, replace_arguments
from . import conditions
from .conditions import ConditionSide, FileConditions, Number
from .forecast import Branch, WorkAnswer
from .places import SourceText

MOST = 16
"""Maximum number of alternative execution paths traced per target."""
LONGEST = 20.0
"""Maximum wall time in seconds for tracing the alternative execution paths of a target."""
REPAIRS = 4
"""Maximum number of values to invert, one after the other, after an execution path raised an
exception."""
ATTEMPTS = 3
"""Maximum number of execution paths tried in order to reach one side of a condition."""
PATIENCE = 8
"""Number of reads at one source line that get the value computed from the tensor. Later reads get
another value, so that loops end.
"""
REPORTED = ("graph-break/", "frame-skipped/", "op/", "guard/specialized-dimension")
"""Prefixes of the finding codes reported for other execution paths. Codes about recompiles are left
out because they depend on chosen values."""
_LONGEST = 40_000
"""Maximum number of characters of a packed :class:`ExamplePath`, which is sent through a socket."""


@dataclass(frozen=True)
class FlagParameter:
    """A parameter of the target, and ``other``, another value to try for it, such as the inverted
    flag.

    ``absent``: the call does not pass the parameter, and a value for it must still be found.
    """

    name: str
    other: bool | None = None
    absent: bool = False


@dataclass(frozen=True)
class AskedValue:
    """A value that the file's code read from a fake tensor, as by ``y.item()``, and the source
    range of the read."""

    place: Range
    answer: Number


@dataclass(frozen=True)
class ExamplePath:
    """Facts about the execution path that a target takes with its example inputs: lines, values,
    flags and findings.

    Other paths are chosen by comparison with it. ``asked``: code read values from tensors.
    ``answers`` are the values that it read in a run with fake tensors; if they are ``complete``,
    the path need not be traced again. ``training`` is the mode of the module, None if the mode does
    not matter.
    """

    lines: TracedLines = field(default_factory=TracedLines)
    asked: bool = False
    complete: bool = False
    answers: tuple[AskedValue, ...] = ()
    training: bool | None = None
    flags: tuple[FlagParameter, ...] = ()
    identities: frozenset[str] = frozenset()

    def to_text(self) -> str:
        """Return the facts packed as text; empty if the text exceeds the maximum size."""
        text = base64.b85encode(zlib.compress(pack(self).encode())).decode()
        return text if len(text) <= _LONGEST else ""

    @classmethod
    def from_text(cls, text: str) -> ExamplePath:
        found: ExamplePath = unpack(cls, zlib.decompress(base64.b85decode(text)).decode())
        return found


@dataclass(frozen=True)
class Traveled:
    """The result of tracing one execution path; ``failure`` is the message of the exception, if it
    raised."""

    findings: tuple[Finding, ...] = ()
    lines: TracedLines = field(default_factory=TracedLines)
    asked: tuple[AskedValue, ...] = ()
    failure: str = ""
    could_be_real: bool = False
    """True if the path raised only because the tensors were fake, so that real tensors may
    succeed."""


class Policy:
    """A callable that chooses the value that code gets when it reads one from a fake tensor, as by
    ``item()``.

    At the first read on a source line, this is the value in ``answers``, if any. Otherwise it is
    the given value, inverted if it is a truth value and the line is in ``turned``. After many reads
    on one line the chosen value changes, so that loops end.
    """

    def __init__(
        self, answers: Iterable[PathAnswer], turned: Set[Range], source: SourceText
    ) -> None:
        self._answers = {answer.range: answer.value for answer in answers}
        self._turned = turned
        self._source = source
        self._times: Counter[Range] = Counter()
        self.asked: dict[Range, Number] = {}

    def __call__(self, frame: Frame | None, given: Number) -> Number:
        if frame is None or frame.path != self._source.path:
            return given
        place = self._source.range_of(frame)
        if place in self._turned and isinstance(given, bool):
            given = not given
        self._times[place] += 1
        if self._times[place] == 1:
            answer = self._answers.get(place, given)
            self.asked[place] = answer
            return answer
        if self._times[place] <= PATIENCE:
            return given
        if isinstance(given, bool):
            return not given
        return type(given)((0, conditions.LARGE, -conditions.LARGE)[self._times[place] % 3])


@dataclass(frozen=True)
class _Next:
    """An execution path to trace next, and the reason: a side of a condition that was not reached
    yet, or another mode.

    ``given`` names an optional argument for which a value must be found first; empty for none.
    """

    path: TracePath
    goal: ConditionSide | None = None
    given: str = ""


class _Places:
    """A set of traced source ranges of a file, sorted, for fast look-ups."""

    def __init__(self, places: Iterable[Range], source: SourceText) -> None:
        places = list(places)
        self.exact = any(one.start != one.end for one in places)
        """True if the source ranges have column positions, False if each covers a whole line."""
        self._starts = sorted(
            one.start if one.start != one.end else source.header(one.start.line).start
            for one in places
        )

    def any_in(self, part: Range) -> bool:
        at = bisect.bisect_left(self._starts, part.start)
        return at < len(self._starts) and self._starts[at] < part.end


class Explorer:
    """An explorer that traces other execution paths of a target (function or module). It stops when
    no path is expected to reach new code.
    """

    def __init__(self, source: SourceText, example: ExamplePath) -> None:
        self._source, self._example = source, example
        self.traced = TracedPaths()
        self.could_be_real = False
        """True if all paths so far raised only because the tensors were fake, so that real tensors
        may succeed."""
        self._conditions = FileConditions(source.tree)
        self._waiting: deque[_Next] = deque()
        self._planned: set[tuple[TracePath, str]] = set()
        self._attempts: Counter[ConditionSide] = Counter()
        self._answered: set[tuple[Range, Number]] = set()
        self._flagged: set[tuple[FlagParameter, ConditionSide]] = set()
        self._reported = set(example.identities)
        self._own = set(example.identities)
        """Identities of the findings on the path that the example inputs take; other paths do not
        report them again."""
        self._places: set[Range] = set()
        """Source ranges where code reads values from tensors, as by ``item()``."""
        self._turned = frozenset(a.place for a in example.answers if a.answer is True)
        """Source ranges of truth values that code reads as True unless a path states otherwise,
        because the code raises if they are False.
        """
        self._repairs = REPAIRS
        self._found: dict[str, str] = {}
        """Values found for optional arguments, as text such as ``f32[4]``, by parameter name; empty
        if none was found."""
        self._note_lines(example.lines)

    def _note_lines(self, lines: TracedLines) -> None:
        self.lines = lines
        """Lines of the file that were reached on any execution path traced so far."""
        self._traced = _Places(lines.traced, self._source)
        self._entered = _Places(lines.entered, self._source)

    def could_answer(self, recording: Recording) -> bool:
        """Whether a target traced with real tensors may reach other lines if code reads other
        values from tensors.

        Reading a value breaks the graph, so the breaks show where values are read. In a function
        that runs completely in eager mode, any line may read a value.
        """
        if any(record.outcome != "resumed" for record in recording.breaks):
            return any(self._may_open(side) for side in self._conditions.sides)
        frames = (self._source.innermost(record.stack) for record in recording.breaks)
        places = {self._source.range_of(frame) for frame in frames if frame is not None}
        return any(self._may_open(s) for place in places for s in self._conditions.on_value(place))

    def begin(self) -> bool:
        """Plan the first paths to trace: inverted flags, missing optional arguments, the other
        mode, other sides of conditions.

        Return whether there are any.
        """
        example = self._example
        if example.asked and example.complete:
            self._places = {asked.place for asked in example.answers}
            self._answered |= {(asked.place, asked.answer) for asked in example.answers}
            self._vary_answers(TracePath(), example.answers)
        elif example.asked:
            # The known values come from real tensors or from constants: trace the same path with
            # fake tensors to see which values it reads.
            self._plan_path(TracePath())
        if example.training is not None:
            self._plan_path(TracePath(training=not example.training))
        self._vary_flags(TracePath())
        return bool(self._waiting)

    def run(
        self,
        travel: Callable[[TracePath, frozenset[Range]], Traveled],
        find: Callable[[str], str],
        branch: Branch,
        emit: Callable[[Finding], None],
    ) -> None:
        """Trace the planned paths, and further ones that their results suggest, within the time
        limit.

        ``travel`` traces one path; ``branch`` calls it in a forked process. ``emit`` receives
        findings that the path of the example inputs does not have. ``find`` returns a value for an
        optional argument as text such as ``f32[4]``, or an empty text.
        """
        self.begin()
        until = time.monotonic() + LONGEST
        while self._waiting and len(self.traced.reports) < MOST:
            following = self._waiting.popleft()
            if not self._may_lead_on(following):
                continue
            path, goal, given = following.path, following.goal, following.given
            if given:
                if given not in self._found:
                    left = max(until - time.monotonic(), 0.1)
                    found = branch(functools.partial(find, given), left, f"value of {given}")
                    until -= found.used
                    self._found[given] = found.value or ""
                if not self._found[given]:
                    continue
                value = PathValue(given, notation=self._found[given])
                path = dataclasses.replace(path, values=(*path.values, value))
            if goal is not None:
                self._attempts[goal] += 1
            left = max(until - time.monotonic(), 0.1)
            travel_it = functools.partial(travel, path, self._turned)
            answer = branch(travel_it, left, f"{_path_name(path)} {sorted(self._turned)}")
            until -= answer.used
            self._take_path(path, answer, emit)
        self.could_be_real = self.could_be_real and not any(
            report.status == "traced" for report in self.traced.reports
        )

    # -- one path -----------------------------------------------------------------------------

    def _take_path(
        self, path: TracePath, answer: WorkAnswer[Traveled], emit: Callable[[Finding], None]
    ) -> None:
        words = path.words or "with chosen values"
        traveled = answer.value
        if traveled is None:
            self._note_report(PathReport(words, "late" if answer.late else "failed", answer.lost))
            return
        before = self._traced
        self._note_lines(
            TracedLines(
                self.lines.traced | traveled.lines.traced,
                self.lines.entered | traveled.lines.entered,
            )
        )
        self._answered |= {(asked.place, asked.answer) for asked in traveled.asked}
        if traveled.failure:
            self._note_report(PathReport(words, "failed", traveled.failure))
            self.could_be_real |= traveled.could_be_real
            if self._repair_path(path, traveled):
                return
        else:
            self._note_report(PathReport(words, "traced"))
            self._emit_findings(path, traveled, before, emit)
        self._vary_answers(path, traveled.asked)
        self._vary_flags(path)

    def _repair_path(self, path: TracePath, traveled: Traveled) -> bool:
        """Plan to trace a path again that raised an exception, with the last value read from a
        tensor inverted.

        Return False if no value can be inverted. Most conditions on values test for errors, so
        False is the usual value; but some conditions require True.
        """
        last = traveled.asked[-1] if traveled.asked else None
        given = {answer.range for answer in path.answers}
        if last is None or last.answer is not False or last.place in given or not self._repairs:
            return False
        self._repairs -= 1
        self._turned |= {last.place}
        self._waiting.appendleft(_Next(path))
        return True

    def _note_report(self, report: PathReport) -> None:
        self.traced = dataclasses.replace(self.traced, reports=(*self.traced.reports, report))

    def _emit_findings(
        self,
        path: TracePath,
        traveled: Traveled,
        before: _Places,
        emit: Callable[[Finding], None],
    ) -> None:
        found = {f.identity: f for f in traveled.findings if f.code.startswith(REPORTED)}
        chosen = self._deciding_answers(traveled, before) if not path.words else []
        for identity, finding in found.items():
            way = path if path.words else self._path_to_finding(finding, chosen)
            if identity not in self._reported and way.words:
                self._reported.add(identity)
                emit(dataclasses.replace(finding, path=way))
        self._compare_modes(path, traveled, found.keys())

    def _compare_modes(self, path: TracePath, traveled: Traveled, found: Set[str]) -> None:
        """Record which findings of the module's original mode (training or evaluation) are missing
        in its other mode. They are then reported as findings of the original mode only.

        ``found`` has the identities of the findings on ``path``.
        """
        training = self._example.training
        places = {asked.place for asked in traveled.asked}
        if path == TracePath():
            self._own &= found
            self._places = places
        elif path == TracePath(training=not training) and places <= self._places:
            codes = (*REPORTED, "trace/eager-error", "trace/compile-error")
            lacking = (identity for identity in self._own - found if identity.startswith(codes))
            self.traced = dataclasses.replace(
                self.traced, narrowed=tuple(sorted(lacking)), mode=training
            )

    def _deciding_answers(
        self, traveled: Traveled, before: _Places
    ) -> list[tuple[PathAnswer, ConditionSide]]:
        """Return values read from tensors that may explain why a path reached new code.

        Each value is paired with the side of a condition that it selected. Sides that earlier paths
        reached are left out; ``before`` has the source ranges that these paths traced.
        """
        found: list[tuple[PathAnswer, ConditionSide]] = []
        for asked in traveled.asked:
            for side in self._conditions.on_value(asked.place):
                begins = self._start_of_side(side)
                if begins is None or (self._traced.any_in(begins) and not before.any_in(begins)):
                    found.append((self._make_answer(asked.place, asked.answer, side), side))
        return found

    def _path_to_finding(
        self, finding: Finding, chosen: list[tuple[PathAnswer, ConditionSide]]
    ) -> TracePath:
        frames = (frame for frame in finding.stack if frame.path == self._source.path)
        places = _Places((finding.range, *map(self._source.range_of, frames)), self._source)
        near = [
            answer
            for answer, side in chosen
            if places.any_in(
                self._widen_range((self._start_of_side(side) and side.block) or side.test)
            )
        ]
        far = [answer for answer, side in chosen if self._start_of_side(side) is not None]
        return TracePath(answers=tuple(dict.fromkeys(near or far)))

    # -- choice of paths ------------------------------------------------------------------------

    def _plan_path(
        self, path: TracePath, goal: ConditionSide | None = None, given: str = ""
    ) -> None:
        if (path, given) not in self._planned:
            self._planned.add((path, given))
            self._waiting.append(_Next(path, goal, given))

    def _may_lead_on(self, following: _Next) -> bool:
        goal = following.goal
        if goal is None:
            return True
        return self._is_open(goal) and self._attempts[goal] < ATTEMPTS

    def _may_open(self, side: ConditionSide) -> bool:
        """Whether another value may lead to the code of a side: its condition was traced, but its
        code was not.
        """
        return self._traced.any_in(self._widen_range(side.test)) and self._is_open(side)

    def _is_open(self, side: ConditionSide) -> bool:
        begins = self._start_of_side(side)
        if begins is None:
            return True
        return self._entered.any_in(begins) and not self._traced.any_in(begins)

    def _start_of_side(self, side: ConditionSide) -> Range | None:
        """Return the range at which the code of a side begins; None if it begins on the condition's
        line and columns are unknown."""
        if side.begins is None or self._entered.exact:
            return side.begins
        apart = side.begins.start.line > side.test.end.line
        return self._widen_range(side.begins) if apart else None

    def _widen_range(self, range_: Range) -> Range:
        """Return a range as precise as the traced ranges: unchanged, or whole lines if traced
        ranges lack columns.
        """
        if self._entered.exact:
            return range_
        return Range(Position(range_.start.line, 0), Position(range_.end.line + 1, 0))

    def _vary_answers(self, path: TracePath, all_asked: Sequence[AskedValue]) -> None:
        given = {answer.range for answer in path.answers}
        places = [asked.place for asked in all_asked]
        for asked in all_asked:
            if asked.place in given:
                continue
            for side in self._conditions.on_value(asked.place):
                direct = conditions.is_within(asked.place, side.test)
                # If the condition itself reads values, only these decide it. Values read earlier do
                # not.
                indirect = any(conditions.is_within(place, side.test) for place in places)
                if not self._may_open(side) or (indirect and not direct):
                    continue
                for value in conditions.candidate_answers(side, asked.place, asked.answer):
                    begins = self._start_of_side(side)
                    if (begins is None or side.test == asked.place) and (
                        (asked.place, value) in self._answered
                    ):
                        continue
                    answer = self._make_answer(asked.place, value, side)
                    changed = dataclasses.replace(path, answers=(*path.answers, answer))
                    self._plan_path(changed, side if begins is not None else None)

    def _vary_flags(self, path: TracePath) -> None:
        given = {value.name for value in path.values}
        for flag in self._example.flags:
            if flag.name in given:
                continue
            for side in self._conditions.on_parameter(flag.name):
                if not self._may_open(side) or (flag, side) in self._flagged:
                    continue
                self._flagged.add((flag, side))
                goal = side if self._start_of_side(side) is not None else None
                if flag.absent:
                    self._plan_path(path, goal, flag.name)
                    continue
                value = PathValue(flag.name, flag.other)
                self._plan_path(dataclasses.replace(path, values=(*path.values, value)), goal)

    def _make_answer(self, place: Range, value: Number, side: ConditionSide) -> PathAnswer:
        if isinstance(value, bool):
            return PathAnswer(place, value, f"`{self._range_words(place)}` is {str(value).lower()}")
        state = "not empty" if side.loop else str(side.truth).lower()
        return PathAnswer(place, value, f"`{self._range_words(side.test)}` is {state}")

    def _range_words(self, range_: Range) -> str:
        words = self._source.text_of(range_)
        return words if range_.start.line == range_.end.line else f"{words.rstrip()} …"


def alter_call(call: Call, path: TracePath) -> Call:
    """Return a call changed as a path states: the mode of its module, and its arguments.

    Runs user code.
    """
    if path.training is not None:
        call.function.train(path.training)  # type: ignore[attr-defined]
    if not path.values:
        return call
    values = {
        one.name: build_value(parse_value(one.notation)) if one.notation else one.value
        for one in path.values
    }
    args, kwargs = replace_arguments(call.function, call.args, call.kwargs, values)
    return dataclasses.replace(call, args=args, kwargs=kwargs)


def _path_name(path: TracePath) -> str:
    """Return a text that identifies an execution path, equal in every process."""
    answers = (f"{one.range}: {one.value}" for one in path.answers)
    return "; ".join([path.words, *answers])


def recorded_answers(recording: Recording, source: SourceText) -> Iterator[AskedValue]:
    """Yield the value that the file's code first read from a fake tensor at each source range, as
    by ``item()``."""
    places: set[Range] = set()
    for chosen in recording.chosen:
        frame = stacks.innermost_user_frame(chosen.stack)
        if chosen.answer is None or frame is None or frame.path != source.path:
            continue
        place = source.range_of(frame)
        if place not in places:
            places.add(place)
            yield AskedValue(place, chosen.answer)


def call_flags(call: Call) -> Iterator[FlagParameter]:
    """Yield the parameters of a call for which another value should be tried: flags, and optional
    arguments."""
    inputs = Inputs(call.function, call.args, call.kwargs)
    yield from (FlagParameter(name, absent=True) for name in inputs.left_out)
    for leaf in inputs.leaves:
        if not leaf.name.isidentifier():
            continue  # the flag is an element of a list or another container
        if isinstance(leaf.value, bool):
            yield FlagParameter(leaf.name, not leaf.value)
        elif leaf.optional and leaf.value is not None:
            yield FlagParameter(leaf.name, None)
