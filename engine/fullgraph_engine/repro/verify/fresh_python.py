"""A fresh Python, started ahead: by the time there is a script to run, torch is imported in it."""

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
class Ended:
    """``status`` is None if it was ended because time was up. ``output`` names the file without
    the folder that it was run in, which is gone by the time somebody reads it."""

    status: int | None
    output: str


class FreshPython:
    """Another process of this interpreter, without anything of ours in it.

    Imports of torch are the same as in the script itself, only earlier. It inherits what the kernel
    keeps this process from, so it is started behind the sandbox. ``forking`` is called with True
    before a process is started or ended and with False after it.
    """

    def __init__(self, scratch: str, forking: Callable[[bool], None]) -> None:
        self._forking = forking
        come, out = os.pipe()
        into, self._go = os.pipe()
        self._output, self._seen, self._path = come, bytearray(), ""
        environment = {**os.environ, "TMPDIR": scratch}
        # With another place for compiled files it would compile all of torch.
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
        """Start to run a file as the main program. To be called once."""
        self._path = path
        with contextlib.suppress(OSError):
            _write(self._go, f"{path}\n".encode())
        os.close(self._go)
        self._go = -1  # soon it is the number of another one

    def wait(self, seconds: float) -> Ended | None:
        """How that has ended; None if it goes on after so many seconds."""
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
        return Ended(os.waitstatus_to_exitcode(status), _text(self._seen, self._path))

    def end(self) -> Ended:
        """Kill it while it goes on; what it wrote until then."""
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
        return Ended(None, _text(self._seen, self._path))


def _text(output: bytearray, path: str) -> str:
    return output.decode(errors="replace").replace(path, os.path.basename(path))  # noqa: PTH119
