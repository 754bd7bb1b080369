"""Messages between the server and the engine.

Messages are frozen dataclasses, each written as a JSON object on one line. The first key,
``"type"``, names the dataclass. Only this package is imported by both sides, so it uses nothing but
the standard library and loads on every supported Python (3.10 to 3.13).

Positions are zero-based lines and zero-based UTF-8 *byte* offsets into the line, in exactly the
text that was analyzed, as ``ast`` and bytecode positions are. Code that displays them converts them
to the units of the client.
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
from .packing import pack, unpack_items
from .paths import PathReport as PathReport
from .paths import TracedPaths as TracedPaths
from .paths import TracePath as TracePath
from .places import Frame as Frame
from .places import Position as Position
from .places import Range as Range
from .places import place_words as place_words
from .plain import as_plain
from .plain import from_plain as from_plain
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

# Bound at import: user code in the engine's processes may replace functions of `json`.
_loads, _dumps = json.loads, json.dumps

Mode = Literal["auto", "fake", "real"]
TraceMode = Literal["fake", "real"]
TargetKind = Literal["module", "function", "call"]
ExampleKind = Literal["main", "docstring", "test"]
"""Source of example calls: the ``__main__`` block of a file, examples in docstrings, or tests of
the workspace.
"""
ProbeOrigin = Literal["comment", "annotation", "convention", "harvest", "synthesis", "program"]
Status = Literal["traced", "no-probe", "failed", "timeout", "crashed", "cancelled"]
Stream = Literal["stdout", "stderr", "engine"]
SeenKind = Literal["tensor", "module", "other"]


# -- findings ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Related:
    """Another place that explains a finding; its path may be outside the analyzed file."""

    path: str
    range: Range
    message: str


@dataclass(frozen=True)
class TextEdit:
    """An edit that replaces ``range`` of the analyzed text by ``text``."""

    range: Range
    text: str


@dataclass(frozen=True)
class Fix:
    """An edit of the analyzed file that the user can apply."""

    title: str
    edits: tuple[TextEdit, ...]
    preferred: bool = False


@dataclass(frozen=True)
class Finding:
    """A result to show at one range of the analyzed file.

    ``code`` is shaped like a path (``graph-break/GB0059``). ``message`` is a sentence, shown as the
    first line. ``explanation``, ``hints`` and ``context`` are Dynamo's own texts, if it has any.
    ``identity`` is equal for findings of the same problem that was reached in different ways.
    ``count`` says how often the run reached it; 0 withdraws a finding that the run reported.
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
    """Run of the finding; None if it belongs to no run. In one run, a later finding with the same
    identity replaces an earlier one, with a higher count. Findings with one identity in several
    runs are shown as one, and their counts add up.
    """
    evidence: Union[Evidence, None] = None
    """Facts behind the finding; None if it has only texts."""
    path: Union[TracePath, None] = None
    """Path on which the run found it, if the probe's own path does not have it; or the condition of
    the probe's path that it needs.
    """
    allowance: Union[Allowance, None] = None
    """Permission that might let the code do what the sandbox refused."""
    causes: tuple[BreakCause, ...] = ()
    """Causes of a graph break; several if one call leads to several breaks."""
    cost: Union[BreakCost, None] = None
    """Of a graph break; None until the run is through, and where this torch hides graphs."""
    calls: tuple[RegionCalls, ...] = ()
    """The calls of a program's regions in which it was seen; empty outside of such calls."""
    names: tuple[GuardName, ...] = ()
    """Of a guard: the names of the value that it is about; the message has the first one."""

    def to_wanted(self) -> Wanted:
        """Return a description of this finding for a request to reproduce it."""
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
        """Condition of the finding in words (``in training mode``); empty for no condition."""
        return self.path.words if self.path is not None else ""


# -- targets ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProbeInfo:
    """The probe that a target was traced with, in probe notation."""

    origin: ProbeOrigin
    inputs: str
    init: str = ""
    source: str = ""
    """Origin of the probe in words: ``get_inputs``, ``line 12``, ``example_input_array``."""
    comment: str = ""
    """Text to write after ``# fullgraph:`` to keep a probe that the engine found by trying. If the
    code raises with the user's comment, it is a probe with which the code does not raise.
    """
    same_as: str = ""
    """The target whose own call this is: of the same module, with the same inputs."""
    context: str = ""
    """Modes and settings of the call where they are not the default ones, in words:
    ``in eval mode, without gradients``."""


