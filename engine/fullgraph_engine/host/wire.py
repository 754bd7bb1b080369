"""What crosses the pipes between the parent and its module processes and runs.

Upwards: lines. An event of the protocol travels as it is; the messages of this module have
``!`` before them. JSON, never pickle: the parent must not execute what user code may have written.
Downwards: packets on a socket with the descriptors of the process to be forked, or, to a process
that was not forked, lines.
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
"""What a process is doing: getting ready, executing the module's statements, or one run."""
_PACKET = 1 << 16


def starts_programs(request: Analyze) -> bool:
    """Whether a run of a request may start the compilers of a backend."""
    return "measure" in request.parts or bool(request.observe and request.observe.backend)


# -- upwards ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlannedRun:
    """One probe of one target; ``target`` and ``probe`` are indices in the module process.

    ``waits``: an earlier run of the target says whether it is needed. ``after`` are targets whose
    first runs should have ended before. ``shared`` is the number of the enclosing run that shows
    what it is called with, and others may be; None if there is none, or it cannot be shared.
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
        """The numbers of the target and the probe."""
        return self.target, self.probe


@dataclass(frozen=True)
class Planned:
    """The module is executed, these runs can be launched.

    ``late`` is the index of the statement that used up the time, if one did.
    """

    runs: tuple[PlannedRun, ...]
    late: int | None = None


@dataclass(frozen=True)
class Begun:
    """A process that was started ahead, or only now, begins with what may take so many seconds."""

    stage: Stage
    seconds: float


@dataclass(frozen=True)
class Unparsable:
    """The text is no Python; nothing was executed."""

    reason: str


@dataclass(frozen=True)
class Kept:
    """The sender has executed the first ``lines`` lines of the text, its imports, and stays as a
    preamble: it forks generations that go on from there."""

    lines: int
    files: tuple[FileState, ...]


@dataclass(frozen=True)
class Stale:
    """A generation found that its text does not begin as its preamble does; or a preamble that it
    can be used no more."""


@dataclass(frozen=True)
class Followed:
    """In a generation, the packages above the text imported these modules after the text; it took
    so many seconds."""

    names: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Forked:
    """The sender is the child that was asked for by ``number``. ``pid`` is from the kernel: user
    code could name any process in the message."""

    number: int
    pid: int = 0


@dataclass(frozen=True)
class NotForked:
    """There was no room for the child that was asked for by ``number``; ``error`` is an errno."""

    number: int
    error: int


@dataclass(frozen=True)
class Exited:
    """``code`` is negative for a signal; None if somebody else took it."""

    number: int
    code: int | None


@dataclass(frozen=True)
class SnapshotTaken:
    """An enclosing run has left a process at the call of this target and probe, which forks the
    runs of these; -1 where that process is good for none. ``source`` says in words where the call
    is made."""

    target: int
    probe: int
    call: GivenCall | None = None
    source: str = ""


@dataclass(frozen=True)
class RunDone:
    """``further``: so many of the runs that wait for this one are needed. ``raised``: it needs real
    tensors since fake ones raised. ``known`` is what a run of the part "paths" is launched with,
    empty where it would find none. ``unfound``: a search has found nothing for it."""

    report: TargetReport
    needs_real: str | None
    further: int = 0
    raised: bool = False
    known: str = ""
    paths: Union[TracedPaths, None] = None
    unfound: Union[FoundProbe, None] = None


@dataclass(frozen=True)
class ProgramDone:
    """The end of a program's run; ``ran`` is false for a text without a program. ``called`` counts
    the regions that were called; ``note`` says how the run differs from a user's own."""

    ran: bool
    refused: str = ""
    """Why the program cannot run as the request asks; empty if it can."""
    how: ProgramEnd = "finished"
    called: int = 0
    note: str = ""
    lacks: Lack = ""
    """Resource that ran out and that fake tensors do not need."""


