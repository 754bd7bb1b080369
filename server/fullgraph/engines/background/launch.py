"""Identify the background engine that a command can share, by everything that affects the results
of an engine.
"""

from __future__ import annotations

import hashlib
import os
import platform
import resource
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import fullgraph
from fullgraph import __version__
from fullgraph.engines.background.folder import BackgroundUnavailable
from fullgraph.engines.environment import stable_variables
from fullgraph.engines.installation import file_states, packages_state, torch_folders
from fullgraph.engines.process import boot_script
from fullgraph_engine.protocol import Allowed

_NAMESPACES = ("mnt", "net", "pid", "user", "ipc", "uts")


_PATHS = (
    *("PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR", "XDG_CACHE_HOME", "TORCH_HOME"),
    *("TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "HF_HOME"),
)
"""Environment variables with paths; an engine resolves relative ones against its working folder
when it starts.
"""


@dataclass(frozen=True)
class EngineLaunch:
    """The parameters with which an engine is started.

    ``processes``: setting that selects how the engine starts processes. ``allowed``: permissions of
    user code beyond the default sandbox.
    """

    interpreter: str
    processes: str = "auto"
    allowed: Allowed = Allowed()  # noqa: RUF009 - it is frozen
    cwd: str = os.sep
    """Working folder of the engine; the root folder if results do not depend on it."""

    @staticmethod
    def for_project(
        interpreter: Path,
        project: Path,
        environment: Mapping[str, str],
        *,
        processes: str,
        allowed: Allowed,
    ) -> EngineLaunch:
        """Return the parameters for starting an engine that traces the files of ``project``.

        ``processes``: setting that selects how the engine starts processes. ``allowed``:
        permissions of user code.
        """
        listed = (environment.get(name, "/").split(os.pathsep) for name in _PATHS)
        is_relative = any(not one.startswith(("/", "~")) for paths in listed for one in paths)
        cwd = str(project) if is_relative else os.sep
        return EngineLaunch(str(interpreter.absolute()), processes, allowed, cwd)

    def engine_name(self, environment: Mapping[str, str]) -> str:
        """Return a hash, in hexadecimal digits, of everything that affects the results of an engine
        started now with these parameters.

        Raises:
            BackgroundUnavailable: The files of the interpreter's torch are unknown, so changes
                cannot be detected.
        """
        self.torch_paths(environment)
        parts = (
            self,
            stable_variables(environment),
            tuple(_inherited_state()),
            (__version__, sys.executable, platform.python_version()),
            tuple(file_states(_own_folders())),
            packages_state(Path(self.interpreter)),
        )
        return _hash_parts(parts)

    def torch_paths(self, environment: Mapping[str, str]) -> tuple[Path, ...]:
        """Return the folders that may contain the torch of the interpreter.

        Raises:
            BackgroundUnavailable: The files of the interpreter's torch were not found.
        """
        found = torch_folders(Path(self.interpreter), environment)
        if not found:
            raise BackgroundUnavailable(f"The torch files of {self.interpreter} were not found.")
        return found

    def torch_state(self, environment: Mapping[str, str]) -> str:
        """Return a value that changes when a file of the interpreter's torch changes. Takes a tenth
        of a second.
        """
        return _hash_parts(tuple(file_states(self.torch_paths(environment))))


def _hash_parts(parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(errors="replace"), digest_size=12).hexdigest()


def _inherited_state() -> Iterator[object]:
    """Yield the properties of this process, other than environment variables, that its child
    processes inherit."""
    yield os.geteuid(), os.getegid(), os.getgroups()
    for namespace in _NAMESPACES:
        try:
            yield os.readlink(f"/proc/self/ns/{namespace}")  # noqa: PTH115
        except OSError:
            yield ""
    root = os.stat("/")  # noqa: PTH116
    yield root.st_dev, root.st_ino
    for name in sorted(dir(resource)):
        if name.startswith("RLIMIT_"):
            yield name, resource.getrlimit(getattr(resource, name))
    yield os.getpriority(os.PRIO_PROCESS, 0)
    if hasattr(os, "sched_getaffinity"):
        yield sorted(os.sched_getaffinity(0))


def _own_folders() -> tuple[Path, ...]:
    return Path(fullgraph.__file__).parent, boot_script().parent
