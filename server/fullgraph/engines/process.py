"""One engine process and the private pipes to it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from fullgraph_engine.protocol import (
    Allowed,
    Event,
    Message,
    ProtocolError,
    Request,
    SandboxLevel,
    decode,
    encode,
    to_plain,
)
from fullgraph_engine.protocol.scratch import remove_scratch

LONGEST_LINE = 64 * 1024 * 1024
LAST_WORDS = 4000
LOOK_AT_PROCESS = 1.0
"""Interval in seconds of the checks whether a signal has paused the engine process; the second
positive check kills it.
"""
_PR_SET_DUMPABLE = 4


def boot_script() -> Path:
    """Return the path of the Python script that starts an engine process, which executes user code.

    The engine package is located but not imported: it is installed next to this package, or is part
    of the source tree.
    """
    spec = importlib.util.find_spec("fullgraph_engine")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            "The engine of fullgraph is missing from this installation: reinstall fullgraph."
        )
    return Path(next(iter(spec.submodule_search_locations))) / "boot.py"


def yaml_folder() -> Path | None:
    """Return the folder of PyYAML, which the engine's interpreter may lack, to parse torchgen's
    files."""
    spec = importlib.util.find_spec("yaml")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def hide_environment_from(sandbox: SandboxLevel) -> None:
    """Hide this process's environment variables from user code if the kernel does not protect them
    in this sandbox.
    """
    if not any(one.name == "Landlock" and one.holds for one in sandbox.layers):
        hide_environment()


def hide_environment() -> None:
    """Prevent processes of the same user from reading this process's variables and memory.

    With Landlock, a user namespace or root, the kernel already protects them.
    """
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def working_folder() -> Path:
    """Return the current folder, or the root folder if the current one was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.sep)


