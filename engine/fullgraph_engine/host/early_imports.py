"""Import modules early, before the packages that contain the edited file import them.

A package may import the edited file (``from .model import Net``) and then many other modules. The
engine keeps a process stopped at the edited file, in the middle of the package's imports. So each
edit would repeat the imports after the edited file. The kept process can import a module early if
it needs neither the edited file nor names defined later in the packages. A forked process finds
these modules.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import types
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from typing import NoReturn

from .process_backends import descriptors, processes

_fork, _exit, _kill, _waitpid = os.fork, os._exit, os.kill, os.waitpid
_read, _close, _pipe, _select = os.read, os.close, os.pipe, select.select

# importlib and inspect look up these names on any module.
_IGNORED = frozenset(("__path__", "__wrapped__", "__warningregistry__"))


def modules_in_progress() -> list[types.ModuleType]:
    """Return the modules whose import has begun but not ended."""
    found = []
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None) if type(module) is types.ModuleType else None
        if getattr(spec, "_initializing", False):
            found.append(module)
    return found


class _Unfinished(types.ModuleType):
    """The class given to modules whose import is still in progress, to record requests for names
    that the modules do not define yet."""

    def __getattr__(self, name: str) -> NoReturn:
        if name not in _IGNORED and not self._is_module(name):
            _asked.update(module.__name__ for module in modules_in_progress())
            _asked.add(self.__name__)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def _is_module(self, name: str) -> bool:
        path = self.__dict__.get("__path__")
        if path is None:
            return False
        return f"{self.__name__}.{name}" in sys.modules or bool(
            PathFinder.find_spec(f"{self.__name__}.{name}", path)
        )


_asked: set[str] = set()
"""Names of modules, with their import still in progress, from which code requested a name that they
do not define yet."""


def import_all(names: Iterable[str]) -> list[str]:
    """Import modules while other imports are in progress; return the names of the modules whose
    import succeeded.

    Failed modules are removed from ``sys.modules``; other side effects of their code remain.
    """
    waiting = modules_in_progress()
    good = []
    for module in waiting:
        module.__class__ = _Unfinished
    try:
        for name in names:
            if name in sys.modules:
                continue
            _asked.clear()
            threads = processes.count_threads()
            try:
                importlib.import_module(name)
                failed = False
            except BaseException:
                failed = True
            if failed or _asked or processes.count_threads() > threads:
                for one in (_asked | {name}) - {module.__name__ for module in waiting}:
                    sys.modules.pop(one, None)
            else:
                good.append(name)
    finally:
        for module in waiting:
            module.__class__ = types.ModuleType
    return good


def try_imports(names: Iterable[str], seconds: float, forking: Callable[[bool], None]) -> list[str]:
    """Return the modules in ``names`` that can be imported now, after trying it in a forked
    process.

    The forked process is ended after ``seconds``. ``forking`` is called with True before a process
    is started or ended, and with False after it.
    """
    reading, writing = _pipe()
    forking(True)
    try:
        pid = _fork()
    except OSError:
        _close(reading)
        _close(writing)
        return []
    finally:
        forking(False)
    if pid == 0:
        try:
            descriptors.write_all(writing, json.dumps(import_all(names)).encode())
        finally:
            _exit(0)
    _close(writing)
    answer = b""
    while _select([reading], [], [], seconds)[0]:
        part = _read(reading, 1 << 16)
        if not part:
            break
        answer += part
    _close(reading)
    forking(True)
    try:
        _kill(pid, signal.SIGKILL)
        _waitpid(pid, 0)
    except OSError:
        pass
    finally:
        forking(False)
    try:
        return [str(name) for name in json.loads(answer)]
    except ValueError:  # the fork timed out or crashed
        return []
