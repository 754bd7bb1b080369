"""Messages between the engine's main process and the processes that execute user code.

Messages to the main process are lines. Events of the server's protocol pass unchanged; messages
defined here have the prefix ``!``. They are JSON, never pickle, because user code may have forged
them. Messages from the main process are socket packets. A packet that requests a fork carries the
file descriptors for the new process. Processes that were not forked receive lines instead of
packets.
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
    UncalledTarget,
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
    """Whether processes of the request may start programs, such as the C++ compiler of a
    ``torch.compile`` backend."""
    return bool({"prepare", "measure", "numerics"} & {*request.parts}) or bool(
        request.observe and request.observe.compiled_by == "inductor"
    )


# -- messages to the main process -------------------------------------------------------------


@dataclass(frozen=True)
class PlannedRun:
    """A run that can be launched: a target (function or module class) and the inputs to trace it
    with.

    ``target`` and ``probe`` are the indices of both in the process that executes the user's file.
    ``waits``: the run is launched only if an earlier run of the target requests it. ``after``:
    targets whose first runs should end before. ``shared``: number of the process that executes the
    target's callers to record its arguments; None if no such process is needed.
    """

    target: int
    probe: int
    info: TargetInfo
    body: Range
    probe_info: ProbeInfo
    waits: bool = False
    after: tuple[int, ...] = ()
    shared: Union[int, None] = None
    callers: tuple[int, ...] = ()
    """Indices of the targets whose traces may include this one; empty if its own inputs must be
    traced."""
    body_of_call: Union[Range, None] = None
    """Source range of the function that a call of the target executes; None if unknown."""

    @property
    def at(self) -> tuple[int, int]:
        """Identification of the run: the index of the target, and the index of the inputs."""
        return self.target, self.probe


@dataclass(frozen=True)
class RunsPlanned:
    """A message that the user's file was executed, with the runs that can now trace its targets.

    ``late`` is the index of the top-level statement that exceeded the time limit; None if none did.
    """

    runs: tuple[PlannedRun, ...]
    late: int | None = None


@dataclass(frozen=True)
class StageBegun:
    """A message that the sending process begins a stage (startup, module execution or a run),
    limited to ``seconds``."""

    stage: Stage
    seconds: float


@dataclass(frozen=True)
class TextUnparsable:
    """A message that the file was not executed because of the syntax error ``reason``."""

    reason: str


@dataclass(frozen=True)
class PreambleReady:
    """A message that the sender has executed a file's imports and waits to be forked for later
    versions of the file.

    Such a process is called a preamble. ``lines`` is the number of lines executed; ``files`` are
    the files that the imports read.
    """

    lines: int
    files: tuple[FileState, ...]


@dataclass(frozen=True)
class PreambleStale:
    """A message that a process kept after a file's imports cannot be forked again. Either the file
    now begins with other statements, or the process has started threads or failed to import a
    module."""


@dataclass(frozen=True)
class LateImports:
    """A message with the modules that packages imported after they had imported the user's file.

    Importing ``names`` took ``seconds``. The process kept after the imports may import them in
    advance, so that the next edit is analyzed sooner.
    """

    names: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class ChildForked:
    """A message from a newly forked process, which the command with this ``number`` requested.

    ``pid`` comes from the kernel, because user code could write any pid into the message.
    """

    number: int
    pid: int = 0


@dataclass(frozen=True)
class ForkFailed:
    """A message that the fork requested by command ``number`` failed with the errno ``error``."""

    number: int
    error: int


@dataclass(frozen=True)
class ChildExited:
    """A message that the process forked for command ``number`` has ended with exit code ``code``.

    The code is negative for a signal, and None if user code collected it.
    """

    number: int
    code: int | None


@dataclass(frozen=True)
class SnapshotTaken:
    """A message from a snapshot: a copy of a process, stopped just before a call of a target.

    Runs that trace the call are forked from the snapshot. ``target`` and ``probe`` are the indices
    of the target and of the call; -1 if the call is not needed. ``call`` is a digest of the
    arguments, and ``source`` describes the call for the user.
    """

    target: int
    probe: int
    call: GivenCall | None = None
    source: str = ""


@dataclass(frozen=True)
class CallersEnded:
    """A message from the process that executed callers of targets to their end.

    ``uncalled`` lists the targets that were not called.
    """

    uncalled: tuple[UncalledTarget, ...]


@dataclass(frozen=True)
class RunDone:
    """The result of a run, a process that traced one target with one set of inputs.

    ``needs_real``: reason to repeat the run with real tensors, or None. ``further``: number of the
    target's waiting runs to launch. ``raised``: fake tensors raised an exception. ``known``: facts
    about this trace, encoded as text, that the run for alternative execution paths needs; empty if
    the target does not have such paths. ``unfound``: the search for inputs that failed, or None.
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
    """A message that a run of the user's file as a program has ended.

    ``ran``: whether the file is a program at all. ``called``: number of compiled functions that
    were called. ``note``: a sentence on how the run differs from starting the program directly.
    """

    ran: bool
    refused: str = ""
    """Reason why the program did not run: the requested backend is not available. Empty if it
    ran."""
    how: ProgramEnd = "finished"
    called: int = 0
    note: str = ""
    lacks: Lack = ""
    """Resource that the program lacked, such as GPU memory, so that it should run again on fake
    tensors; empty if it lacked none."""


