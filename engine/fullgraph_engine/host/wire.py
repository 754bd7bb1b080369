"""What crosses the pipes between the parent and its module processes and runs.

Upwards: lines. An event of the protocol travels as it is; the messages of this module have
``!`` before them. JSON, never pickle: the parent must not execute what user code may have written.
Downwards: packets on a socket, with the descriptors of the process to be forked.
"""

from __future__ import annotations

import array
import json
import os
import socket
import typing
from dataclasses import dataclass
from typing import Any, Union

from .. import protocol
from ..protocol import Analyse, Event, Mode, Part, ProbeInfo, Range, TargetInfo, TargetReport

_write, _dumps, _loads = os.write, json.dumps, json.loads
_INTERNAL = b"!"
_PACKET = 1 << 16


# -- upwards ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlannedRun:
    """One probe of one target; ``target`` and ``probe`` are indices in the module process."""

    target: int
    probe: int
    info: TargetInfo
    body: Range
    probe_info: ProbeInfo


@dataclass(frozen=True)
class Planned:
    """The module is executed, these runs can be launched."""

    runs: tuple[PlannedRun, ...]


@dataclass(frozen=True)
class Unparsable:
    """The text is no Python; nothing was executed."""

    reason: str


@dataclass(frozen=True)
class FileState:
    """A file or folder that a preamble depends on, as it was when the preamble was made."""

    path: str
    modified: int
    size: int


@dataclass(frozen=True)
class Kept:
    """The sender has executed the first ``lines`` lines of the text, its imports, and stays as a
    preamble: it forks generations that go on from there."""

    lines: int
    files: tuple[FileState, ...]


@dataclass(frozen=True)
class Stale:
    """A generation found that its text does not begin as its preamble does."""


@dataclass(frozen=True)
class Forked:
    """A child that was asked for by ``number`` exists."""

    number: int
    pid: int


@dataclass(frozen=True)
class Exited:
    """``status`` as from ``os.waitpid``; -1 if somebody else took it."""

    number: int
    status: int


@dataclass(frozen=True)
class RunDone:
    report: TargetReport
    needs_real: str | None


@dataclass(frozen=True)
class SeedsMade:
    """Programs that may show a finding, as ``repro.seed`` packs them; or why there are none."""

    packed: str = ""
    reason: str = ""


Upward = Union[Planned, Unparsable, Kept, Stale, Forked, Exited, RunDone, SeedsMade]


# -- downwards --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Launch:
    """Fork a run. With it travel: report, stdout, stderr, black box."""

    number: int
    target: int
    probe: int
    mode: Mode
    part: Part
    seconds: float
    memory: int


@dataclass(frozen=True)
class Continue:
    """Fork a generation off a preamble. With it travel: control, report, stdout, stderr, black
    box, and a file that holds the job."""

    number: int


@dataclass(frozen=True)
class Skip:
    """A top-level statement that ended the process before and is not executed again."""

    statement: int
    reason: str


@dataclass(frozen=True)
class Job:
    """What a module process is for."""

    analyse: Analyse
    scratch: str
    skip: tuple[Skip, ...] = ()


Downward = Union[Launch, Continue]
_KINDS: dict[str, type] = {
    kind.__name__: kind for kind in (*typing.get_args(Upward), *typing.get_args(Downward), Job)
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
            return decode(line)  # type: ignore[no-any-return]
        return protocol.decode(line)  # type: ignore[return-value]
    except (ValueError, TypeError, KeyError):
        return None


def encode(message: Upward | Downward | Job) -> bytes:
    body = {"type": type(message).__name__, **protocol.to_plain(message)}
    return _INTERNAL + _dumps(body, separators=(",", ":")).encode()


def decode(line: bytes) -> Any:
    raw = _loads(line[1:])
    return protocol.from_plain(_KINDS[raw.pop("type")], raw)


def send(channel: socket.socket, message: Downward, descriptors: list[int]) -> bool:
    """One packet; False if nobody is there to read it."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    try:
        channel.sendmsg([encode(message)], rights)
    except OSError:
        return False
    return True


def receive(channel: socket.socket) -> tuple[Downward, list[int]] | None:
    """The next packet and its descriptors; None when the other end is gone."""
    found = array.array("i")
    try:
        data, rights, _, _ = channel.recvmsg(_PACKET, socket.CMSG_SPACE(16 * found.itemsize))
    except OSError:
        return None
    if not data:
        return None
    for level, kind, payload in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(payload[: len(payload) - len(payload) % found.itemsize])
    return decode(data), list(found)


_OWN = set(typing.get_args(Upward))
