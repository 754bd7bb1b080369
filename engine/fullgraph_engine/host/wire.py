"""Messages between the engine's main process and the processes that execute user code.

Messages to the main process are lines. Events of the protocol are unchanged; messages of this
module have the prefix ``!``. They are JSON, never pickle, because user code may have written them
and the main process must not execute them. Messages from the main process are socket packets that
carry the file descriptors for the process to fork. Processes that were not forked receive lines
instead.
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
"""Stage of a process, each with its own time limit: starting, executing the module's statements, or
one run."""
_PACKET = 1 << 16


def starts_programs(request: Analyze) -> bool:
    """Whether processes of the request may start programs, as a backend of ``torch.compile`` starts
    a C++ compiler."""
    return "measure" in request.parts or bool(request.observe and request.observe.backend)


# -- upwards ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlannedRun:
    """A run that can be launched: a target and the inputs to trace it with. ``target`` and
    ``probe`` are their indices in the module process.

    ``waits``: whether the run is launched only if an earlier run of the target requests it.
    ``after``: targets whose first runs should end before. ``shared``: number of the enclosing run
    (a run of callers) that shows the target's arguments; None if none does.
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
        """Indices of the target and of its inputs."""
        return self.target, self.probe


@dataclass(frozen=True)
class RunsPlanned:
    """A message that the module was executed and that these runs can be launched.

    ``late`` is the index of the top-level statement that exceeded the time limit; None if none did.
    """

    runs: tuple[PlannedRun, ...]
    late: int | None = None


@dataclass(frozen=True)
class StageBegun:
    """A message that the sending process begins a stage, which may take ``seconds``."""

    stage: Stage
    seconds: float


@dataclass(frozen=True)
class TextUnparsable:
    """A message that the file has a syntax error, described by ``reason``; nothing was executed."""

    reason: str


@dataclass(frozen=True)
class PreambleReady:
    """A message that the sender has executed a file's imports and stays as a preamble, a process
    that later versions of the file fork from.

    ``lines`` is the number of lines executed; ``files`` are the files that the imports read.
    """

    lines: int
    files: tuple[FileState, ...]


@dataclass(frozen=True)
class PreambleStale:
    """A message that the saved process with executed imports cannot be used: the file begins with
    other statements, or the process has changed."""


@dataclass(frozen=True)
class LateImports:
    """A message that packages imported the modules ``names`` after the user's module was executed,
    which took ``seconds``. They may be imported in advance next time."""

    names: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class ChildForked:
    """A message from a forked process: it is the child that the command ``number`` requested.

    ``pid`` comes from the kernel, because user code could put any pid into the message.
    """

    number: int
    pid: int = 0


@dataclass(frozen=True)
class ForkFailed:
    """A message that the child which command ``number`` requested was not forked because the system
    lacks resources. ``error`` is an errno."""

    number: int
    error: int


@dataclass(frozen=True)
class ChildExited:
    """A message that the child which command ``number`` requested has ended. ``code`` is its exit
    code: negative for a signal, None if user code collected it."""

    number: int
    code: int | None


@dataclass(frozen=True)
class SnapshotTaken:
    """A message from a snapshot, a copy of the process that stopped at a call of a target.

    The snapshot forks the runs for this call. ``target`` and ``probe`` are -1 if the call is not
    needed. ``call`` is a digest of the arguments, and ``source`` describes the call for the user.
    """

    target: int
    probe: int
    call: GivenCall | None = None
    source: str = ""