@dataclass(frozen=True)
class ProgramShows:
    """A result for the file ``path``, observed while a program ran; ``event`` is an encoded
    protocol event.

    ``deeper`` lists workspace files in which inner stack frames of the same finding lie. If one of
    them is analyzed too, the finding is shown there instead of in ``path``.
    """

    path: str
    event: str
    deeper: tuple[str, ...] = ()


@dataclass(frozen=True)
class CandidatesMade:
    """A message with packed programs that may reproduce a finding, or with the ``reason`` why none
    could be written."""

    packed: str = ""
    reason: str = ""


@dataclass(frozen=True)
class CasesChosen:
    """A message with packed inputs on which two versions of a target are compared, or with the
    ``reason`` why there are none."""

    probe: int
    packed: str = ""
    reason: str = ""


@dataclass(frozen=True)
class BackendTried:
    """A message with the result of compiling a target, for one set of inputs; ``reason`` explains a
    failure."""

    outcome: BehaviorOutcome
    reason: str = ""


@dataclass(frozen=True)
class PhasesTaken:
    """A message with the seconds of each phase, such as imports, that the process which executes
    the user's file has spent."""

    phases: tuple[PhaseTime, ...]


@dataclass(frozen=True)
class OperatorCalls:
    """A message with calls of PyTorch operators on fake tensors that a run made, packed by
    ``pipeline.operator_calls``.

    Another process repeats them to fill torch's fake tensor cache.
    """

    packed: str


@dataclass(frozen=True)
class BranchBegun:
    """A message from a run that cannot fork: it evaluates the function ``name``, sends the answer
    within ``seconds``, and ends.

    With forks, a run evaluates such functions in child processes, to keep its own state unchanged.
    """

    name: str
    seconds: float


@dataclass(frozen=True)
class BranchAnswer:
    """The result of a function that a run evaluated in another process: a pickled value, or the
    reason ``lost`` for its absence.

    Only a process with user code may unpickle it. ``name`` identifies the function. ``late``: the
    time limit was reached. ``used``: seconds of processor time.
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
    CallersEnded,
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


# -- messages from the main process -----------------------------------------------------------


@dataclass(frozen=True)
class LaunchRun:
    """A command to fork a process that traces one target with one set of inputs.

    Its packet carries the descriptors for reports, stdout and stderr, and the in-memory file for
    the last stack.
    """

    number: int
    target: int
    probe: int
    mode: Mode
    part: Part
    seconds: float
    memory: int
    answers: tuple[BranchAnswer, ...] = ()
    """Results of functions that earlier processes of the same run evaluated. They were separate
    processes, because the functions may change the state of their process."""
    last: bool = False
    """True if the time is used up, so that the run must complete without evaluating further
    functions in other processes."""
    found: tuple[FoundProbe, ...] = ()
    """Inputs that searches in earlier runs found for functions and module classes of the file."""
    uncalled: Union[UncalledTarget, None] = None
    """Set if the callers of the target were executed and did not call it; else None."""
    known: str = ""
    """Facts about the first trace with the same target and inputs, encoded as text; empty unless
    the run traces alternative execution paths."""
    began: float = 0.0
    """Time at which the main process sent the command, in ``time.monotonic()``."""
    speculative: bool = False
    """True for a run that was started early on an idle processor and only computes one answer for a
    later run. Then ``known`` is from a trace before the last edit."""


@dataclass(frozen=True)
class LaunchEnclosingRun:
    """A command to execute code that calls targets, and to fork a waiting copy (snapshot) at each
    call of a wanted target.

    Its packet carries the descriptors for reports, stdout, stderr, the last stack and control.
    ``shared`` is the number by which planned runs refer to this execution.
    """

    number: int
    shared: int
    mode: Mode
    seconds: float
    memory: int
    found: tuple[FoundProbe, ...] = ()


@dataclass(frozen=True)
class ForkGeneration:
    """A command to a process kept after a file's imports: fork a process that executes a new
    version of the file.

    Its packet carries the descriptors for reports, stdout, stderr, the last stack, control, and a
    file with the ``ModuleOrder``.
    """

    number: int
    gives_way: bool = False
    """True if the forked process runs at low priority."""


PACKAGES = -1
"""Statement index that stands for importing the file's parent packages, which happens before the
first statement."""


@dataclass(frozen=True)
class ImportAhead:
    """A command to a process kept after a file's imports: also import the modules ``names``, except
    any that need the user's module.

    ``seconds`` is the time that these imports took before; they may take several times as long.
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
    """A run for which a new process executes the user's file again. The process performs only this
    run, and does not report the results of the execution again.

    ``late`` is the index of the statement that exceeded the time limit in the first execution, or
    None. ``probe`` describes the inputs that the run was planned with.
    """

    launch: LaunchRun
    late: int | None
    probe: ProbeInfo