@dataclass(frozen=True)
class ProgramShows:
    """A result of a program's run for the file ``path``; ``event`` is an event of the protocol as a
    line. ``deeper`` lists workspace files with inner frames of the same finding, which is left out
    here if one of them shows its own findings."""

    path: str
    event: str
    deeper: tuple[str, ...] = ()


@dataclass(frozen=True)
class CandidatesMade:
    """Programs that may show a finding, packed by ``repro.candidate``; or why there are none."""

    packed: str = ""
    reason: str = ""


@dataclass(frozen=True)
class CasesChosen:
    """Inputs to compare two texts on, packed by ``behavior``, for one probe; or why there are
    none."""

    probe: int
    packed: str = ""
    reason: str = ""


@dataclass(frozen=True)
class BackendTried:
    """What came of compiling the changed target, for one probe."""

    outcome: BehaviorOutcome
    reason: str = ""


@dataclass(frozen=True)
class PhasesTaken:
    """What a module process has done until its runs were planned."""

    phases: tuple[PhaseTime, ...]


@dataclass(frozen=True)
class OperatorCalls:
    """What a run has worked out for fake tensors, as ``pipeline.operator_calls`` packs it."""

    packed: str


@dataclass(frozen=True)
class Branching:
    """A run that may not fork becomes the process that answers a question of its own."""

    name: str
    seconds: float


@dataclass(frozen=True)
class BranchAnswer:
    """To the question of this name: a pickled value, or why there is none. Only a process with
    user code may unpickle it. The rest is as ``branches.Answer`` has it."""

    name: str
    packed: str = ""
    lost: str = ""
    late: bool = False
    used: float = 0.0