class LineProtocol(asyncio.Protocol):
    """A protocol that splits received data into lines. If a line is longer than ``longest``, only
    its beginning is passed on, to ``on_long``."""

    def __init__(
        self,
        on_line: Callable[[bytes], None],
        on_end: Callable[[], None],
        *,
        longest: int,
        on_long: Callable[[bytes], None],
    ) -> None:
        self._on_line = on_line
        self._on_end = on_end
        self._longest = longest
        self._on_long = on_long
        self._parts: list[bytes] = []
        self._size = 0

    def data_received(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._parts.append(line)
            self._on_line(self._take_line())
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > self._longest:
                self._on_long(self._take_line())

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()

    def _take_line(self) -> bytes:
        whole = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return whole


class EngineProcess:
    """An engine in a child process. ``on_event`` receives its events; ``on_death`` is called once
    when the process ends.
    """

    def __init__(
        self,
        interpreter: Path,
        *,
        boot: Path,
        cwd: Path | None,
        on_event: Callable[[EngineProcess, Event], None],
        on_output: Callable[[str], None],
        on_death: Callable[[EngineProcess], None],
        index: bool = True,
        processes: str = "auto",
        allowed: Allowed = Allowed(),  # noqa: B008 - it is frozen
    ) -> None:
        self._interpreter = interpreter
        self._boot = boot
        self._cwd = cwd
        self._index = index
        self._processes = processes
        self._allowed = allowed
        self._on_event = on_event
        self._on_output = on_output
        self._on_death = on_death
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._transports: list[asyncio.BaseTransport] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._ended = asyncio.Event()
        self._output_ended = asyncio.Event()
        self._last_words = ""
        self.broken = ""
        """Reason for closing the pipes if the engine sent an invalid message; empty otherwise."""
        self.starting = True
        """True until the engine is ready. A starting engine waits for its child processes, so a
        paused child pauses the engine."""

    async def start(self) -> None:
        """Start the engine process and connect the pipes to it.

        Raises:
            OSError: The interpreter cannot be executed.
        """
        loop = asyncio.get_running_loop()
        requests_read, requests_write = os.pipe()
        events_read, events_write = os.pipe()
        output_read, output_write = os.pipe()
        ours = [requests_write, events_read, output_read]
        yaml = yaml_folder()
        try:
            self._process = await asyncio.create_subprocess_exec(
                str(self._interpreter),
                str(self._boot),
                "--read",
                str(requests_read),
                "--write",
                str(events_write),
                *(() if yaml is None else ("--yaml", str(yaml))),
                *(() if self._index else ("--index", "no")),
                "--processes",
                self._processes,
                *self._allowed_options(),
                stdin=subprocess.DEVNULL,
                # Standard output of the server is the connection to the editor.
                stdout=output_write,
                stderr=output_write,
                pass_fds=(requests_read, events_write),
                # The import of torch requires an existing folder.
                cwd=str(self._cwd or working_folder()),
                # A separate session keeps Ctrl-C in a terminal from reaching the engine.
                start_new_session=True,
            )
        except BaseException:
            for fd in ours:
                os.close(fd)
            raise
        finally:
            for fd in (requests_read, events_write, output_write):
                os.close(fd)
        self._writer, _ = await loop.connect_write_pipe(
            asyncio.BaseProtocol, os.fdopen(requests_write, "wb", 0)
        )
        events, _ = await loop.connect_read_pipe(
            lambda: LineProtocol(
                self._handle_line,
                self._ended.set,
                longest=LONGEST_LINE,
                on_long=self._handle_long_line,
            ),
            os.fdopen(events_read, "rb", 0),
        )
        output, _ = await loop.connect_read_pipe(
            lambda: LineProtocol(
                self._handle_output,
                self._output_ended.set,
                longest=LAST_WORDS,
                on_long=self._handle_output,
            ),
            os.fdopen(output_read, "rb", 0),
        )
        self._transports = [self._writer, events, output]
        self._tasks = [
            asyncio.create_task(self._until_death()),
            asyncio.create_task(self._kill_if_paused()),
        ]

    def _allowed_options(self) -> tuple[str, ...]:
        if self._allowed == Allowed():
            return ()
        return ("--allowed", json.dumps(to_plain(self._allowed)))

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def last_words(self) -> str:
        """The last part of the output that the engine process printed, for crash reports."""
        return self._last_words.strip()

    @property
    def exit_status(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def send(self, message: Request) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(encode(message))

    def kill(self) -> None:
        """Kill the engine process and its children now."""
        if self._process is None or self._process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self, grace: float) -> None:
        """Close the pipe so that the engine process exits, and kill it after ``grace`` seconds.
        ``on_death`` is not called.
        """
        self._on_death = lambda process: None
        for transport in self._transports[:1]:
            transport.close()
        if self._process is not None:
            try:
                await asyncio.wait_for(self._process.wait(), grace)
            except asyncio.TimeoutError:
                self.kill()
                await self._process.wait()
            if self._process.returncode != 0:
                remove_scratch(self._process.pid)
        for task in self._tasks:
            task.cancel()
        for transport in self._transports:
            transport.close()

    async def _until_death(self) -> None:
        assert self._process is not None
        # A closed pipe counts as an exit, because the process is useless without it.
        exit_ = asyncio.ensure_future(self._process.wait())
        ended = asyncio.ensure_future(self._ended.wait())
        await asyncio.wait({exit_, ended}, return_when=asyncio.FIRST_COMPLETED)
        try:
            await asyncio.wait_for(asyncio.shield(exit_), 0.5)
        except asyncio.TimeoutError:
            self.kill()
            await exit_
        # Read the output left in the pipes, unless a process started by user code keeps them open.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ended.wait(), 0.5)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._output_ended.wait(), 0.5)
        ended.cancel()
        for transport in self._transports:
            transport.close()
        self._on_death(self)

    async def _kill_if_paused(self) -> None:
        """Kill the engine process if a signal such as SIGSTOP has paused it, because it neither
        answers nor exits. Pauses are recognized only on Linux.
        """
        assert self._process is not None
        pid, was_paused = self._process.pid, False
        while self._process.returncode is None:
            await asyncio.sleep(LOOK_AT_PROCESS)
            is_paused = _is_stopped(pid) or (
                self.starting and any(map(_is_stopped, _child_pids(pid)))
            )
            if is_paused and was_paused:
                self.kill()
            was_paused = is_paused

    def _handle_line(self, line: bytes) -> None:
        if not line.strip() or self.broken:
            return
        try:
            message: Message = decode(line)
        except ProtocolError as error:
            self.broken = str(error)
            self._ended.set()
            return
        self._on_event(self, message)  # type: ignore[arg-type]

    def _handle_long_line(self, line: bytes) -> None:
        self.broken = f"a line of more than {LONGEST_LINE // 2**20} MiB"
        self._ended.set()

    def _handle_output(self, line: bytes) -> None:
        text = line.decode(errors="replace") + "\n"
        self._last_words = (self._last_words + text)[-LAST_WORDS:]
        self._on_output(text)


def _is_stopped(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    # The state follows the command name in parentheses, which may itself contain spaces and
    # parentheses.
    return stat[stat.rindex(b")") + 2 :].startswith(b"T")


def _child_pids(pid: int) -> list[int]:
    """Return the ids of the child processes of a process's main thread; empty if the kernel does
    not list them.
    """
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
