"""Messages between the parent process and its module processes and runs.

Messages to the parent are lines. Events of the protocol are unchanged; messages of this module have
the prefix ``!``. They are JSON, never pickle, because user code may have written them and the
parent must not execute them. Messages from the parent are socket packets, with the descriptors for
the process to fork; processes that were not forked receive lines instead.
"""

from __future__ import annotations

import json
import os
import typing
from dataclasses import dataclass
from typing import Any, Literal, Union

from .. import protocol
from ..protocol import (
    Analyze,
    BehaviorOutcome,
    Compare,
    Event,
    FoundProbe,
    GivenCall,
    Mode,
    Part,
    ProbeInfo,
    Range,
    Reproduce,
    TargetInfo,
    TargetReport,
    TracedPaths,
)
from ..protocol.behavior import Judged
from ..protocol.files import FileState
from ..protocol.regions import Lack, ProgramEnd
from ..protocol.timings import PhaseTime

_write, _dumps, _loads = os.write, json.dumps, json.loads
_INTERNAL = b"!"

Stage = Literal["start", "module", "run"]
"""Stage of a process: starting, executing the module's statements, or one run."""
_PACKET = 1 << 16


def starts_programs(request: Analyze) -> bool:
    """Whether a run of a request may start the compilers of a backend."""
    return "measure" in request.parts or bool(request.observe and request.observe.backend)


# -- upwards ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlannedRun:
    """A probe of a target that can be run; ``target`` and ``probe`` are indices in the module
    process.

    ``waits``: whether an earlier run of the target decides if this one is needed. ``after`` are
    targets whose first runs should end before. ``shared`` is the number of the enclosing run that
    shows its arguments, or None without a shareable one.
    """

    target: int
    probe: int
    info: TargetInfo
    body: Range
    probe_info: ProbeInfo
    waits: bool = False
    after: tuple[int, ...] = ()
    shared: Union[int, None] = None

    @property
    def at(self) -> tuple[int, int]:
        """Indices of the target and the probe."""
        return self.target, self.probe


@dataclass(frozen=True)
class RunsPlanned:
    """The module was executed and these runs can be launched.

    ``late`` is the index of the statement that exceeded the time limit, if any.
    """

    runs: tuple[PlannedRun, ...]
    late: int | None = None


@dataclass(frozen=True)
class StageBegun:
    """The process begins a stage that may take this many seconds."""

    stage: Stage
    seconds: float


@dataclass(frozen=True)
class TextUnparsable:
    """The text has a syntax error; nothing was executed."""

    reason: str


@dataclass(frozen=True)
class PreambleReady:
    """The sender executed the imports, the first ``lines`` lines, and stays as a preamble."""

    lines: int
    files: tuple[FileState, ...]


@dataclass(frozen=True)
class PreambleStale:
    """A generation found that its text does not begin like its preamble, or a preamble is
    outdated."""


@dataclass(frozen=True)
class LateImports:
    """The parent packages of a generation's text imported these modules after the text, in
    ``seconds``."""

    names: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class ChildForked:
    """The sender is the child that the command ``number`` requested.

    ``pid`` comes from the kernel, because user code could put any pid into the message.
    """

    number: int
    pid: int = 0


@dataclass(frozen=True)
class ForkFailed:
    """The system lacked resources for the child that ``number`` requested; ``error`` is an
    errno."""

    number: int
    error: int


@dataclass(frozen=True)
class ChildExited:
    """A child ended; ``code`` is negative for a signal, None if user code collected the status."""

    number: int
    code: int | None


@dataclass(frozen=True)
class SnapshotTaken:
    """An enclosing run left a snapshot at the call of this target and probe.

    The snapshot forks the runs of this probe; both are -1 if it serves none. ``source`` describes
    the call for the user.
    """

    target: int
    probe: int
    call: GivenCall | None = None
    source: str = ""


@dataclass(frozen=True)
class RunDone:
    """The result of a run.

    ``further`` is the number of waiting runs to start. ``raised``: fake tensors raised, so
    real ones are needed. ``known`` is the state that a run of the part "paths" starts from, empty
    if it would find nothing. ``unfound`` is the search that failed.
    """

    report: TargetReport
    needs_real: str | None
    further: int = 0
    raised: bool = False
    known: str = ""
    paths: Union[TracedPaths, None] = None
    unfound: Union[FoundProbe, None] = None