Upward = Union[
    Branching,
    BranchAnswer,
    Planned,
    Begun,
    Unparsable,
    Kept,
    Stale,
    Followed,
    Forked,
    NotForked,
    Exited,
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
class Launch:
    """Begin a run. With it travel to a process that forks it: report, stdout, stderr, box."""

    number: int
    target: int
    probe: int
    mode: Mode
    part: Part
    seconds: float
    memory: int
    answers: tuple[BranchAnswer, ...] = ()
    """What earlier attempts of it have found out that could not fork, or were made ahead of it."""
    last: bool = False
    """There is no time for another attempt."""
    found: tuple[FoundProbe, ...] = ()
    """What other runs have found by trying."""
    known: str = ""
    """From the first run of its target and probe."""
    began: float = 0.0
    """When it was sent, in ``time.monotonic()``."""
    speculative: bool = False
    """Answer its first question, and end. ``known`` is from before the text was edited."""


@dataclass(frozen=True)
class Enclose:
    """Begin an enclosing run that leaves a snapshot at each call that it shows. With it travel:
    report, stdout, stderr, box, control. ``shared`` is its number; the rest is as for a run."""

    number: int
    shared: int
    mode: Mode
    seconds: float
    memory: int
    found: tuple[FoundProbe, ...] = ()


@dataclass(frozen=True)
class Continue:
    """Fork a generation off a preamble. With it travel: report, stdout, stderr, box, control, and
    a file that holds the job."""

    number: int
    gives_way: bool = False
    """What it does, nobody waits for."""


PACKAGES = -1
"""In place of a statement's index: the packages above the file."""


@dataclass(frozen=True)
class Ahead:
    """To a preamble: import those of these modules that can be imported before the text is
    executed. It may take several times as many seconds."""

    names: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Skip:
    """A top-level statement, or ``PACKAGES``, that ended the process before and is not executed
    again."""

    statement: int
    reason: str


@dataclass(frozen=True)
class Again:
    """A module process is there for one run of a module that another one has executed before, so
    it says nothing else. ``late`` is from ``Planned``; ``probe`` is what the run was planned with.
    """

    launch: Launch
    late: int | None
    probe: ProbeInfo


@dataclass(frozen=True)
class Job:
    """What a module process is for."""

    analyze: Analyze
    scratch: str
    skip: tuple[Skip, ...] = ()
    again: Again | None = None
    edited: bool = False
    """Another text of the file was executed before, and one more is likely to come."""
    began: float = 0.0
    """When it was asked for, in ``time.monotonic()``."""


@dataclass(frozen=True)
class ProgramOrder:
    """Execute ``text``, the file ``path``, as a program, and report what it shows of each file of
    the workspace, first of the file that ``analyze`` is about."""

    analyze: Analyze
    path: str
    text: str
    scratch: str
    lacks: Lack = ""
    """Reason to run the program on fake tensors; an empty string for real ones."""


@dataclass(frozen=True)
class Reduction:
    """Make a program smaller. ``began`` is when it was asked for, in ``time.monotonic()``."""

    request: Reproduce
    packed: str
    began: float
    scratch: str


@dataclass(frozen=True)
class Judgment:
    """Compare what runs of two texts have observed and left in these folders. ``cases`` are packed,
    by probe; ``lines`` and ``changed_lines`` are those that the texts do not have in common;
    ``ended`` says how the run of the changed one ended that did not do so by itself."""

    request: Compare
    cases: tuple[str, ...]
    lines: tuple[int, ...]
    changed_lines: tuple[int, ...]
    original: str
    changed: str
    ended: str
    scratch: str


@dataclass(frozen=True)
class Survey:
    """Complete the operator index; ``read`` the binding YAML first. As ``boot`` has ``yaml``."""

    yaml: str
    scratch: str
    read: bool


@dataclass(frozen=True)
class Trial:
    """Try out a text. ``work`` is a pickled function of it; only a process that is there to execute
    such texts may unpickle it. ``scratch``, ``path`` and ``roots`` are the reduction's; ``start``
    names the programs that may be started. ``memory`` is in MiB."""

    work: str
    text: str
    seconds: float
    memory: int
    scratch: str
    path: str
    roots: tuple[str, ...]
    start: tuple[str, ...]


@dataclass(frozen=True)
class Repeat:
    """To a preamble: make the calls of operators in the file that travels with it, packed as in
    ``OperatorCalls``, while there is nothing else to do."""


Downward = Union[Launch, Enclose, Continue, Ahead, Repeat]
Order = Union[Job, ProgramOrder, Reduction, Judgment, Survey, Trial]
"""What a process is for, from its beginning."""
_KINDS: dict[str, type] = {
    kind.__name__: kind for union in (Upward, Downward, Order) for kind in typing.get_args(union)
}


class Lost(BaseException):
    """The descriptor that leads to the parent was closed by the user's code."""


def report(descriptor: int, message: Upward | Event) -> None:
    """Write one line upwards.

    Raises:
        Lost: the descriptor is no longer ours.
    """
    line = encode(message) + b"\n" if type(message) in _OWN else protocol.encode(message)  # type: ignore[arg-type]
    view = memoryview(line)
    try:
        while view:
            view = view[_write(descriptor, view) :]
    except OSError as error:
        raise Lost from error


def received(line: bytes) -> Upward | Event | None:
    """The message of one line; None for what is none."""
    try:
        if line.startswith(_INTERNAL):
            message: Upward = decode(line)
            if isinstance(message, Forked):
                return Forked(message.number, getattr(line, "sender", 0))
            return message
        return protocol.decode(line)  # type: ignore[return-value]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def encode(message: Upward | Downward | Order) -> bytes:
    """A message as one line, without its newline: ``!``, then JSON; ``type`` names the class."""
    body = {"type": type(message).__name__, **protocol.to_plain(message)}
    return _INTERNAL + _dumps(body, separators=(",", ":")).encode()


def decode(line: bytes) -> Any:
    """The message that :func:`encode` wrote as this line.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: it is no such line.
    """
    raw = _loads(line[1:])
    return protocol.from_plain(_KINDS[raw.pop("type")], raw)


_OWN = set(typing.get_args(Upward))
