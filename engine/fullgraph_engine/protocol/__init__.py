"""What crosses the pipe between the server and the engine.

Plain frozen dataclasses, written as one JSON object a line. The first key of every object,
``"type"``, names the dataclass. This is the only package that both sides import, so it may use
nothing but the standard library, and must load on every supported Python (3.10 to 3.13).

Positions are zero-based lines and zero-based UTF-8 *byte* offsets into the line, counted in
exactly the text that was analyzed: that is what ``ast`` and bytecode positions give. Whoever
shows them converts to the units of the client.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Union

from .behavior import Aspect as Aspect
from .behavior import BehaviorOutcome as BehaviorOutcome
from .behavior import Compared as Compared
from .behavior import ComparedCase as ComparedCase
from .behavior import Fill as Fill
from .behavior import Observe as Observe
from .breaks import BreakCause as BreakCause
from .breaks import BreakCost as BreakCost
from .breaks import GraphCut as GraphCut
from .coverage import Coverage as Coverage
from .documents import DocumentKind, SavedEvents
from .documents import DocumentsWritten as DocumentsWritten
from .evidence import Evidence as Evidence
from .evidence import ForecastEvidence
from .facts import Degraded as Degraded
from .facts import Fact as Fact
from .files import FilesRead as FilesRead
from .files import OpenFile as OpenFile
from .given_calls import CalledAgain as CalledAgain
from .given_calls import GivenCall as GivenCall
from .given_calls import GivenCalls as GivenCalls
from .guards import GuardName as GuardName
from .guards import GuardsFound as GuardsFound
from .guards import merge_names as merge_names
from .measurements import Measurement as Measurement
from .operators import Operator
from .packing import items_of, packed
from .paths import PathReport as PathReport
from .paths import TracedPaths as TracedPaths
from .paths import TracePath as TracePath
from .places import Frame as Frame
from .places import Position as Position
from .places import Range as Range
from .places import place_words as place_words
from .plain import from_plain as from_plain
from .plain import plain
from .plain import to_plain as to_plain
from .recompiles import ForecastRow as ForecastRow
from .recorded import RecordedClass as RecordedClass
from .regions import Region as Region
from .regions import RegionCalls as RegionCalls
from .regions import merge_calls as merge_calls
from .repro import Reproduced as Reproduced
from .repro import ReproFound as ReproFound
from .repro import ReproProgress as ReproProgress
from .repro import Wanted as Wanted
from .runs import Part as Part
from .runs import RunId as RunId
from .sandbox import Allowance as Allowance
from .sandbox import Allowed as Allowed
from .sandbox import SandboxLevel as SandboxLevel
from .shapes import ShapesFound as ShapesFound
from .timings import Timings as Timings
from .trace_steps import TraceStepsFound as TraceStepsFound

VERSION = 1

# Bound now: user code in the engine's processes may replace the functions of `json`.
_loads, _dumps = json.loads, json.dumps

Mode = Literal["auto", "fake", "real"]
TraceMode = Literal["fake", "real"]
TargetKind = Literal["module", "function", "call"]
ExampleKind = Literal["main", "docstring", "test"]
"""Code that uses what a file defines: its ``__main__`` block, examples in docstrings, and tests of
the workspace."""
ProbeOrigin = Literal["comment", "annotation", "convention", "harvest", "synthesis", "program"]
Status = Literal["traced", "no-probe", "failed", "timeout", "crashed", "cancelled"]
Stream = Literal["stdout", "stderr", "engine"]
SeenKind = Literal["tensor", "module", "other"]


# -- findings ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Related:
    """Another place that explains a finding; the path may be outside the analyzed file."""

    path: str
    range: Range
    message: str


@dataclass(frozen=True)
class TextEdit:
    """Replace ``range`` of the analyzed text by ``text``."""

    range: Range
    text: str


@dataclass(frozen=True)
class Fix:
    """An edit of the analyzed file that the user may apply."""

    title: str
    edits: tuple[TextEdit, ...]
    preferred: bool = False


@dataclass(frozen=True)
class Finding:
    """One thing worth showing, at one range of the analyzed file.

    ``code`` is path-shaped (``graph-break/GB0059``). ``message`` is the first line, a sentence;
    ``explanation``, ``hints`` and ``context`` are Dynamo's own words where it has any.
    ``identity`` is the same for two findings that are the same thing reached on two ways;
    ``count`` says how often it was reached in its run; 0 takes one back that the run has told.
    """

    code: str
    message: str
    range: Range
    target: str = ""
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    href: str = ""
    stack: tuple[Frame, ...] = ()
    related: tuple[Related, ...] = ()
    fixes: tuple[Fix, ...] = ()
    count: int = 1
    mode: TraceMode = "fake"
    notes: tuple[str, ...] = ()
    unnecessary: bool = False
    identity: str = ""
    run: Union[RunId, None] = None
    """The run it belongs to; None if to none. In one run a later finding of the same identity
    replaces an earlier one (its count grew); between runs, findings of one identity are one, and
    counts add up."""
    evidence: Union[Evidence, None] = None
    """The facts; None where there are none besides the texts."""
    path: Union[TracePath, None] = None
    """The path that it was found on, where the one of the probe does not have it; or what of that
    one it takes."""
    allowance: Union[Allowance, None] = None
    """What would let the code do what was refused, where that may be why."""
    causes: tuple[BreakCause, ...] = ()
    """Of a graph break: what it comes from; several where a call leads to several breaks."""
    cost: Union[BreakCost, None] = None
    """Of a graph break; None until the run is through, and where this torch hides graphs."""
    calls: tuple[RegionCalls, ...] = ()
    """The calls of a program's regions in which it was seen; empty outside of such calls."""
    names: tuple[GuardName, ...] = ()
    """Of a guard: the names of the value that it is about; the message has the first one."""

    def wanted(self) -> Wanted:
        """This finding, to be reproduced."""
        evidence = self.evidence
        return Wanted(
            code=self.code,
            range=self.range,
            target=self.target,
            run=self.run,
            message=self.message,
            real=self.mode == "real",
            path=self.path,
            changed=evidence.changed if isinstance(evidence, ForecastEvidence) else (),
        )

    @property
    def only(self) -> str:
        """When it is there, in words (``in training mode``); empty: whenever the probe is used."""
        return self.path.words if self.path is not None else ""


