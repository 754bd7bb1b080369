"""Spares: processes of this interpreter that have torch imported and wait to be told what for.

A spare gets one order in its life, as the name of a file that holds it.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...protocol import from_plain, to_plain
from .. import wire
from ..permissions import Permissions
from . import channels, descriptors
from .channels import Channels, ProcessEnds

_BOOT = Path(__file__).resolve().parents[2] / "boot.py"
_HASH_SEED = "PYTHONHASHSEED"
_exit, _read = os._exit, os.read


@dataclass
class Spare:
    """One, for the process that has started it and waits for its end."""

    pid: int
    channels: Channels
    control: int
    """Where it is told things, a line each; -1 when nothing more follows."""

    def order(self, order: wire.Order, folder: str) -> None:
        """Tell it what to do. One that has ended does not hear it: its end is told elsewhere.

        Raises:
            OSError: the folder cannot be written to.
        """
        path = Path(folder, f"order-{self.pid}")
        path.write_bytes(wire.encode(order))
        self.say(str(path).encode())

    def say(self, line: bytes) -> None:
        try:
            os.write(self.control, line + b"\n")
        except OSError:
            return

    def close(self) -> None:
        """Say nothing more: one that waits ends."""
        if self.control >= 0:
            os.close(self.control)
            self.control = -1

    def discard(self) -> None:
        """Nobody is to hear of it any more."""
        self.close()
        self.channels.close()


@dataclass(frozen=True)
class Beginning:
    """What a spare is started with. ``unset``: variables of its environment that are ours."""

    given: tuple[int, ...]
    parent: int
    unset: tuple[str, ...]
    permissions: Permissions


class Starter:
    """Starts spares that are alike: sets and dictionaries of strings have one order in all."""

    def __init__(self, pipeline: str, permissions: Permissions) -> None:
        self._pipeline, self._permissions = pipeline, permissions
        self.forking: Callable[[bool], None] = lambda _: None
        """Called with True before a process is started and with False after it."""
        self._own: dict[str, str] = {}
        if not os.environ.get(_HASH_SEED):
            self._own[_HASH_SEED] = str(secrets.randbelow(1 << 32))

    def start(self) -> Spare:
        """A new one, which takes its time until it listens.

        Raises:
            OSError: there is no room for another process.
        """
        ours, given = channels.opened()
        try:
            given.control, control = os.pipe()
        except OSError:
            ours.close()
            given.close()
            raise
        options = descriptors.inheritance(given.opened())
        environment = {**os.environ, **self._own}
        environment.pop("PYTHONPYCACHEPREFIX", None)  # else all of torch would be compiled
        own = tuple(self._own)
        beginning = Beginning(options.numbers, os.getpid(), own, self._permissions)
        command = [sys.executable, str(_BOOT), "--spare", json.dumps(to_plain(beginning))]
        if self._pipeline:
            command += ["--pipeline", self._pipeline]
        self.forking(True)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                env=environment,
                **options.popen,
            )
        except OSError:
            ours.close()
            os.close(control)
            raise
        finally:
            self.forking(False)
            given.close()
        process.returncode = 0  # else it would be waited for behind the back of its owner
        return Spare(process.pid, ours, control)


# -- in the spare -------------------------------------------------------------------------------


def begun(text: str) -> tuple[ProcessEnds, int, Permissions]:
    """What it was given, its parent, and what user code may do in it."""
    found: Beginning = from_plain(Beginning, json.loads(text))
    for name in found.unset:
        os.environ.pop(name, None)
    given = ProcessEnds(*descriptors.inherited(found.given))
    return given, found.parent, found.permissions


def next_order(control: int) -> wire.Order:
    """Wait for it; the process ends if none comes."""
    path = Path(os.fsdecode(_line(control)))
    found: wire.Order = wire.decode(path.read_bytes())
    path.unlink()
    return found


def next_command(control: int) -> wire.Downward:
    """Wait for the next command; the process ends if none can follow."""
    found: wire.Downward = wire.decode(_line(control))
    return found


def _line(control: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = _read(control, 1 << 12)
        if not part:
            _exit(0)
        line += part
    return line[:-1]
