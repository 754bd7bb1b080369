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
"""Source of example calls from which inputs are taken: the ``__main__`` block of a file, examples
in docstrings, or tests of the workspace."""
ProbeOrigin = Literal["comment", "annotation", "convention", "harvest", "synthesis", "program"]
Status = Literal["traced", "no-probe", "failed", "timeout", "crashed", "cancelled", "skipped"]
Stream = Literal["stdout", "stderr", "engine"]
SeenKind = Literal["tensor", "module", "other"]


# -- findings ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Related:
    """Another source location that explains a finding; its path may be outside the analyzed
    file."""

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
    """An edit of the analyzed file that the user can apply to remove the cause of a finding."""

    title: str
    edits: tuple[TextEdit, ...]
    preferred: bool = False


@dataclass(frozen=True)
class Finding:
    """A diagnostic at one range of the analyzed file, such as a graph break.

    ``code`` is shaped like a path (``graph-break/GB0059``). ``message`` is a sentence, shown as the
    first line. ``explanation``, ``hints`` and ``context`` are Dynamo's own texts, if it has any.
    ``identity`` is equal for findings of one problem, even if runs reach it in different ways.
    ``count`` is the number of times that the run reached the problem; 0 withdraws an earlier
    finding.
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
    """Run that found it; None for a finding outside of runs.

    In one run, a later finding with the same identity and a higher count replaces an earlier one.
    Findings of several runs with one identity are shown as one, with the sum of their counts.
    """
    evidence: Union[Evidence, None] = None
    """Structured facts from which the finding was derived; None if it has only texts."""
    path: Union[TracePath, None] = None
    """Execution path on which the finding occurs, if it does not occur with the example inputs as
    given. Otherwise the condition that it needs, such as a mode of the module; None without a
    condition.
    """
    allowance: Union[Allowance, None] = None
    """Permission that the user could grant so that the sandbox does not refuse the code's
    action."""
    causes: tuple[BreakCause, ...] = ()
    """Causes of a graph break; several if one call in the analyzed file leads to several breaks."""
    cost: Union[BreakCost, None] = None
    """Cost of a graph break; None for other findings, until the run ends, and if this torch hides
    graphs."""
    calls: tuple[RegionCalls, ...] = ()
    """Numbers of the calls of a program's compiled callables in which the finding occurred."""
    names: tuple[GuardName, ...] = ()
    """Names of the value that a guard finding is about; the message contains the first one."""

    def to_wanted(self) -> Wanted:
        """Describe this finding for a ``Reproduce`` request, which creates a script that
        shows it."""
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
        """Condition under which the finding occurs, in words (``in training mode``); empty without
        a condition."""
        return self.path.words if self.path is not None else ""


# -- targets ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProbeInfo:
    """The probe of a target: the inputs that it is traced with, as text such as ``f32[4, 16]``."""

    origin: ProbeOrigin
    inputs: str
    init: str = ""
    source: str = ""
    """Place in the code that the inputs come from, in words: ``get_inputs``, ``line 12``."""
    comment: str = ""
    """Text that the user can write after ``# fullgraph:`` to keep inputs that the engine found by
    trying.

    If the code raises with the inputs in the user's own comment, it contains inputs for which it
    does not raise.
    """
    same_as: str = ""
    """Name of another target that makes the same call: of the same module, with the same inputs."""
    context: str = ""
    """Modes and settings of the call that differ from the defaults, in words: ``in eval mode,
    without gradients``."""
    unusual: str = ""
    """Why guessed inputs are unusual although the code accepts them, in words: ```conv2d` gets 3
    dimensions instead of 4``."""
    shortened: str = ""
    """Sizes of guessed inputs that are smaller than usual because the code loops over them, in
    words: ```x.shape[1]` is 4 instead of 1,024``."""


@dataclass(frozen=True)
class FoundProbe:
    """The result of a search by trial for inputs with which a target can be called.

    ``comment`` is the found inputs as the text of a probe comment; empty if none were found. Then
    ``obstacle`` is a sentence with the reason, and ``rests_on`` identifies the target's definition:
    while it is unchanged, a search would fail again. ``settled``: the current text was traced with
    the inputs, not only an earlier version.
    """

    target: str
    comment: str = ""
    settled: bool = False
    obstacle: str = ""
    rests_on: str = ""
    shortened: str = ""
    """``shortened`` of the found inputs' ``ProbeInfo``."""


