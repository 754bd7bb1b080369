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
from .behavior import CompilationMethod as CompilationMethod
from .behavior import Fill as Fill
from .behavior import Observe as Observe
from .behavior import ObservedValue as ObservedValue
from .behavior import ProgramObserved as ProgramObserved
from .breaks import BreakCause as BreakCause
from .breaks import BreakCost as BreakCost
from .breaks import GraphCut as GraphCut
from .compilation import Compilation as Compilation
from .compilation import CompilerCheck as CompilerCheck
from .coverage import Coverage as Coverage
from .documents import DocumentKind, SavedEvents
from .documents import DocumentsWritten as DocumentsWritten
from .evidence import BackendEvidence, ForecastEvidence
from .evidence import Evidence as Evidence
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
from .numerics import NumericsVerdict as NumericsVerdict
from .operators import Operator
from .packing import pack, unpack_items
from .paths import PathReport as PathReport
from .paths import TracedPaths as TracedPaths
from .paths import TracePath as TracePath
from .places import Frame as Frame
from .places import Position as Position
from .places import Range as Range
from .places import count_equal_ends as count_equal_ends
from .places import node_range as node_range
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
"""Source of example calls that show the inputs of functions and module classes: the ``__main__``
block of a file, examples in docstrings, or tests of the workspace."""
ProbeOrigin = Literal["comment", "annotation", "convention", "harvest", "synthesis", "program"]
Status = Literal["traced", "no-probe", "failed", "timeout", "crashed", "cancelled", "skipped"]
Stream = Literal["stdout", "stderr", "engine"]
SeenKind = Literal["tensor", "module", "bool", "int", "float", "str", "other"]


# -- findings ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Related:
    """Another source location that helps to explain a finding; its file may be another one than the
    analyzed file."""

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
    ``identity`` is equal for findings of one problem, even if several calls reach it. ``count`` is
    the number of times that the problem was reached; 0 withdraws an earlier finding.
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
    """Run (a trace of one target with one set of inputs) that found it; None for a finding outside
    of runs.

    In one run, a later finding with the same identity and a higher count replaces an earlier one.
    Findings of several runs with one identity are shown as one, with the sum of their counts.
    """
    evidence: Union[Evidence, None] = None
    """Structured facts, such as the guard that failed, from which the finding was derived; None if
    it has only texts."""
    path: Union[TracePath, None] = None
    """Condition under which the finding occurs: a mode of the module, or an execution path that the
    example inputs do not take. None if the finding occurs in every call."""
    allowance: Union[Allowance, None] = None
    """Permission that the user could grant to code that the sandbox has stopped; None for other
    findings."""
    causes: tuple[BreakCause, ...] = ()
    """Code to change in order to remove a graph break; several items if one call in the analyzed
    file leads to several breaks."""
    cost: Union[BreakCost, None] = None
    """Cost of a graph break; None for other findings, before the run has ended, and if this torch
    does not show graphs."""
    calls: tuple[RegionCalls, ...] = ()
    """Calls of compiled callables in which the finding occurred, such as the first and the third,
    if a program was run."""
    names: tuple[GuardName, ...] = ()
    """Names of the guarded value that the finding is about, if there is one; the message contains
    the first name."""

    def to_wanted(self) -> Wanted:
        """Return a description of this finding for a ``Reproduce`` request, which asks for a script
        that shows the finding."""
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
            backend=evidence.backend if isinstance(evidence, BackendEvidence) else "",
        )

    @property
    def only(self) -> str:
        """Condition under which the finding occurs, in words (``in training mode``); empty without
        a condition."""
        return self.path.words if self.path is not None else ""