# -- targets ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProbeInfo:
    """The probe that a target was traced with, in probe notation."""

    origin: ProbeOrigin
    inputs: str
    init: str = ""
    source: str = ""
    """Where it came from in words: ``get_inputs``, ``line 12``, ``example_input_array``."""
    comment: str = ""
    """What to write behind ``# fullgraph:`` to keep a probe that was found by trying; where a
    comment says one with which the code raises, another one with which it does not."""
    same_as: str = ""
    """The target whose own call this is: of the same module, with the same inputs."""
    context: str = ""
    """Modes and settings of the call where they are not the default ones, in words:
    ``in eval mode, without gradients``."""


@dataclass(frozen=True)
class FoundProbe:
    """What was found by trying for a target.

    ``settled``: this very text was traced so, and not only what it was before it was edited.
    ``comment`` is empty where nothing was found; then ``obstacle`` says why, in a sentence, and
    ``rests_on`` for what definition: as long as it is the same, there is no other answer.
    """

    target: str
    comment: str = ""
    settled: bool = False
    obstacle: str = ""
    rests_on: str = ""


@dataclass(frozen=True)
class TargetInfo:
    """Something in the file that can be traced. ``range`` covers its name (lens, squiggle)."""

    name: str
    kind: TargetKind
    range: Range