@dataclass(frozen=True)
class FoundProbe:
    """The result of searching for a probe by trying.

    ``settled``: this exact text was traced with it, not only an earlier version. ``comment`` is
    empty if no probe was found; then ``obstacle`` is a sentence with the reason, and ``rests_on``
    identifies the definition: as long as it is the same, the result cannot change.
    """

    target: str
    comment: str = ""
    settled: bool = False
    obstacle: str = ""
    rests_on: str = ""


@dataclass(frozen=True)
class TargetInfo:
    """A traceable target in the file; ``range`` covers its name, for lenses and squiggles."""

    name: str
    kind: TargetKind
    range: Range


@dataclass(frozen=True)
class TargetReport:
    """The result of all runs of one target with one probe; ``seconds`` is wall time.

    ``probe_number`` counts the target's probes from 0. A later report with the same number replaces
    an earlier one, when more paths were traced. A count is None if this torch does not show it.
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
    """Number of values that the engine chose because a fake tensor had none."""
    probe_number: int = 0
    coverage: Coverage | None = None
    """Coverage of the functions of the file that were traced, at least in part."""
    paths: tuple[PathReport, ...] = ()
    """Other paths that were tried."""
    called: GivenCall | None = None
    """Arguments with which other code calls the target; None if unknown or not requested."""
    uncalled: bool = False
    """True if the code that uses the target was executed without calling it."""
    region: Region | None = None
    """Region of a program that this report describes."""
    compiled: bool | None = None
    """True or False if a program ran and does or does not compile the target; otherwise None."""

    @property
    def lines(self) -> int | None:
        """Number of lines with code."""
        return self.coverage.lines if self.coverage is not None else None

    @property
    def lines_traced(self) -> int | None:
        return self.coverage.lines_traced if self.coverage is not None else None

    @property
    def untraced(self) -> tuple[int, ...]:
        """Zero-based lines that were not traced."""
        return self.coverage.untraced if self.coverage is not None else ()


def hide_unseen_counts(report: TargetReport, degraded: Iterable[Degraded]) -> TargetReport:
    """Remove the counts that this torch does not show from a report."""
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
    """Limits of one run: wall time in seconds, the run's own memory in MiB."""

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

    ``path`` is absolute if the text is on disk, otherwise only a name. ``only`` limits the targets
    by name; empty means all. ``focus`` is the zero-based line of the last edit: the nearest targets
    run first. ``roots`` are put on ``sys.path`` of the run, before the file's own folder.
    """

    request: int
    generation: str
    path: str
    text: str
    mode: Mode = "auto"
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """Targets to find but not to trace, because their earlier results are still valid."""
    real: tuple[str, ...] = ()
    """Targets that need real tensors: with the mode "auto", fake tensors are not tried for them."""
    tentative: bool = False
    """True for a tentative text: the search for inputs is short, and not remembered.
    """
    focus: int = 0
    roots: tuple[str, ...] = ()
    open_files: tuple[OpenFile, ...] = ()
    cwd: str = ""
    limits: Limits = Limits()
    jobs: int = 2
    parts: tuple[Part, ...] = ("first", "second")
    """Parts to run for each target. Without "first", targets are not reported again."""
    forecast_seconds: float = 0.0
    """Maximum wall time in seconds for all forecasts together; 0 for no limit."""
    forecast_rows: bool = True
    """True if forecasts report the effect of each change, else only possible findings."""
    path_seconds: float = 0.0
    """Maximum wall time in seconds for all alternative paths together; 0 for no limit."""
    nice: int = 0
    """Increment of the niceness for user code, applied after the imports."""
    documents: tuple[DocumentKind, ...] = ()
    """Documents to write about each run, which takes additional time."""
    save_events: bool = False
    """True if event documents include an archive that a later run can be compared with."""
    compare_events: tuple[SavedEvents, ...] = ()
    """Saved events with which the event documents compare this run."""
    wanted: Wanted | None = None
    """Finding that the part "candidates" reproduces."""
    observe: Observe | None = None
    """Instructions for the parts "cases" and "behavior"."""
    recorded: tuple[RecordedClass, ...] = ()
    """What classes of the text were called with in a recorded program."""
    methods: tuple[str, ...] = ()
    """Names of methods of module classes that are targets as well."""
    examples: tuple[ExampleKind, ...] = ("main", "docstring")
    """Kinds of examples that may be executed to observe their calls."""
    files: bool = False
    """True to report the files read, so that results can be kept until one changes."""
    client: int = 0
    """Number of the client: a request waits only for others of its own client."""
    timings: bool = False
    """True to report where the time went, in separate events."""
    calls: bool = False
    """True to report the arguments with which other code calls the targets."""
    given: tuple[GivenCalls, ...] = ()
    """Earlier calls of targets; a target with equal calls need not be traced again."""
    program: ProgramRequest = ProgramRequest()
    """Options for running the text if it is a program."""

    @property
    def may_run_programs(self) -> bool:
        """True if the request runs programs, if there are any."""
        return self.program.seconds > 0 and "first" in self.parts and not self.only


@dataclass(frozen=True)
class Reproduce:
    """Create a small script that reproduces a finding; ends with ``Reproduced`` or ``Failed``.

    ``analyze`` says how the text is executed and traced; its ``request`` and its requests for
    output other than findings are ignored. ``seconds`` limits the whole request, including
    verification. ``folder`` is an empty folder for the contents of tensors that scripts need; the
    server removes it.
    """

    request: int
    analyze: Analyze
    wanted: Wanted
    seconds: float = 30.0
    folder: str = ""


@dataclass(frozen=True)
class Compare:
    """Execute a target of an original and a changed text on the same inputs.

    It ends with ``Compared`` or ``Failed``. ``analyze`` says how to execute the original, as in
    ``Reproduce``; ``changed`` is the whole changed text. ``seconds`` is the approximate time limit.
    ``backend``: Inductor also compiles the changed target, and its first results are compared with
    eager results. ``at_random``: number of random inputs to try instead of the usual ones.
    ``covering``: the changed code must be executed, on both sides of its conditions; False if the
    comparison of another target shows that. ``last_probe``: number of the last probe with which the
    original was traced.
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
    """Stop a request's processes.

    The request still ends with exactly one ``Analyzed``, ``Reproduced`` or ``Compared``, with
    ``cancelled`` set.
    """

    request: int