# -- targets ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProbeInfo:
    """The example inputs that a target (a function or module class) is traced with, as text such as
    ``f32[4, 16]``."""

    origin: ProbeOrigin
    inputs: str
    init: str = ""
    source: str = ""
    """Origin of the inputs in words, such as ``get_inputs`` or ``line 12``."""
    comment: str = ""
    """Text that the user can write after ``# fullgraph:`` to keep inputs that the engine found by
    trial calls.

    If the code raises with the inputs in the user's own comment, the text has inputs with which it
    does not.
    """
    same_as: str = ""
    """Name of another target whose trace makes the same call, and so includes this trace; empty for
    none."""
    context: str = ""
    """Modes and settings in which the call is made, if they differ from the defaults, in words:
    ``in eval mode, without gradients``."""
    unusual: str = ""
    """Reason why guessed inputs are unusual although the code accepts them, in words: ```conv2d`
    gets 3 dimensions instead of 4``."""
    shortened: str = ""
    """Description of the guessed sizes over which the code loops, and of numbers of layers, that
    were made small: ```x.shape[1]` is 4 instead of 1,024``. Empty for none."""


@dataclass(frozen=True)
class FoundProbe:
    """The result of a search by trial calls for example inputs of a target.

    ``comment`` has the found inputs as the text of a probe comment. If it is empty, the search
    failed: ``obstacle`` is a sentence with the reason, and ``rests_on`` is a digest of the
    definitions that the search used. While the digest is unchanged, a search would fail again.
    ``settled``: the current text of the file was traced with these inputs; otherwise only an
    earlier version was.
    """

    target: str
    comment: str = ""
    settled: bool = False
    obstacle: str = ""
    rests_on: str = ""
    shortened: str = ""
    """Description of the found sizes over which the code loops, and which are therefore small;
    empty for none."""


@dataclass(frozen=True)
class UncalledTarget:
    """The fact that the callers of a target were executed without calling it.

    ``reason`` is a sentence. ``may_use_real``: they may call it if they are executed again with
    real tensors.
    """

    target: str
    reason: str
    may_use_real: bool


@dataclass(frozen=True)
class TargetInfo:
    """A function, module class or call in the file that can be traced; ``range`` covers its
    name."""

    name: str
    kind: TargetKind
    range: Range