@dataclass(frozen=True)
class TargetReport:
    """How the runs of one target with one probe ended. ``seconds`` is wall time.

    ``probe_number`` says which of the target's probes it is, from 0; a later report of the same
    replaces an earlier one, when more paths were traced. A count is None where this torch does not
    show what is counted.
    """

    name: str
    kind: TargetKind
    range: Range
    status: Status
    mode: TraceMode = "fake"
    probe: ProbeInfo | None = None
    graphs: int | None = 0
    ops: int | None = 0
    breaks: int | None = 0
    skips: int | None = 0
    guards: int | None = 0
    recompiles: int | None = 0
    seconds: float = 0.0
    error: str | None = None
    chosen: int = 0
    """How many values were taken from the oracle because a fake tensor had none."""
    probe_number: int = 0
    coverage: Coverage | None = None
    """Of the functions of the file that were traced, or of which a part was."""
    paths: tuple[PathReport, ...] = ()
    """The other paths that were tried."""
    called: GivenCall | None = None
    """What others call it with; None where that is not known, or nobody wants to know."""
    uncalled: bool = False
    """What uses it was run, and led to no call of it."""
    region: Region | None = None
    """The region of a program that this report is of."""
    compiled: bool | None = None
    """True or false if a program ran and does or does not compile the target; else None."""

    @property
    def lines(self) -> int | None:
        """Lines with code."""
        return self.coverage.lines if self.coverage is not None else None

    @property
    def lines_traced(self) -> int | None:
        return self.coverage.lines_traced if self.coverage is not None else None

    @property
    def untraced(self) -> tuple[int, ...]:
        """Lines that were not traced, zero-based."""
        return self.coverage.untraced if self.coverage is not None else ()


def visible(report: TargetReport, degraded: Iterable[Degraded]) -> TargetReport:
    """The report without counts of what this torch does not show."""
    unseen: dict[str, Any] = {
        count: None for one in degraded for count in _COUNTS.get(one.fact, ())
    }
    return replace(report, **unseen) if unseen else report


_COUNTS: dict[Fact, tuple[str, ...]] = {
    "graphs": ("graphs", "ops", "breaks", "skips", "guards", "recompiles"),
    "breaks": ("breaks",),
    "skips": ("skips",),
    "guards": ("guards",),
    "recompiles": ("recompiles",),
    "lines": ("coverage",),
}


# -- requests: server to engine ---------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """What one run may use. Seconds are wall time; memory is the run's own, in MiB."""

    seconds: float = 60.0
    module_seconds: float = 60.0
    memory: int = 4096
    targets: int = 200
    processes: int = 32


@dataclass(frozen=True)
class ProgramRequest:
    """Options for running programs.

    ``seconds`` is the wall time after which the run is stopped; 0 runs no program. ``arguments``
    follow the program's path on its command line. ``candidates`` are paths of other programs that
    may compile what the text defines, the best first. ``elsewhere`` are paths of files that show
    their own findings, which this file does not repeat at its callers. ``backend`` names the
    backend that compiles the graphs; with an empty name they run as they were captured.
    ``uncompiled``: targets that the program does not compile are traced as well.
    """

    seconds: float = 0.0
    candidates: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    backend: str = ""
    uncompiled: bool = False


