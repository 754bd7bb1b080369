"""A fresh Python process that imports torch while the script is still being minimized."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

_START = """
import os, sys, types
from importlib.machinery import SourceFileLoader
import torch, torch._dynamo
path = sys.stdin.readline().rstrip("\\n")
sys.argv = [path]
sys.stdin.close()
main = sys.modules["__main__"] = types.ModuleType("__main__")
main.__file__, main.__loader__ = path, SourceFileLoader("__main__", path)
exec(compile(main.__loader__.get_data(path), path, "exec"), vars(main))
"""
_MOST_OUTPUT = 1 << 16

_select, _monotonic, _read, _write = select.select, time.monotonic, os.read, os.write


@dataclass(frozen=True)
class ScriptOutcome:
    """The exit status and output of a script that was run in a fresh Python.

    ``status`` is None if the time limit ended the script. In ``output``, the script's file is named
    without its temporary folder.
    """

    status: int | None
    output: str


class FreshPython:
    """A new Python process that imports torch ahead of time and then runs one script.

    It has none of the engine's state. It inherits the sandbox of this process, so it must be
    started after the sandbox is set up. ``forking`` is called with True before a process is started
    or ended, and with False afterwards.
    """

    def __init__(self, scratch: str, forking: Callable[[bool], None]) -> None:
        self._forking = forking
        come, out = os.pipe()
        into, self._go = os.pipe()
        self._output, self._seen, self._path = come, bytearray(), ""
        environment = {**os.environ, "TMPDIR": scratch}
        # With another bytecode cache, the process would compile all of torch's modules.
        for name in ("PYTHONPATH", "PYTHONSTARTUP", "PYTHONPYCACHEPREFIX"):
            environment.pop(name, None)
        actions = [
            (os.POSIX_SPAWN_DUP2, into, 0),
            (os.POSIX_SPAWN_DUP2, out, 1),
            (os.POSIX_SPAWN_DUP2, out, 2),
        ]
        forking(True)
        try:
            self._pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-c", _START],
                environment,
                file_actions=actions,
                setpgroup=0,
                setsigmask=(),
                setsigdef=(signal.SIGPIPE, signal.SIGINT),
            )
        finally:
            forking(False)
            os.close(into)
            os.close(out)

    def begin(self, path: str) -> None:
        """Start to run a file as the main program; call it only once."""
        self._path = path
        with contextlib.suppress(OSError):
            _write(self._go, f"{path}\n".encode())
        os.close(self._go)
        self._go = -1  # the system will reuse the number for another descriptor

    def wait(self, seconds: float) -> ScriptOutcome | None:
        """Return the outcome of the script, or None if it still runs after ``seconds``."""
        until = _monotonic() + seconds
        while True:
            left = until - _monotonic()
            ready, _, _ = _select([self._output], [], [], max(left, 0.0))
            if not ready:
                return None
            part = _read(self._output, 1 << 16)
            if not part:
                break
            if len(self._seen) < _MOST_OUTPUT:
                self._seen += part
        os.close(self._output)
        _, status = os.waitpid(self._pid, 0)
        return ScriptOutcome(
            os.waitstatus_to_exitcode(status), _decode_output(self._seen, self._path)
        )

    def end(self) -> ScriptOutcome:
        """Kill the process and return the script's output so far."""
        self._forking(True)
        try:
            with contextlib.suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.waitpid(self._pid, 0)
        finally:
            self._forking(False)
        if self._go >= 0:
            os.close(self._go)
        os.close(self._output)
        return ScriptOutcome(None, _decode_output(self._seen, self._path))


def _decode_output(output: bytearray, path: str) -> str:
    return output.decode(errors="replace").replace(path, os.path.basename(path))  # noqa: PTH119