@dataclass(frozen=True)
class TargetInfo:
    """A target (module, function or call that the engine can trace); ``range`` covers its name in
    the file."""

    name: str
    kind: TargetKind
    range: Range


@dataclass(frozen=True)
class TargetReport:
    """The result of all runs of one target with one set of example inputs; ``seconds`` is wall
    time.

    ``probe_number`` is the number of the example inputs, from 0. A later report with the same
    number replaces an earlier one, for example after more execution paths were traced. A count is
    None if this torch does not show it.
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
    """Number of values that the program read from fake tensors without values, so that the engine
    chose them."""
    probe_number: int = 0
    coverage: Coverage | None = None
    """Trace coverage of the functions of the file that Dynamo traced, at least in part."""
    paths: tuple[PathReport, ...] = ()
    """Results of tracing execution paths that the example inputs do not take."""
    called: GivenCall | None = None
    """Arguments with which other code calls the target; None if unknown or not requested."""
    uncalled: bool = False
    """True if the code that uses the target was executed, for example a test, but did not
    call it."""
    region: Region | None = None
    """Callable compiled by a program that this report describes; None if no program was run."""
    compiled: bool | None = None
    """True if a program that ran compiles the target, False if it does not; None without such a
    run."""

    @property
    def lines(self) -> int | None:
        """Number of lines with code in the target's functions; None if unknown."""
        return self.coverage.lines if self.coverage is not None else None

    @property
    def lines_traced(self) -> int | None:
        return self.coverage.lines_traced if self.coverage is not None else None

    @property
    def untraced(self) -> tuple[int, ...]:
        """Zero-based lines of the target's functions that were not traced."""
        return self.coverage.untraced if self.coverage is not None else ()


def hide_unseen_counts(report: TargetReport, degraded: Iterable[Degraded]) -> TargetReport:
    """Return the report with None for each count that the installed torch cannot show."""
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
    """Limits of one run: wall time in seconds, the run's own memory in MiB, numbers of targets and
    processes."""

    seconds: float = 60.0
    module_seconds: float = 60.0
    memory: int = 4096
    targets: int = 200
    processes: int = 32
    stretch: float = 1.0
    """Maximum factor by which ``seconds`` and ``module_seconds`` grow while a process waits for a
    processor, because other programs keep the machine busy."""
    file_seconds: float = 0.0
    """Maximum wall time in seconds until the first run of a target starts; 0 for no limit. Later
    targets get the status "skipped". The limit does not apply to requests for named targets."""


@dataclass(frozen=True)
class ProgramRequest:
    """Options for running a user's program to observe what it compiles.

    ``seconds`` is the wall time after which the run is stopped; 0 runs no program. ``arguments``
    are the command-line arguments of the program. ``candidates`` are paths of other programs that
    may compile functions of the text, the most likely first. ``elsewhere`` are paths of files that
    show their own findings, which are not repeated at their callers in this file. ``backend`` names
    the backend that compiles the graphs; if empty, they run uncompiled. ``uncompiled``: targets
    that the program does not compile are traced as well.
    """

    seconds: float = 0.0
    candidates: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    backend: str = ""
    uncompiled: bool = False


