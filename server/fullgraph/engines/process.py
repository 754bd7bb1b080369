"""One engine process and the private pipe to it."""

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

LONGEST_LINE = 64 * 1024 * 1024
LAST_WORDS = 4000
_PR_SET_DUMPABLE = 4


def boot_script() -> Path:
    """Where the engine is started from, found without importing it.

    The engine package is installed beside this one, or lies in the source tree.
    """
    spec = importlib.util.find_spec("fullgraph_engine")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            "The engine of fullgraph is missing from this installation: reinstall fullgraph."
        )
    return Path(next(iter(spec.submodule_search_locations))) / "boot.py"


def yaml_folder() -> Path | None:
    """PyYAML, for the engine to read torchgen's files with: its interpreter may have none."""
    spec = importlib.util.find_spec("yaml")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def hide_environment_from(sandbox: SandboxLevel) -> None:
    """Hide it from user code in this sandbox, where the kernel does not."""
    if not any(one.name == "Landlock" and one.holds for one in sandbox.layers):
        hide_environment()


def hide_environment() -> None:
    """Keep processes of the same user from reading the variables and the memory of this one.

    The kernel keeps user code from it where there is Landlock or a user namespace, or where the
    engine was root; elsewhere this does.
    """
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def working_folder() -> Path:
    """The one that the server was started in, unless somebody has removed it since."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.sep)


class LineProtocol(asyncio.Protocol):
    """Splits what comes through a pipe or a socket at newlines.

    A line that gets longer than ``longest`` is given to ``on_long`` as far as it is there.
    """

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
    """A started engine. ``on_event`` gets everything it says, ``on_death`` one call at its end."""

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
        self._watch: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._output_ended = asyncio.Event()
        self._last_words = ""
        self.broken = ""
        """Why the connection was given up, where the engine broke the protocol."""

    async def start(self) -> None:
        """Spawn it.

        Raises:
            OSError: the interpreter cannot be executed.
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
                # Never ours: standard output of the server is the connection to the editor.
                stdout=output_write,
                stderr=output_write,
                pass_fds=(requests_read, events_write),
                # Where there is none, torch cannot be imported.
                cwd=str(self._cwd or working_folder()),
                # A group of its own, so that Ctrl-C at a terminal reaches only us.
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
        self._watch = asyncio.create_task(self._until_death())

    def _allowed_options(self) -> tuple[str, ...]:
        if self._allowed == Allowed():
            return ()
        return ("--allowed", json.dumps(to_plain(self._allowed)))

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def is_stopped(self, *, starting: bool) -> bool:
        """A signal has stopped it, as far as that can be known: on Linux.

        ``starting``: or has stopped what it has started itself, which it may wait for until it is
        ready and looks after that.
        """
        if self._process is None:
            return False
        pid = self._process.pid
        return _is_stopped(pid) or (starting and any(map(_is_stopped, _child_pids(pid))))

    @property
    def last_words(self) -> str:
        """The end of what it printed, for the report of a crash."""
        return self._last_words.strip()

    @property
    def exit_status(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def send(self, message: Request) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(encode(message))

    def kill(self) -> None:
        """End it and what it started, now."""
        if self._process is None or self._process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self, grace: float) -> None:
        """Let it end by itself when its pipe closes, else kill it. No report of its death."""
        self._on_death = lambda process: None
        for transport in self._transports[:1]:
            transport.close()
        if self._process is not None:
            try:
                await asyncio.wait_for(self._process.wait(), grace)
            except asyncio.TimeoutError:
                self.kill()
                await self._process.wait()
        if self._watch is not None:
            self._watch.cancel()
        for transport in self._transports:
            transport.close()

    async def _until_death(self) -> None:
        assert self._process is not None
        # A closed pipe ends it as surely as its exit: without the pipe it is of no use.
        exit_ = asyncio.ensure_future(self._process.wait())
        ended = asyncio.ensure_future(self._ended.wait())
        await asyncio.wait({exit_, ended}, return_when=asyncio.FIRST_COMPLETED)
        try:
            await asyncio.wait_for(asyncio.shield(exit_), 0.5)
        except asyncio.TimeoutError:
            self.kill()
            await exit_
        # What it said last is often still in the pipes. A grandchild may hold them open.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ended.wait(), 0.5)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._output_ended.wait(), 0.5)
        ended.cancel()
        for transport in self._transports:
            transport.close()
        self._on_death(self)

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
    # The command between the parentheses may itself hold spaces and parentheses.
    return stat[stat.rindex(b")") + 2 :].startswith(b"T")


def _child_pids(pid: int) -> list[int]:
    """Those of the main thread; none where the kernel does not list them."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