@dataclass(frozen=True)
class Analyze:
    """Trace the targets of one text. Findings stream until ``Analyzed`` or ``Failed``.

    ``path`` is absolute where the text is on disk, else only a name. ``only`` limits the targets
    by name; an empty tuple means all. ``focus`` is the zero-based line of the last edit: targets
    nearest to it go first. ``roots`` go to ``sys.path`` of the run, before the file's own folder.
    """

    request: int
    generation: str
    path: str
    text: str
    mode: Mode = "auto"
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """Targets that are found as ever, and not traced: what is known of them holds."""
    real: tuple[str, ...] = ()
    """Targets that need real tensors: with the mode "auto", fake ones are not tried."""
    tentative: bool = False
    """The text is only tried: inputs are looked for a short time, and that there are none is not
    remembered."""
    focus: int = 0
    roots: tuple[str, ...] = ()
    open_files: tuple[OpenFile, ...] = ()
    cwd: str = ""
    limits: Limits = Limits()
    jobs: int = 2
    parts: tuple[Part, ...] = ("first", "second")
    """What to do with each target. Without "first", targets are not reported again."""
    forecast_seconds: float = 0.0
    """What all forecasts together may take, in wall time; 0: no limit."""
    forecast_rows: bool = True
    """Forecasts tell of each change what it does; else only of what may be a finding."""
    path_seconds: float = 0.0
    """The same for all further paths."""
    nice: int = 0
    """By how much the user's code, once the imports are executed, gives way to other processes."""
    documents: tuple[DocumentKind, ...] = ()
    """What to write down of each run besides findings; it takes time that others do not have."""
    save_events: bool = False
    """Documents about events have these in a form that a later run can be compared with."""
    compare_events: tuple[SavedEvents, ...] = ()
    """Documents about events say how they differ from these."""
    wanted: Wanted | None = None
    """The finding that the part "candidates" is about."""
    observe: Observe | None = None
    """What the parts "cases" and "behavior" are to do."""
    recorded: tuple[RecordedClass, ...] = ()
    """What classes of the text were called with in a recorded program."""
    methods: tuple[str, ...] = ()
    """Names of methods of module classes that are targets as well."""
    examples: tuple[ExampleKind, ...] = ("main", "docstring")
    """What of the text may be executed to see what it calls."""
    files: bool = False
    """Tell what was read, so that the results can be kept for as long as that is the same."""
    client: int = 0
    """Who asks, where several share an engine: a request waits only for others of its client."""
    timings: bool = False
    """Whether to say where the time went, in events of their own."""
    calls: bool = False
    """Whether to report what targets are called with by others."""
    given: tuple[GivenCalls, ...] = ()
    """Targets that need not be traced if others call them as they did before."""
    program: ProgramRequest = ProgramRequest()
    """How to run the text if it is a program."""

    @property
    def may_run_programs(self) -> bool:
        """Whether programs are run for this request, if there are any."""
        return self.program.seconds > 0 and "first" in self.parts and not self.only


@dataclass(frozen=True)
class Reproduce:
    """Make a small script of one finding of a text. Ends with ``Reproduced`` or ``Failed``.

    ``analyze`` says how the text is executed and traced; only its own ``request`` and what it
    wants beside findings mean nothing. ``seconds`` is for everything, verification included.
    ``folder`` is an empty one for the contents of tensors that scripts need; the server removes it.
    """

    request: int
    analyze: Analyze
    wanted: Wanted
    seconds: float = 30.0
    folder: str = ""


@dataclass(frozen=True)
class Compare:
    """Execute a target of a text and of a changed one on the same inputs. Ends with ``Compared`` or
    ``Failed``.

    ``analyze`` says how the original is executed, as in ``Reproduce``; ``changed`` is the whole
    other text. ``seconds`` is about what it may take. ``backend``: the changed target is compiled
    by Inductor as well, and its first results compared with those of the plain call. ``at_random``:
    so many inputs are made at random, in place of those that are usually tried. ``covering``: what
    is changed has to be executed, on both sides of its conditions; not where the comparison of
    another target shows that. ``last_probe``: the number of the last probe of the target that the
    original was traced with.
    """

    request: int
    analyze: Analyze
    target: str
    changed: str
    seconds: float = 1.5
    backend: bool = False
    at_random: int = 0
    covering: bool = True
    last_probe: int = 0


@dataclass(frozen=True)
class Cancel:
    """End a request's processes. It still ends with exactly one ``Analyzed``, ``Reproduced`` or
    ``Compared`` (cancelled)."""

    request: int


@dataclass(frozen=True)
class SelfCheck:
    """Ask which private names of torch this one has, and what could be shown with them."""

    request: int