@dataclass(frozen=True)
class RunDone:
    """The result of a run.

    ``needs_real``: reason to repeat the run with real tensors, or None. ``further``: number of
    waiting runs of the target to launch. ``raised``: whether fake tensors raised an exception.
    ``known``: encoded state from which further execution paths are traced; empty if there are none.
    ``unfound``: the search for inputs that failed, or None.
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
    """The end of a run of the user's program.

    ``ran``: whether the file is a program. ``called``: number of compiled functions that were
    called. ``note``: how the run differs from running the program directly.
    """

    ran: bool
    refused: str = ""
    """Reason why the program cannot run as requested; empty if it can."""
    how: ProgramEnd = "finished"
    called: int = 0
    note: str = ""
    lacks: Lack = ""
    """Resource, such as GPU memory, that the program lacked and that fake tensors do not need;
    empty if it lacked none."""


@dataclass(frozen=True)
class ProgramShows:
    """A result of a program's run about the file ``path``; ``event`` is an encoded event of the
    protocol.

    ``deeper`` lists workspace files in which inner stack frames of the same finding lie. If one of
    them is analyzed too, it shows the finding instead of ``path``.
    """

    path: str
    event: str
    deeper: tuple[str, ...] = ()


@dataclass(frozen=True)
class CandidatesMade:
    """A message with packed programs that may reproduce a finding, or with the ``reason`` why there
    are none."""

    packed: str = ""
    reason: str = ""


@dataclass(frozen=True)
class CasesChosen:
    """A message with the packed inputs on which to compare two versions of a target, or with the
    ``reason`` why there are none."""

    probe: int
    packed: str = ""
    reason: str = ""


@dataclass(frozen=True)
class BackendTried:
    """The result of compiling the changed target with a backend, for one set of inputs; ``reason``
    explains a failure."""

    outcome: BehaviorOutcome
    reason: str = ""


@dataclass(frozen=True)
class PhasesTaken:
    """A message with the durations of a module process's phases, up to the planning of its runs."""

    phases: tuple[PhaseTime, ...]


@dataclass(frozen=True)
class OperatorCalls:
    """A message with the results of operators on fake tensors that a run computed, packed by
    ``pipeline.operator_calls``."""

    packed: str


@dataclass(frozen=True)
class BranchBegun:
    """A message from a run that cannot fork: it computes only the answer to the question ``name``,
    within ``seconds``, and then ends."""

    name: str
    seconds: float


@dataclass(frozen=True)
class BranchAnswer:
    """The answer to the question ``name`` of a run: a pickled value, or the reason ``lost`` why it
    is missing.

    Only a process with user code may unpickle it. ``late``: whether time ran out. ``used``: seconds
    of processor time.
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
    """A command to start a run. Its packet carries the descriptors for reports, stdout, stderr and
    the memory file for the last stack."""

    number: int
    target: int
    probe: int
    mode: Mode
    part: Part
    seconds: float
    memory: int
    answers: tuple[BranchAnswer, ...] = ()
    """Answers to the run's questions that earlier processes of the run, or speculative runs,
    computed."""
    last: bool = False
    """True if no time is left to compute further answers, so the run completes without them."""
    found: tuple[FoundProbe, ...] = ()
    """Inputs that searches in earlier runs found for targets."""
    known: str = ""
    """Encoded state of the first run with the same target and inputs, from which further execution
    paths are traced; otherwise empty."""
    began: float = 0.0
    """Time at which the command was sent, in ``time.monotonic()``."""
    speculative: bool = False
    """True if the run only computes the first answer in advance. Then ``known`` is from before the
    last edit."""


@dataclass(frozen=True)
class LaunchEnclosingRun:
    """A command to execute callers of targets and to keep a forked copy of the process at each call
    of a wanted target.

    Its packet carries the descriptors for reports, stdout, stderr, the last stack and control.
    ``shared`` is the number of the callers' run in the file.
    """

    number: int
    shared: int
    mode: Mode
    seconds: float
    memory: int
    found: tuple[FoundProbe, ...] = ()


@dataclass(frozen=True)
class ForkGeneration:
    """A command to a saved process with executed imports: fork a process that continues with a new
    version of the file.

    Its packet carries the descriptors for reports, stdout, stderr, the last stack, control, and a
    file with the ``ModuleOrder``.
    """

    number: int
    gives_way: bool = False
    """True if the forked process runs at low priority."""


PACKAGES = -1
"""Value of a statement index that means the import of the file's parent packages."""


@dataclass(frozen=True)
class ImportAhead:
    """A command to a saved process to import the modules ``names``, unless they need the user's
    module.

    The imports may take several times ``seconds``, the time that they took before.
    """

    names: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class SkippedStatement:
    """A top-level statement to skip because it ended an earlier process. ``statement`` is its
    index, or ``PACKAGES`` for the import of the parent packages."""

    statement: int
    reason: str