@dataclass(frozen=True)
class ModuleOrder:
    """An order for a new process: execute a user's file as a module.

    ``skip`` lists statements not to execute. ``again`` is the only run to perform; None to plan and
    launch all of them.
    """

    analyze: Analyze
    scratch: str
    skip: tuple[SkippedStatement, ...] = ()
    again: RepeatedExecution | None = None
    edited: bool = False
    """True if the file was edited recently, so that another edit is likely."""
    began: float = 0.0
    """Time at which the main process requested the execution, in ``time.monotonic()``."""


@dataclass(frozen=True)
class ProgramOrder:
    """An order for a new process: execute ``text``, the contents of the file ``path``, as a
    program.

    The process reports results for every workspace file that the program imports, first for the
    file in ``analyze``.
    """

    analyze: Analyze
    path: str
    text: str
    scratch: str
    lacks: Lack = ""
    """Resource missing on this machine, such as a GPU, so that the program runs on fake tensors;
    empty for real tensors."""


@dataclass(frozen=True)
class ReductionOrder:
    """An order for a new process: minimize one of the packed programs that reproduce a finding.

    ``began`` is the time of the request, in ``time.monotonic()``.
    """

    request: Reproduce
    packed: str
    began: float
    scratch: str


@dataclass(frozen=True)
class ComparisonOrder:
    """An order for a new process: compare what two versions of a file did when they were called
    with equal inputs.

    Their recorded results are in the folders ``original`` and ``changed``. ``cases`` are the packed
    inputs. ``lines`` and ``changed_lines`` are the line numbers that only one version has.
    ``ended`` is the reason why the run of the changed version ended early; empty if it completed.
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
    """An order for a new process: complete the index of PyTorch's operators.

    If ``read`` is true, first read the YAML file of PyTorch's Python bindings, with the PyYAML in
    the folder ``yaml``.
    """

    yaml: str
    scratch: str
    read: bool


@dataclass(frozen=True)
class TrialOrder:
    """An order for a waiting process: execute one of the smaller programs that a minimization
    tries.

    ``work`` is a pickled function of the program's text; only this process may unpickle it.
    ``scratch``, ``path`` and ``roots`` are the temporary folder, file and import folders of the
    minimization. ``start`` names the programs that user code may start. ``memory`` is in MiB.
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
    """A command to a process kept after a file's imports: while idle, repeat the operator calls in
    the attached file.

    This fills torch's fake tensor cache, which processes forked later reuse. The calls are packed
    as in ``OperatorCalls``.
    """


Downward = Union[LaunchRun, LaunchEnclosingRun, ForkGeneration, ImportAhead, RepeatOperatorCalls]
Order = Union[ModuleOrder, ProgramOrder, ReductionOrder, ComparisonOrder, IndexOrder, TrialOrder]
"""An order: the only work of a process. The process is new, or it has imported torch and waits for
an order."""
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