@dataclass(frozen=True)
class Shutdown:
    """Kill every run and exit. The engine does the same when the pipe closes."""


Request = Union[Analyze, Reproduce, Compare, Cancel, SelfCheck, Shutdown]


# -- events: engine to server -----------------------------------------------------------------


@dataclass(frozen=True)
class Starting:
    """First line of every engine, before torch is imported."""

    version: int
    pid: int
    python: str
    executable: str


@dataclass(frozen=True)
class Ready:
    """torch is imported and warm."""

    torch: str
    seconds: float
    degraded: tuple[Degraded, ...] = ()
    untested: bool = False
    """This torch is newer than any that was tested; what is not degraded was proven on it."""
    sandbox: SandboxLevel = field(default_factory=SandboxLevel)
    """What keeps user code from the rest of the machine."""


@dataclass(frozen=True)
class Unusable:
    """The engine cannot work in this interpreter and will exit. One sentence and the next step."""

    reason: str
    next_step: str


@dataclass(frozen=True)
class TargetsFound:
    """The targets of a text, in the order of the file; ``note`` says if a cap cut them."""

    request: int
    targets: tuple[TargetInfo, ...]
    note: str = ""


@dataclass(frozen=True)
class Importing:
    """The imports of the text, or the packages above it, are being executed: now this module."""

    request: int
    module: str


@dataclass(frozen=True)
class TargetStarted:
    """The first run of a target was launched; sent once for each target of a request."""

    request: int
    name: str


@dataclass(frozen=True)
class FindingFound:
    """A finding of a run or of the text itself; sent again when its ``count`` changes."""

    request: int
    finding: Finding


@dataclass(frozen=True)
class TargetDone:
    """One per (target, probe), also for targets without a probe."""

    request: int
    report: TargetReport


@dataclass(frozen=True)
class IndexWritten:
    """The operator index of this torch is in a file; a later one replaces an earlier.

    The first may come before torch is imported. Not ``complete``: what only the running torch
    knows (kernels, registered operators, documentation) is still missing.
    """

    path: str
    complete: bool


@dataclass(frozen=True)
class OperatorsRegistered:
    """Operators that exist since the analyzed file and what it imports were executed."""

    request: int
    operators: tuple[Operator, ...]


@dataclass(frozen=True)
class SeenValue:
    """What an expression of the analyzed text was while Dynamo traced it.

    ``name`` and ``function`` (qualified as in ``__qualname__``) are given where it is a local
    variable; ``range`` is then that of the function's name. Else ``range`` is the expression.
    """

    range: Range
    kind: SeenKind
    name: str = ""
    function: str = ""


@dataclass(frozen=True)
class ValuesSeen:
    """Once per run of a target, after its findings.

    There can be thousands, so they travel as text.
    """

    request: int
    target: str
    packed: str

    @classmethod
    def of(cls, request: int, target: str, values: Iterable[SeenValue]) -> ValuesSeen:
        return cls(request, target, packed(tuple(values)))

    def values(self) -> tuple[SeenValue, ...]:
        """What was packed; nothing if it is not of this form."""
        return items_of(SeenValue, self.packed)


@dataclass(frozen=True)
class Measured:
    """How long a target takes with one of its probes."""

    request: int
    target: str
    run: RunId
    measurement: Measurement