@dataclass(frozen=True)
class TargetReport:
    """The result of tracing one target (a function or module class) with one set of example inputs.

    ``seconds`` is wall time. ``probe_number`` is the number of the example inputs, from 0. A later
    report with the same number replaces an earlier one, for example after more execution paths were
    traced. A count is None if this torch does not show it.
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
    repeats: bool = False
    """True if another run would also end with the status "timeout": the target was slow by itself,
    not because other programs kept the machine busy."""
    chosen: int = 0
    """Number of values that the engine chose because the code read them from fake tensors, which do
    not have values."""
    probe_number: int = 0
    coverage: Coverage | None = None
    """Source ranges that Dynamo traced or did not trace, in the functions of the file that it
    traced at least in part."""
    paths: tuple[PathReport, ...] = ()
    """Results of tracing execution paths that the example inputs do not take, such as the module's
    other mode."""
    called: GivenCall | None = None
    """Digest of the arguments with which other code calls the target; None if unknown or not
    requested."""
    uncalled: bool = False
    """True if code that uses the target, such as a test, was executed but did not call the
    target."""
    within: str = ""
    """Name of the target whose trace includes the code of this one, which was therefore not traced
    separately; empty for a separate trace."""
    region: Region | None = None
    """Callable that a program compiled and that this report describes; None if no program was
    run."""
    compilation: Compilation | None = None
    """Result of compiling the target with AOTAutograd and Inductor; None if that was not requested
    or has not ended."""
    compiled: bool | None = None
    """True if a program that was executed compiles the target, False if it does not; None if no
    program was executed."""

    @property
    def is_inside_region(self) -> bool:
        """Whether Dynamo traced the target as a part of another compiled function, which counts its
        graphs and lines."""
        return bool(self.within) or (self.region is None and self.compiled is True)

    @property
    def needs_program(self) -> bool:
        """Whether only the run of a program can call the target."""
        return self.region is not None and not self.region.is_target

    @property
    def lines(self) -> int | None:
        """Number of lines with code in the functions that Dynamo traced at least in part; None if
        unknown."""
        return self.coverage.lines if self.coverage is not None else None

    @property
    def lines_traced(self) -> int | None:
        return self.coverage.lines_traced if self.coverage is not None else None

    @property
    def untraced(self) -> tuple[int, ...]:
        """Zero-based lines that Dynamo did not trace, in functions of the file that it traced at
        least in part."""
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
    """Limits of one request: wall time in seconds, memory of each process in MiB, numbers of
    targets and processes."""

    seconds: float = 60.0
    module_seconds: float = 60.0
    memory: int = 4096
    targets: int = 200
    processes: int = 32
    stretch: float = 1.0
    """Maximum factor by which the limits in seconds are extended if other programs keep the machine
    busy, so that a process waits for a processor."""
    file_seconds: float = 0.0
    """Maximum wall time in seconds until the first trace of a target starts; 0 for no limit. Later
    targets get the status "skipped". The limit does not apply to requests for named targets."""
    search_seconds: float = 6.0
    """Maximum processor time in seconds of the search for example inputs of one target."""


@dataclass(frozen=True)
class ProgramRequest:
    """Options for executing a user's program to observe what it compiles.

    ``seconds`` is the wall time after which the program is stopped; 0 executes none. ``arguments``
    are its command-line arguments. ``candidates`` are paths of other programs that may compile
    functions of the text, the most likely first. ``elsewhere`` are paths of files that show their
    own findings, which are not repeated at their callers in this file. ``backend`` names the
    backend that compiles the graphs; if empty, they run uncompiled. ``compiler``: without a
    backend, AOTAutograd or Inductor compiles the graphs and reports its problems.
    ``uncompiled``: targets that the program does not compile are traced as well.
    """

    seconds: float = 0.0
    candidates: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    backend: str = ""
    compiler: CompilerCheck = "off"
    uncompiled: bool = False
    further_calls: int = 0
    """Number of calls that the engine makes of each compiled function after the program has ended,
    with other sizes and numbers. If it is not 0, the engine also reports the values that the
    program computes."""
    observed_modules: tuple[str, ...] = ()
    """Names of module classes whose results are recorded, even if this version of the program
    compiles only parts of the modules."""


@dataclass(frozen=True)
class SharedImports:
    """Modules to import in one process for several files.

    ``modules`` are absolute names. ``root`` is the folder in which Python searches for the files'
    own modules.
    """

    modules: tuple[str, ...] = ()
    root: str = ""


@dataclass(frozen=True)
class Analyze:
    """Request: trace the targets (functions and module classes) of one text.

    Findings are sent until the last event, ``Analyzed`` or ``Failed``. ``path`` is absolute if the
    text is on disk, otherwise only a name. ``only`` limits the targets by name; empty means all.
    ``focus`` is the zero-based line of the last edit: the targets nearest to it are traced first.
    ``roots`` are put on ``sys.path``, before the file's own folder.
    """

    request: int
    generation: str
    path: str
    text: str
    mode: Mode = "auto"
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """Names of targets to find but not to trace, because their earlier results are still valid."""
    nested: bool = True
    """False to trace a target with guessed inputs only if the traces of its callers in the file do
    not include it."""
    real: tuple[str, ...] = ()
    """Names of targets to trace with real tensors at once. Other targets are traced with fake
    tensors first, in mode "auto"."""
    tentative: bool = False
    """True for a temporary text, such as the file with a fix to test. The search for example inputs
    is short then, and its result is not stored."""
    focus: int = 0
    roots: tuple[str, ...] = ()
    open_files: tuple[OpenFile, ...] = ()
    cwd: str = ""
    limits: Limits = Limits()
    jobs: int = 2
    keep: bool = True
    """True to keep a process after the imports of the file for later versions of the file."""
    shared_imports: SharedImports = SharedImports()
    """Modules that this file and other files import. Without ``keep``, one process imports them and
    is forked for each request with equal shared imports."""
    parts: tuple[Part, ...] = ("first", "second")
    """Purposes for which each target is run, such as "first" (trace it with the example inputs).
    Without "first", the server keeps its earlier reports."""
    forecast_seconds: float = 0.0
    """Maximum wall time in seconds for forecasting recompiles of all targets; 0 for no limit."""
    forecast_rows: bool = True
    """True to report the effect of each changed input in forecasts of recompiles, False to report
    only findings."""
    path_seconds: float = 0.0
    """Maximum wall time in seconds for tracing alternative execution paths of all targets; 0 for no
    limit."""
    compiler: CompilerCheck = "off"
    """Compiler for the part "backend", which compiles each target after its trace."""
    compiler_seconds: float = 60.0
    """Maximum wall time in seconds of the part "backend" for one target."""
    nice: int = 0
    """Amount by which the niceness of processes with user code is raised, which lowers their
    priority."""
    documents: tuple[DocumentKind, ...] = ()
    """Kinds of documents, such as captured graphs, to write about each trace; this takes additional
    time."""
    save_events: bool = False
    """True to add the ShapeEnv events as JSON to the documents, so that a later run can be compared
    with them."""
    compare_events: tuple[SavedEvents, ...] = ()
    """ShapeEnv events of an earlier run. The documents describe how the events of this run differ
    from them."""
    wanted: Wanted | None = None
    """Finding to reproduce, for the part "candidates", which writes programs that may show the
    finding."""
    observe: Observe | None = None
    """Instructions for the parts "cases" and "behavior", which call two versions of a target with
    equal inputs to compare them."""
    recorded: tuple[RecordedClass, ...] = ()
    """Module classes of the text, with calls that ``fullgraph record`` recorded in a user's
    program, as example inputs."""
    methods: tuple[str, ...] = ()
    """Names of methods to trace as targets in all module classes, in addition to ``forward``."""
    examples: tuple[ExampleKind, ...] = ("main", "docstring")
    """Kinds of example code that the engine may execute to see with which inputs it calls
    targets."""
    callers: tuple[str, ...] = ()
    """Paths of programs that import the text. The engine may execute them for the same purpose."""
    files: bool = False
    """True to report the files that user code read, so that the server can reuse the results until
    one of them changes."""
    client: int = 0
    """Number of the client that sent the request; requests of other clients do not delay it."""
    timings: bool = False
    """True to send ``Timings`` events with the time that each phase took."""
    calls: bool = False
    """True to report digests of the arguments that other code passes to the targets, so that equal
    calls are recognized later."""
    given: tuple[GivenCalls, ...] = ()
    """Digests of arguments in an earlier request. A target need not be traced again if its callers
    still pass equal arguments."""
    program: ProgramRequest = ProgramRequest()
    """Options for executing the text as a program, in case it is one."""

    @property
    def may_run_programs(self) -> bool:
        """Whether the engine may execute the text, or another file, as a program."""
        return self.program.seconds > 0 and "first" in self.parts and not self.only


@dataclass(frozen=True)
class Reproduce:
    """Request: create a small script that shows a finding; ends with ``Reproduced`` or ``Failed``.

    ``wanted`` is the finding. ``analyze`` says how the text is executed and traced; its request
    number, parts, target names and documents are ignored. ``seconds`` limits the whole request,
    including verification of the script. ``folder`` is an empty folder for files with tensor
    contents that the script loads; the server removes it.
    """

    request: int
    analyze: Analyze
    wanted: Wanted
    seconds: float = 30.0
    folder: str = ""


@dataclass(frozen=True)
class Compare:
    """Request: compare the behavior of two versions of a text, by calling one target in both with
    equal inputs.

    It ends with ``Compared`` or ``Failed``. ``analyze`` says how to execute the original, as in
    ``Reproduce``; ``changed`` is the whole text of the other version. ``seconds`` is the
    approximate time limit. ``at_random``: number of random inputs to use; 0 to choose inputs
    systematically. ``covering``: the outcome is "same" only if the inputs execute all changed
    lines, with both outcomes of each condition. ``last_probe``: number of the last example inputs
    of the target to use.

    With ``compiled_by``, the changed target is compiled instead, and some of its results and
    gradients are compared with eager calls. If they differ, the original is compiled, too, and the
    outcome is "differs" only if its results agree with eager calls. ``cases`` are the calls that an
    earlier comparison has chosen, ``Compared.packed_cases``.
    """

    request: int
    analyze: Analyze
    target: str
    changed: str
    seconds: float = 1.5
    compiled_by: Union[CompilationMethod, None] = None
    cases: tuple[str, ...] = ()
    at_random: int = 0
    covering: bool = True
    last_probe: int = 0


@dataclass(frozen=True)
class Cancel:
    """Request: end another request, and kill its processes.

    The canceled request still ends with exactly one ``Analyzed``, ``Reproduced`` or ``Compared``,
    with ``cancelled`` set.
    """

    request: int


@dataclass(frozen=True)
class Prioritize:
    """Request: in an ``Analyze`` request, trace the targets nearest to some lines first, because
    the user looks at these lines.

    ``first`` and ``last`` are zero-based. Traces in progress continue. The engine does not answer.
    """

    request: int
    first: int
    last: int


@dataclass(frozen=True)
class SelfCheck:
    """Request: check which private names of torch exist that the engine uses, and which of its
    features work."""

    request: int


@dataclass(frozen=True)
class Shutdown:
    """Request: kill all processes and exit.

    The engine also does this when the pipe to the server closes.
    """


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
    """True if this torch is newer than any tested release. The engine can still show all facts
    about a trace that ``degraded`` does not list."""
    sandbox: SandboxLevel = field(default_factory=SandboxLevel)
    """Sandbox layers that protect the machine against user code, and which of them are active."""


@dataclass(frozen=True)
class Unusable:
    """Event: the engine cannot work in this Python interpreter and will exit.

    ``reason`` is one sentence, ``next_step`` what the user can do.
    """

    reason: str
    next_step: str


@dataclass(frozen=True)
class TargetsFound:
    """Event: the functions, module classes and calls in a text that can be traced, in file order.

    ``note`` is a sentence if a limit left some out.
    """

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
    """Event: tracing a target (a function or module class) has begun; sent once per request and
    target."""

    request: int
    name: str


@dataclass(frozen=True)
class FindingFound:
    """Event: a diagnostic about a traced target, or about the text itself; sent again when its
    ``count`` changes."""

    request: int
    finding: Finding


@dataclass(frozen=True)
class TargetDone:
    """Event: the result of tracing a target with one set of example inputs; also sent for targets
    without inputs."""

    request: int
    report: TargetReport


@dataclass(frozen=True)
class RunLost:
    """Event: a run for more findings, after the first run of a target, was lost before it
    completed. Some findings may be missing."""

    request: int
    run: RunId


@dataclass(frozen=True)
class IndexWritten:
    """Event: an index of the installed torch's operators was written to a file; a later event
    replaces it.

    The first may come before torch is imported. ``complete`` is false while facts are missing that
    only the running torch knows: kernels, registered operators, documentation.
    """

    path: str
    complete: bool


@dataclass(frozen=True)
class OperatorsRegistered:
    """Event: custom operators that the analyzed file and its imports have registered with torch."""

    request: int
    operators: tuple[Operator, ...]


@dataclass(frozen=True)
class SeenValue:
    """An expression or local variable of the analyzed text, with the kind of value that Dynamo saw
    there during a trace.

    For a local variable, ``name`` and ``function`` (as in ``__qualname__``) are set, and ``range``
    covers the function's name. Otherwise ``range`` covers the expression.
    """

    range: Range
    kind: SeenKind
    name: str = ""
    function: str = ""


@dataclass(frozen=True)
class ValuesSeen:
    """Event: kinds of values that Dynamo saw in the text, sent once per trace of a target, after
    its findings.

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
    """Event: how long calls of a target take, with one set of example inputs."""

    request: int
    target: str
    run: RunId
    measurement: Measurement