@dataclass(frozen=True)
class SelfCheck:
    """Check which private names this torch has, and which features they allow."""

    request: int


@dataclass(frozen=True)
class Shutdown:
    """Kill all runs and exit. The engine does the same when the pipe closes."""


Request = Union[Analyze, Reproduce, Compare, Cancel, SelfCheck, Shutdown]


# -- events: engine to server -----------------------------------------------------------------


@dataclass(frozen=True)
class Starting:
    """First event of every engine, before it imports torch."""

    version: int
    pid: int
    python: str
    executable: str


@dataclass(frozen=True)
class Ready:
    """Event: the engine has imported torch and can serve requests."""

    torch: str
    seconds: float
    degraded: tuple[Degraded, ...] = ()
    untested: bool = False
    """True if this torch is newer than any tested one; other facts than ``degraded`` work.
    """
    sandbox: SandboxLevel = field(default_factory=SandboxLevel)
    """Protection of the machine against user code."""


@dataclass(frozen=True)
class Unusable:
    """Event: the engine cannot work in this interpreter and will exit.

    ``reason`` is one sentence, ``next_step`` what the user can do.
    """

    reason: str
    next_step: str


@dataclass(frozen=True)
class TargetsFound:
    """Event: the targets of a text, in file order; ``note`` says if a limit left some out."""

    request: int
    targets: tuple[TargetInfo, ...]
    note: str = ""


@dataclass(frozen=True)
class Importing:
    """Event: the engine executes the text's imports or its parent packages, now this module."""

    request: int
    module: str


@dataclass(frozen=True)
class TargetStarted:
    """Event: the first run of a target started; sent once per target and request."""

    request: int
    name: str


@dataclass(frozen=True)
class FindingFound:
    """Event: a finding of a run or of the text itself; sent again when its ``count`` changes."""

    request: int
    finding: Finding


@dataclass(frozen=True)
class TargetDone:
    """Event: the result of a target with one probe; also sent for targets without a probe."""

    request: int
    report: TargetReport


@dataclass(frozen=True)
class IndexWritten:
    """Event: the operator index of this torch was written to a file; a later event replaces it.

    The first may come before torch is imported. ``complete`` is false while facts are missing that
    only the running torch knows: kernels, registered operators, documentation.
    """

    path: str
    complete: bool


@dataclass(frozen=True)
class OperatorsRegistered:
    """Event: operators that the analyzed file and its imports registered."""

    request: int
    operators: tuple[Operator, ...]