@dataclass(frozen=True)
class ForecastFound:
    """What further calls of a target recompile: once per run, with all its findings.

    It replaces what was told before of the run. ``note`` says in sentences what was left out, and
    why; ``seconds`` is what it took.
    """

    request: int
    target: str
    run: RunId
    rows: tuple[ForecastRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    note: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Analyzed:
    """Last event of a request. ``module_mode`` says how the module's own code was executed."""

    request: int
    generation: str
    seconds: float
    cancelled: bool = False


@dataclass(frozen=True)
class Failed:
    """Last event of a request that the engine could not work on at all."""

    request: int
    reason: str
    next_step: str = ""


@dataclass(frozen=True)
class Restarted:
    """The engine died over an analysis and works on it again: what it said of it before is void.

    For those who read the events; no engine sends it.
    """

    request: int


@dataclass(frozen=True)
class Log:
    """Output of user code, or the engine's own words. ``request`` is 0 for the engine itself."""

    request: int
    stream: Stream
    text: str


@dataclass(frozen=True)
class Hook:
    """One private name of torch that the engine needs."""

    name: str
    present: bool
    purpose: str
    detail: str = ""


@dataclass(frozen=True)
class SelfChecked:
    """The answer to :class:`SelfCheck`: versions, and each private name of torch that is needed."""

    request: int
    torch: str
    python: str
    hooks: tuple[Hook, ...]


Event = Union[
    Starting,
    IndexWritten,
    Ready,
    Unusable,
    TargetsFound,
    Importing,
    TargetStarted,
    FindingFound,
    TargetDone,
    CalledAgain,
    OperatorsRegistered,
    ValuesSeen,
    DocumentsWritten,
    ShapesFound,
    GuardsFound,
    TraceStepsFound,
    ForecastFound,
    Measured,
    FilesRead,
    Timings,
    ReproProgress,
    ReproFound,
    Reproduced,
    Compared,
    Analyzed,
    Failed,
    Restarted,
    Log,
    SelfChecked,
]
Message = Union[Request, Event]


MOST_TEXT = 8_000
"""Characters of one text for people."""

_LONG_LINE = 1 << 17
"""Bytes up to which a line is as it is."""

_FOR_PEOPLE = (FindingFound, ForecastFound, TargetDone, Failed)
"""Messages whose texts are only read: what others bring is of no use if it is cut."""

# -- JSON lines -------------------------------------------------------------------------------


class ProtocolError(ValueError):
    """A line that is not a message of this protocol."""


def encode(message: Message) -> bytes:
    """One JSON line, newline included.

    What is only for people to read is cut: a text of the user's may have any length.
    """
    line = line_of(message)
    if len(line) > _LONG_LINE and isinstance(message, _FOR_PEOPLE):
        body = {"type": type(message).__name__, **_cut(to_plain(message))}
        line = _dumps(body, separators=(",", ":")).encode() + b"\n"
    return line


def cut(text: str, most: int = MOST_TEXT) -> str:
    """At most ``most`` characters of a text, and how many it had more."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text) - most:,} more characters)"


def _cut(plain: Any) -> Any:
    if isinstance(plain, str):
        return cut(plain)
    if isinstance(plain, list):
        return [_cut(item) for item in plain]
    if isinstance(plain, dict):
        return {key: _cut(item) for key, item in plain.items()}
    return plain


def decode(line: bytes | str) -> Message:
    """The message of one line.

    Raises:
        ProtocolError: the line is no JSON object, names no known type, or lacks a field.
    """
    return typing.cast("Message", decode_one_of(MESSAGES, line))


def decode_one_of(kinds: Mapping[str, type], line: bytes | str) -> Any:
    """The dataclass of one line, one of ``kinds`` by name.

    Raises:
        ProtocolError: as ``decode``.
    """
    try:
        raw = _loads(line)
    except ValueError as error:
        raise ProtocolError(f"not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise ProtocolError("not a JSON object")
    kind = kinds.get(str(raw.pop("type", "")))
    if kind is None:
        raise ProtocolError("unknown message type")
    try:
        return from_plain(kind, raw)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ProtocolError(f"bad {kind.__name__}: {error}") from error


def line_of(message: Any) -> bytes:
    """Any dataclass as one JSON line, with the name of its type."""
    body = {"type": type(message).__name__, **plain(message)}
    return _dumps(body, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


MESSAGES: dict[str, type] = {
    kind.__name__: kind for kind in (*typing.get_args(Request), *typing.get_args(Event))
}