@dataclass(frozen=True)
class NumericsJudged:
    """Event: whether Inductor's code computes the right numbers for calls of a target, with one set
    of example inputs."""

    request: int
    target: str
    run: RunId
    verdict: NumericsVerdict


@dataclass(frozen=True)
class ForecastFound:
    """Event: the forecast of recompiles of a target in later calls, with all findings, sent once
    per run.

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
    """Last event of a request that the engine could not process, with the reason."""

    request: int
    reason: str
    next_step: str = ""


@dataclass(frozen=True)
class Restarted:
    """Event: the engine crashed during an ``Analyze`` request and repeats it, so earlier events of
    the request are void.

    The server creates this event for its own readers; the engine does not send it.
    """

    request: int


@dataclass(frozen=True)
class Log:
    """Event: output of user code in a request, or a message of the engine itself, with 0 as
    ``request``."""

    request: int
    stream: Stream
    text: str


@dataclass(frozen=True)
class Hook:
    """A private name of torch that the engine uses: whether this torch has it, and for which
    feature it is used."""

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
    RunLost,
    CalledAgain,
    OperatorsRegistered,
    ValuesSeen,
    DocumentsWritten,
    ShapesFound,
    GuardsFound,
    TraceStepsFound,
    ForecastFound,
    Measured,
    NumericsJudged,
    FilesRead,
    Timings,
    ReproProgress,
    ReproFound,
    Reproduced,
    Compared,
    ProgramObserved,
    Analyzed,
    Failed,
    Restarted,
    Log,
    SelfChecked,
]
Message = Union[Request, Event]


MOST_TEXT = 8_000
"""Maximum number of characters of a text for people, such as a finding's message; longer ones are
cut."""

_LONG_LINE = 1 << 17
"""Size in bytes of an encoded message above which texts for people in it are cut."""

_FOR_PEOPLE = (FindingFound, ForecastFound, TargetDone, Failed)
"""Types of messages whose texts only people read, so that long texts can be cut. Code reads the
texts of other messages."""

# -- JSON lines -------------------------------------------------------------------------------


class ProtocolError(ValueError):
    """Raised for a line that does not contain a valid message of this protocol."""


def encode(message: Message) -> bytes:
    """Return a message as one JSON line, including the newline.

    If the line is very long, texts in messages for people are cut. They may contain text of the
    user of any length.
    """
    line = encode_line(message)
    if len(line) > _LONG_LINE and isinstance(message, _FOR_PEOPLE):
        body = {"type": type(message).__name__, **_cut_texts(to_plain(message))}
        line = _dumps(body, separators=(",", ":")).encode() + b"\n"
    return line


def cut_text(text: str, most: int = MOST_TEXT) -> str:
    """Return a text cut after ``most`` characters, with a note on the number of missing characters.
    A shorter text is returned unchanged."""
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
    """Decode one line into the message that it contains.

    Raises:
        ProtocolError: The line is not a JSON object, names an unknown type, or lacks a field.
    """
    return typing.cast("Message", decode_one_of(MESSAGES, line))


def decode_one_of(kinds: Mapping[str, type], line: bytes | str) -> Any:
    """Decode one JSON line as an instance of the dataclass that its ``"type"`` names.

    ``kinds`` maps these names to dataclasses.

    Raises:
        ProtocolError: The line is not a JSON object, names an unknown type, or lacks a field.
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