@dataclass(frozen=True)
class ProgramDone:
    """The end of a program's run.

    ``ran`` is false for a text without a program. ``called`` counts the called regions. ``note``
    says how the run differs from running the program directly.
    """

    ran: bool
    refused: str = ""
    """Reason why the program cannot run as requested; empty if it can."""
    how: ProgramEnd = "finished"
    called: int = 0
    note: str = ""
    lacks: Lack = ""
    """Resource that ran out and that fake tensors do not need."""


@dataclass(frozen=True)
class ProgramShows:
    """A result of a program's run for the file ``path``; ``event`` is an encoded event of the
    protocol.

    ``deeper`` lists workspace files with inner frames of the same finding. The finding is dropped
    here if one of them shows its own findings.
    """

    path: str
    event: str
    deeper: tuple[str, ...] = ()


@dataclass(frozen=True)
class CandidatesMade:
    """Programs that may reproduce a finding, packed by ``repro.candidate``, or the reason for
    none."""

    packed: str = ""
    reason: str = ""


@dataclass(frozen=True)
class CasesChosen:
    """Test cases of one probe for comparing two texts, packed by ``behavior``, or the reason for
    none."""

    probe: int
    packed: str = ""
    reason: str = ""


@dataclass(frozen=True)
class BackendTried:
    """The result of compiling the changed target with a backend, for one probe."""

    outcome: BehaviorOutcome
    reason: str = ""


@dataclass(frozen=True)
class PhasesTaken:
    """The timed phases of a module process until its runs were planned."""

    phases: tuple[PhaseTime, ...]


@dataclass(frozen=True)
class OperatorCalls:
    """Operator results for fake tensors that a run computed, packed by
    ``pipeline.operator_calls``."""

    packed: str


@dataclass(frozen=True)
class BranchBegun:
    """A run that cannot fork announces that it only answers this question and then ends."""

    name: str
    seconds: float


@dataclass(frozen=True)
class BranchAnswer:
    """The answer to the question ``name``: a pickled value, or the reason why it is lost.

    Only a process with user code may unpickle it. The other fields are as in
    ``branches.BranchResult``.
    """

    name: str
    packed: str = ""
    lost: str = ""
    late: bool = False
    used: float = 0.0


Upward = Union[
    BranchBegun,
    BranchAnswer,
    RunsPlanned,
    StageBegun,
    TextUnparsable,
    PreambleReady,
    PreambleStale,
    LateImports,
    ChildForked,
    ForkFailed,
    ChildExited,
    SnapshotTaken,
    OperatorCalls,
    PhasesTaken,
    RunDone,
    ProgramDone,
    ProgramShows,
    CandidatesMade,
    CasesChosen,
    BackendTried,
    Judged,
]


# -- downwards --------------------------------------------------------------------------------


@dataclass(frozen=True)
class LaunchRun:
    """Start a run. Attached descriptors, for forked runs: report, stdout, stderr, box."""

    number: int
    target: int
    probe: int
    mode: Mode
    part: Part
    seconds: float
    memory: int
    answers: tuple[BranchAnswer, ...] = ()
    """Answers that earlier attempts of the run, or speculative runs, computed."""
    last: bool = False
    """True if this is the last attempt for lack of time."""
    found: tuple[FoundProbe, ...] = ()
    """Probes that searches of other runs found."""
    known: str = ""
    """State of the first run of the same target and probe."""
    began: float = 0.0
    """Time at which it was sent, in ``time.monotonic()``."""
    speculative: bool = False
    """True if to answer the first question only; then ``known`` is from before the edit."""


@dataclass(frozen=True)
class LaunchEnclosingRun:
    """Start an enclosing run that leaves a snapshot at each call of a wanted target.

    Attached descriptors: report, stdout, stderr, box, control. ``shared`` is its number; the other
    fields are as in a run.
    """

    number: int
    shared: int
    mode: Mode
    seconds: float
    memory: int
    found: tuple[FoundProbe, ...] = ()


@dataclass(frozen=True)
class ForkGeneration:
    """Fork a generation from a preamble.

    Attached descriptors: report, stdout, stderr, box, control, and a file with the order.
    """

    number: int
    gives_way: bool = False
    """True if the generation runs at low priority."""


PACKAGES = -1
"""Statement index that stands for the packages above the file."""


@dataclass(frozen=True)
class ImportAhead:
    """Import these modules in a preamble if they work before the text is executed.

    It may take several times ``seconds``.
    """

    names: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class SkippedStatement:
    """A top-level statement, or ``PACKAGES``, that ended an earlier process and is skipped."""

    statement: int
    reason: str