@dataclass(frozen=True)
class Analyze:
    """Request: trace the targets of one text. Findings are sent until the last event, ``Analyzed``
    or ``Failed``.

    ``path`` is absolute if the text is on disk, otherwise only a name. ``only`` limits the targets
    by name; empty means all. ``focus`` is the zero-based line of the last edit: the targets nearest
    to it run first. ``roots`` are put on ``sys.path`` of the run, before the file's own folder.
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
    """Targets for which fake tensors are not tried: they are traced with real tensors even in mode
    "auto"."""
    tentative: bool = False
    """True for a text with an edit on trial: the search for inputs is short, and its result is not
    stored."""
    focus: int = 0
    roots: tuple[str, ...] = ()
    open_files: tuple[OpenFile, ...] = ()
    cwd: str = ""
    limits: Limits = Limits()
    jobs: int = 2
    parts: tuple[Part, ...] = ("first", "second")
    """Purposes for which each target is run. Without "first", targets are not reported again."""
    forecast_seconds: float = 0.0
    """Maximum wall time in seconds for forecasting recompiles of all targets; 0 for no limit."""
    forecast_rows: bool = True
    """True if forecasts of recompiles report the effect of each changed input, False for findings
    only."""
    path_seconds: float = 0.0
    """Maximum wall time in seconds for tracing alternative execution paths of all targets; 0 for no
    limit."""
    nice: int = 0
    """Amount by which the process's niceness is raised for user code, after the imports; lowers its
    priority."""
    documents: tuple[DocumentKind, ...] = ()
    """Kinds of documents, such as captured graphs, to write about each run; this takes additional
    time."""
    save_events: bool = False
    """True if documents about ShapeEnv events include JSON with which a later run can be
    compared."""
    compare_events: tuple[SavedEvents, ...] = ()
    """ShapeEnv events of an earlier run with which the documents compare this run."""
    wanted: Wanted | None = None
    """Finding that runs of the part "candidates" try to reproduce."""
    observe: Observe | None = None
    """Instructions for runs of the parts "cases" and "behavior", which compare two versions of a
    target."""
    recorded: tuple[RecordedClass, ...] = ()
    """Module classes of the text with the calls that ``fullgraph record`` recorded in a user's
    program."""
    methods: tuple[str, ...] = ()
    """Names of methods of module classes to trace as targets, in addition to ``forward``."""
    examples: tuple[ExampleKind, ...] = ("main", "docstring")
    """Kinds of example code that the engine may execute to observe the inputs of its calls."""
    files: bool = False
    """True to report the files that the request read, so that results can be reused until one
    changes."""
    client: int = 0
    """Number of the client: a request waits only for earlier requests of the same client."""
    timings: bool = False
    """True to send ``Timings`` events with the time that each phase took."""
    calls: bool = False
    """True to report the arguments that other code passes to the targets."""
    given: tuple[GivenCalls, ...] = ()
    """Calls of targets in an earlier request; a target that gets equal calls need not be traced
    again."""
    program: ProgramRequest = ProgramRequest()
    """Options for running the text as a program, if it has a ``__main__`` block or similar code."""

    @property
    def may_run_programs(self) -> bool:
        """True if the request allows the engine to run the text, or another file, as a program."""
        return self.program.seconds > 0 and "first" in self.parts and not self.only


@dataclass(frozen=True)
class Reproduce:
    """Request: create a small script that reproduces a finding; ends with ``Reproduced`` or
    ``Failed``.

    ``analyze`` says how the text is executed and traced; its ``request`` and its requests for
    output other than findings are ignored. ``seconds`` limits the whole request, including
    verification. ``folder`` is an empty folder for files with the contents of tensors that the
    script loads; the server removes it.
    """

    request: int
    analyze: Analyze
    wanted: Wanted
    seconds: float = 30.0
    folder: str = ""


@dataclass(frozen=True)
class Compare:
    """Request: compare the behavior of an original and a changed text, by calling a target of both
    with equal inputs.

    It ends with ``Compared`` or ``Failed``. ``analyze`` says how to execute the original, as in
    ``Reproduce``; ``changed`` is the whole changed text. ``seconds`` is the approximate time limit.
    ``backend``: Inductor also compiles the changed target, and its first results are compared with
    eager results. ``at_random``: number of random inputs to try instead of the usual ones.
    ``covering``: the inputs must execute the changed code, on both sides of its conditions; False
    if the comparison of another target shows that. ``last_probe``: number of the last example
    inputs with which the original was traced.
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
    """Request: stop the processes of another request.

    The cancelled request still ends with exactly one ``Analyzed``, ``Reproduced`` or ``Compared``,
    with ``cancelled`` set.
    """

    request: int


@dataclass(frozen=True)
class Prioritize:
    """Request: trace the targets of another ``Analyze`` request that are nearest to some lines
    first, because the user looks at these lines.

    ``first`` and ``last`` are zero-based. Runs in progress continue. There is no answer.
    """

    request: int
    first: int
    last: int


@dataclass(frozen=True)
class SelfCheck:
    """Request: check which private names the installed torch has, and which features of the engine
    work."""

    request: int


@dataclass(frozen=True)
class Shutdown:
    """Request: kill all runs and exit. The engine does the same when the pipe to the server
    closes."""


Request = Union[Analyze, Reproduce, Compare, Cancel, Prioritize, SelfCheck, Shutdown]


# -- events: engine to server -----------------------------------------------------------------


@dataclass(frozen=True)
class Starting:
    """Event: the engine has started but not yet imported torch; the first event of every engine
    process."""

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
    """True if this torch is newer than any tested release; facts outside ``degraded`` work."""
    sandbox: SandboxLevel = field(default_factory=SandboxLevel)
    """State of the sandbox layers that protect the machine against user code."""


@dataclass(frozen=True)
class Unusable:
    """Event: the engine cannot work in this Python interpreter and will exit.

    ``reason`` is one sentence, ``next_step`` what the user can do.
    """

    reason: str
    next_step: str