@dataclass(frozen=True)
class SeenValue:
    """An expression of the analyzed text, as Dynamo saw its value during a trace.

    For a local variable, ``name`` and ``function`` (as in ``__qualname__``) are set, and ``range``
    covers the function's name. Otherwise ``range`` covers the expression.
    """

    range: Range
    kind: SeenKind
    name: str = ""
    function: str = ""


@dataclass(frozen=True)
class ValuesSeen:
    """Event: expressions that Dynamo saw, sent once per run of a target, after its findings.

    There can be thousands of values, so they are packed into one text.
    """

    request: int
    target: str
    packed: str

    @classmethod
    def from_values(cls, request: int, target: str, values: Iterable[SeenValue]) -> ValuesSeen:
        return cls(request, target, pack(tuple(values)))

    def unpack_values(self) -> tuple[SeenValue, ...]:
        """Unpack the values; an invalid text gives none."""
        return unpack_items(SeenValue, self.packed)


@dataclass(frozen=True)
class Measured:
    """Event: the times of a target's calls with one of its probes."""

    request: int
    target: str
    run: RunId
    measurement: Measurement


@dataclass(frozen=True)
class ForecastFound:
    """Event: the forecast of recompiles of a target, with all its findings, sent once per run.

    It replaces an earlier forecast of the run. ``note`` says in sentences what was left out, and
    why. ``seconds`` is the time that it took.
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
    """Last event of an analysis."""

    request: int
    generation: str
    seconds: float
    cancelled: bool = False


@dataclass(frozen=True)
class Failed:
    """Last event of a request that the engine could not process."""

    request: int
    reason: str
    next_step: str = ""


@dataclass(frozen=True)
class Restarted:
    """Event: the engine died during an analysis and repeats it; earlier events are void.

    The server creates this event for its own readers; the engine does not send it.
    """

    request: int


@dataclass(frozen=True)
class Log:
    """Event: output of user code, or messages of the engine itself, for which ``request`` is 0."""

    request: int
    stream: Stream
    text: str


@dataclass(frozen=True)
class Hook:
    """A private name of torch that the engine needs."""

    name: str
    present: bool
    purpose: str
    detail: str = ""


@dataclass(frozen=True)
class SelfChecked:
    """Response to :class:`SelfCheck`: versions, and the private names that the engine needs."""

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
"""Maximum number of characters of one text for people."""

_LONG_LINE = 1 << 17
"""Maximum size in bytes of a line whose texts are sent uncut."""

_FOR_PEOPLE = (FindingFound, ForecastFound, TargetDone, Failed)
"""Messages with texts only for people. Others must not be cut, because code reads them."""

# -- JSON lines -------------------------------------------------------------------------------


class ProtocolError(ValueError):
    """An error for a line without a valid message of this protocol."""


def encode(message: Message) -> bytes:
    """Encode a message as one JSON line, including the newline.

    Texts for people are cut if the line is long, because a text of the user's may have any length.
    """
    line = encode_line(message)
    if len(line) > _LONG_LINE and isinstance(message, _FOR_PEOPLE):
        body = {"type": type(message).__name__, **_cut_texts(to_plain(message))}
        line = _dumps(body, separators=(",", ":")).encode() + b"\n"
    return line


def cut_text(text: str, most: int = MOST_TEXT) -> str:
    """Cut a text after ``most`` characters, and append how many more it had."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text) - most:,} more characters)"


def _cut_texts(as_plain: Any) -> Any:
    if isinstance(as_plain, str):
        return cut_text(as_plain)
    if isinstance(as_plain, list):
        return [_cut_texts(item) for item in as_plain]
    if isinstance(as_plain, dict):
        return {key: _cut_texts(item) for key, item in as_plain.items()}
    return as_plain


def decode(line: bytes | str) -> Message:
    """Decode the message of one line.

    Raises:
        ProtocolError: The line is not a JSON object, names an unknown type, or lacks a field.
    """
    return typing.cast("Message", decode_one_of(MESSAGES, line))


def decode_one_of(kinds: Mapping[str, type], line: bytes | str) -> Any:
    """Decode one line as a dataclass out of ``kinds``, which are given by name.

    Raises:
        ProtocolError: The line is invalid, as for :func:`decode`.
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


def encode_line(message: Any) -> bytes:
    """Encode any dataclass as one JSON line, with the name of its type."""
    body = {"type": type(message).__name__, **as_plain(message)}
    return _dumps(body, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


MESSAGES: dict[str, type] = {
    kind.__name__: kind for kind in (*typing.get_args(Request), *typing.get_args(Event))
}
