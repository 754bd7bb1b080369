"""Spares: Python interpreters that were started in advance, have imported torch, and wait for an
order.

A spare performs a single order (such as executing a user's file), which it receives as the name of
a file.
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
    """A spare: an interpreter with torch imported, waiting for an order. This object is used in the
    process that started the interpreter."""

    pid: int
    channels: Channels
    control: int
    """Descriptor of the pipe for commands to the waiting interpreter; -1 after it was closed."""

    def send_order(self, order: wire.Order, folder: str) -> None:
        """Write an order to a file in ``folder`` and send its path to the waiting interpreter,
        which then performs the order.

        Raises:
            OSError: the folder is not writable.
        """
        path = Path(folder, f"order-{self.pid}")
        path.write_bytes(wire.encode_message(order))
        self.write_line(str(path).encode())

    def write_line(self, line: bytes) -> None:
        try:
            os.write(self.control, line + b"\n")
        except OSError:
            return

    def close(self) -> None:
        """Close the pipe for commands.

        The interpreter then ends, unless it has received an order.
        """
        if self.control >= 0:
            os.close(self.control)
            self.control = -1

    def discard(self) -> None:
        """Close this process's ends of the pipes to the waiting interpreter."""
        self.close()
        self.channels.close()


@dataclass(frozen=True)
class Beginning:
    """The parameters that a new interpreter is started with.

    ``unset`` names environment variables to remove after the start.
    """

    given: tuple[int, ...]
    parent: int
    unset: tuple[str, ...]
    permissions: Permissions


class Starter:
    """A starter of spares: interpreters that import torch in advance and wait for an order.

    All get the same hash seed, so that sets of strings have the same order in each.
    """

    def __init__(self, pipeline: str, permissions: Permissions) -> None:
        self._pipeline, self._permissions = pipeline, permissions
        self.forking: Callable[[bool], None] = lambda _: None
        """Callback that gets True before an interpreter is started and False after it."""
        self._own: dict[str, str] = {}
        if not os.environ.get(_HASH_SEED):
            self._own[_HASH_SEED] = str(secrets.randbelow(1 << 32))

    def start(self) -> Spare:
        """Start an interpreter that imports torch, which takes seconds, and then waits for an
        order.

        Raises:
            OSError: the system lacks resources for another process.
        """
        ours, given = channels.open_channels()
        try:
            given.control, control = os.pipe()
        except OSError:
            ours.close()
            given.close()
            raise
        options = descriptors.prepare_inheritance(given.open_descriptors())
        environment = {**os.environ, **self._own}
        # With another bytecode cache, Python would compile all of torch's modules.
        environment.pop("PYTHONPYCACHEPREFIX", None)
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
        # Make this Popen object treat the process as ended, because its owner waits for the process
        # without the object.
        process.returncode = 0
        return Spare(process.pid, ours, control)


# -- in the spare -------------------------------------------------------------------------------


def decode_beginning(text: str) -> tuple[ProcessEnds, int, Permissions]:
    """Decode the parameters of a new interpreter: its channels to the main process, the parent's
    pid and the permissions of user code."""
    found: Beginning = from_plain(Beginning, json.loads(text))
    for name in found.unset:
        os.environ.pop(name, None)
    given = ProcessEnds(*descriptors.adopt_inherited(found.given))
    return given, found.parent, found.permissions


def next_order(control: int) -> wire.Order:
    """Wait until the main process sends an order, and return it; exit if the pipe for commands
    closes."""
    path = Path(os.fsdecode(_read_line(control)))
    found: wire.Order = wire.decode_message(path.read_bytes())
    path.unlink()
    return found


def next_command(control: int) -> wire.Downward:
    """Wait for the next command of the main process; exit if the pipe for commands closes."""
    found: wire.Downward = wire.decode_message(_read_line(control))
    return found


def _read_line(control: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = _read(control, 1 << 12)
        if not part:
            _exit(0)
        line += part
    return line[:-1]