@dataclass(frozen=True)
class TargetsFound:
    """Event: the targets found in a text, in file order; ``note`` says if a limit left some out."""

    request: int
    targets: tuple[TargetInfo, ...]
    note: str = ""


@dataclass(frozen=True)
class Importing:
    """Event: the engine is executing the imports of the text, or its parent packages; ``module`` is
    imported now."""

    request: int
    module: str


@dataclass(frozen=True)
class TargetStarted:
    """Event: the engine began the first run of a target (a traced function, module or call); sent
    once per request."""

    request: int
    name: str


@dataclass(frozen=True)
class FindingFound:
    """Event: a finding of a run, or about the text itself; sent again when its ``count``
    changes."""

    request: int
    finding: Finding


@dataclass(frozen=True)
class TargetDone:
    """Event: the result of a target with one set of example inputs; also sent for targets without
    inputs."""

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
    """Event: custom operators that the analyzed file and its imports registered with torch."""

    request: int
    operators: tuple[Operator, ...]


@dataclass(frozen=True)
class SeenValue:
    """An expression of the analyzed text with the kind of value that Dynamo saw there during a
    trace.

    For a local variable, ``name`` and ``function`` (as in ``__qualname__``) are set, and ``range``
    covers the function's name. Otherwise ``range`` covers the expression.
    """

    range: Range
    kind: SeenKind
    name: str = ""
    function: str = ""


@dataclass(frozen=True)
class ValuesSeen:
    """Event: kinds of values that Dynamo saw in the text, sent once per run of a target, after its
    findings.

    There can be thousands of values, so they are packed into one text.
    """

    request: int
    target: str
    packed: str

    @classmethod
    def from_values(cls, request: int, target: str, values: Iterable[SeenValue]) -> ValuesSeen:
        return cls(request, target, pack(tuple(values)))

    def unpack_values(self) -> tuple[SeenValue, ...]:
        """Decode the values from ``packed``; empty if the text is invalid."""
        return unpack_items(SeenValue, self.packed)


@dataclass(frozen=True)
class Measured:
    """Event: the measured times of a target's calls with one set of example inputs."""

    request: int
    target: str
    run: RunId
    measurement: Measurement


@dataclass(frozen=True)
class ForecastFound:
    """Event: the forecast of recompiles of a target in later calls, with all its findings, sent
    once per run.

    It replaces an earlier forecast of the run. ``note`` says in sentences what was left out, and
    why. ``seconds`` is the wall time of the forecast.
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
    """Last event of an ``Analyze`` request."""

    request: int
    generation: str
    seconds: float
    cancelled: bool = False
    cpu: Union[float, None] = None
    """Processor time in seconds that the processes of the request used; None if the system does not
    measure it."""


@dataclass(frozen=True)
class Failed:
    """Last event of a request that the engine could not process."""

    request: int
    reason: str
    next_step: str = ""


@dataclass(frozen=True)
class Restarted:
    """Event: the engine died during an analysis and repeats it, so earlier events of the request
    are void.

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
    """A private name of torch that the engine needs: whether this torch has it, and what for."""

    name: str
    present: bool
    purpose: str
    detail: str = ""


@dataclass(frozen=True)
class SelfChecked:
    """Response to :class:`SelfCheck`: versions, and the private names of torch that the engine
    needs."""

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
"""Maximum number of characters of one text that only people read, such as a message."""

_LONG_LINE = 1 << 17
"""Maximum size in bytes of an encoded message for which no texts are cut."""

_FOR_PEOPLE = (FindingFound, ForecastFound, TargetDone, Failed)
"""Types of messages whose texts only people read. Texts of other messages must not be cut, because
code reads them."""

# -- JSON lines -------------------------------------------------------------------------------


class ProtocolError(ValueError):
    """Raised for a line that does not contain a valid message of this protocol."""


def encode(message: Message) -> bytes:
    """Encode a message as one JSON line, including the newline.

    If the line is long, texts in messages for people are cut, because they may contain text of the
    user of any length.
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
    """Decode one JSON line as an instance of the dataclass that its ``"type"`` names, out of
    ``kinds``.

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
    """Encode any dataclass as one JSON line, with the name of its type under ``"type"``."""
    body = {"type": type(message).__name__, **as_plain(message)}
    return _dumps(body, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


MESSAGES: dict[str, type] = {
    kind.__name__: kind for kind in (*typing.get_args(Request), *typing.get_args(Event))
}