@dataclass(frozen=True)
class RepeatedExecution:
    """The one run for which a module process executes a module again, without reporting other
    results.

    ``late`` comes from the first execution; ``probe`` is the probe that the run was planned with.
    """

    launch: LaunchRun
    late: int | None
    probe: ProbeInfo


@dataclass(frozen=True)
class ModuleOrder:
    """The order to execute a module."""

    analyze: Analyze
    scratch: str
    skip: tuple[SkippedStatement, ...] = ()
    again: RepeatedExecution | None = None
    edited: bool = False
    """True if the file was edited recently, so that another edit is likely."""
    began: float = 0.0
    """Time of the request, in ``time.monotonic()``."""


@dataclass(frozen=True)
class ProgramOrder:
    """The order to execute ``text``, the file ``path``, as a program.

    The process reports results for each workspace file, first for the file that ``analyze`` is
    about.
    """

    analyze: Analyze
    path: str
    text: str
    scratch: str
    lacks: Lack = ""
    """Resource for whose lack the program runs on fake tensors; empty for real tensors."""


@dataclass(frozen=True)
class ReductionOrder:
    """The order to minimize a program. ``began`` is the time of the request, in
    ``time.monotonic()``."""

    request: Reproduce
    packed: str
    began: float
    scratch: str


@dataclass(frozen=True)
class ComparisonOrder:
    """The order to compare the behavior that runs of two texts recorded in these folders.

    ``cases`` are packed, by probe. ``lines`` and ``changed_lines`` are the lines that only one text
    has. ``ended`` is the reason why the run of the changed text ended early; empty if it completed.
    """

    request: Compare
    cases: tuple[str, ...]
    lines: tuple[int, ...]
    changed_lines: tuple[int, ...]
    original: str
    changed: str
    ended: str
    scratch: str


@dataclass(frozen=True)
class IndexOrder:
    """The order to complete the operator index; ``read``: first read the binding YAML in
    ``yaml``."""

    yaml: str
    scratch: str
    read: bool


@dataclass(frozen=True)
class TrialOrder:
    """The order to execute one candidate text in a spare process.

    ``work`` is a pickled function of the text; only a process for such texts may unpickle it.
    ``scratch``, ``path`` and ``roots`` are the reduction's. ``start`` names the programs that may
    be started. ``memory`` is in MiB.
    """

    work: str
    text: str
    seconds: float
    memory: int
    scratch: str
    path: str
    roots: tuple[str, ...]
    start: tuple[str, ...]


@dataclass(frozen=True)
class RepeatOperatorCalls:
    """Repeat the operator calls of the attached file in an idle preamble, packed as in
    ``OperatorCalls``."""


Downward = Union[LaunchRun, LaunchEnclosingRun, ForkGeneration, ImportAhead, RepeatOperatorCalls]
Order = Union[ModuleOrder, ProgramOrder, ReductionOrder, ComparisonOrder, IndexOrder, TrialOrder]
"""Any order that a process is started for."""
_KINDS: dict[str, type] = {
    kind.__name__: kind for union in (Upward, Downward, Order) for kind in typing.get_args(union)
}


class ParentUnreachable(BaseException):
    """Raised when user code has closed the descriptor that leads to the parent process."""


def write_message(descriptor: int, message: Upward | Event) -> None:
    """Write one line to the parent process.

    Raises:
        Lost: user code closed or replaced the descriptor.
    """
    line = encode_message(message) + b"\n" if type(message) in _OWN else protocol.encode(message)  # type: ignore[arg-type]
    view = memoryview(line)
    try:
        while view:
            view = view[_write(descriptor, view) :]
    except OSError as error:
        raise ParentUnreachable from error


def parse_message(line: bytes) -> Upward | Event | None:
    """Decode the message of one line; None if the line is not a message."""
    try:
        if line.startswith(_INTERNAL):
            message: Upward = decode_message(line)
            if isinstance(message, ChildForked):
                return ChildForked(message.number, getattr(line, "sender", 0))
            return message
        return protocol.decode(line)  # type: ignore[return-value]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def encode_message(message: Upward | Downward | Order) -> bytes:
    """Encode a message as one line without a newline: ``!`` and JSON; ``type`` names the class."""
    body = {"type": type(message).__name__, **protocol.to_plain(message)}
    return _INTERNAL + _dumps(body, separators=(",", ":")).encode()


def decode_message(line: bytes) -> Any:
    """Decode a line that :func:`encode_message` wrote.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: the line is not such a message.
    """
    raw = _loads(line[1:])
    return protocol.from_plain(_KINDS[raw.pop("type")], raw)


_OWN = set(typing.get_args(Upward))