@dataclass(frozen=True)
class RepeatedExecution:
    """The run for which a new module process executes the module again, reporting only the results
    of this run.

    ``late`` is the index of the statement that exceeded the time limit in the first execution, or
    None. ``probe`` describes the inputs that the run was planned with.
    """

    launch: LaunchRun
    late: int | None
    probe: ProbeInfo


@dataclass(frozen=True)
class ModuleOrder:
    """The order to execute a user's file as a module. ``skip`` lists statements not to execute;
    ``again`` is the only run to perform, if any."""

    analyze: Analyze
    scratch: str
    skip: tuple[SkippedStatement, ...] = ()
    again: RepeatedExecution | None = None
    edited: bool = False
    """True if the file was edited recently, so that another edit is likely."""
    began: float = 0.0
    """Time at which the process was requested, in ``time.monotonic()``."""


@dataclass(frozen=True)
class ProgramOrder:
    """The order to execute ``text``, the contents of the file ``path``, as a program.

    The process reports results for every workspace file that the program imports, first for the
    file in ``analyze``.
    """

    analyze: Analyze
    path: str
    text: str
    scratch: str
    lacks: Lack = ""
    """Resource that was lacking, so that the program runs on fake tensors; empty for real
    tensors."""


@dataclass(frozen=True)
class ReductionOrder:
    """The order to minimize the packed programs that reproduce a finding. ``began`` is the time of
    the request, in ``time.monotonic()``."""

    request: Reproduce
    packed: str
    began: float
    scratch: str


@dataclass(frozen=True)
class ComparisonOrder:
    """The order to compare the recorded behavior of two versions of a file, in the folders
    ``original`` and ``changed``.

    ``cases`` are packed inputs. ``lines`` and ``changed_lines`` are the line numbers that only one
    version has. ``ended`` is the reason why the run of the changed version ended early; empty if it
    completed.
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
    """The order to complete the index of PyTorch's operators. If ``read`` is true, first read the
    YAML file of the bindings with the PyYAML in the folder ``yaml``."""

    yaml: str
    scratch: str
    read: bool


@dataclass(frozen=True)
class TrialOrder:
    """The order to execute one program that a minimization tries, in a waiting process.

    ``work`` is a pickled function of the text; only this process may unpickle it. ``scratch``,
    ``path`` and ``roots`` belong to the minimization. ``start`` names the programs that may be
    started. ``memory`` is in MiB.
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
    """A command to a saved process to repeat, while idle, the operator calls in the attached file,
    packed as in ``OperatorCalls``. Its later forks then reuse their results."""


Downward = Union[LaunchRun, LaunchEnclosingRun, ForkGeneration, ImportAhead, RepeatOperatorCalls]
Order = Union[ModuleOrder, ProgramOrder, ReductionOrder, ComparisonOrder, IndexOrder, TrialOrder]
"""Any order for which the main process starts another process."""
_KINDS: dict[str, type] = {
    kind.__name__: kind for union in (Upward, Downward, Order) for kind in typing.get_args(union)
}


class ParentUnreachable(BaseException):
    """Raised when user code has closed the descriptor that leads to the engine's main process."""


def write_message(descriptor: int, message: Upward | Event) -> None:
    """Write a message as one line to the engine's main process.

    Raises:
        ParentUnreachable: user code closed or replaced the descriptor.
    """
    line = encode_message(message) + b"\n" if type(message) in _OWN else protocol.encode(message)  # type: ignore[arg-type]
    view = memoryview(line)
    try:
        while view:
            view = view[_write(descriptor, view) :]
    except OSError as error:
        raise ParentUnreachable from error


def parse_message(line: bytes) -> Upward | Event | None:
    """Decode a line as an internal message or an event of the protocol; None if it is neither."""
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
    """Decode a line that :func:`encode_message` wrote, into an object of this module's message
    classes.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: the line is not such a message.
    """
    raw = _loads(line[1:])
    return protocol.from_plain(_KINDS[raw.pop("type")], raw)


_OWN = set(typing.get_args(Upward))
