"""Which engine a command needs: all that its results depend on besides the request."""

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
"""Variables whose relative paths an engine resolves when it is started."""


@dataclass(frozen=True)
class EngineLaunch:
    """How an engine is started. ``processes`` and ``allowed`` are as of an ``Engine``."""

    interpreter: str
    processes: str = "auto"
    allowed: Allowed = Allowed()  # noqa: RUF009 - it is frozen
    cwd: str = os.sep
    """The folder of no project, where it does not matter: a request brings its own."""

    @staticmethod
    def for_project(
        interpreter: Path,
        project: Path,
        environment: Mapping[str, str],
        *,
        processes: str,
        allowed: Allowed,
    ) -> EngineLaunch:
        """For files of a project."""
        listed = (environment.get(name, "/").split(os.pathsep) for name in _PATHS)
        is_relative = any(not one.startswith(("/", "~")) for paths in listed for one in paths)
        cwd = str(project) if is_relative else os.sep
        return EngineLaunch(str(interpreter.absolute()), processes, allowed, cwd)

    def engine_name(self, environment: Mapping[str, str]) -> str:
        """What an engine is called that is started so, by this process, with fullgraph and the
        packages of the interpreter as they are now: hexadecimal digits.

        Raises:
            Unavailable: no file tells where its torch is, and so none whether it has changed.
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
        """The folders that its torch may be in.

        Raises:
            Unavailable: as ``name``.
        """
        found = torch_folders(Path(self.interpreter), environment)
        if not found:
            raise BackgroundUnavailable(
                f"The files of the torch of {self.interpreter} were not found."
            )
        return found

    def torch_state(self, environment: Mapping[str, str]) -> str:
        """Equal as long as no file of its torch has changed that an engine holds in memory.

        Takes a tenth of a second.
        """
        return _hash_parts(tuple(file_states(self.torch_paths(environment))))


def _hash_parts(parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(errors="replace"), digest_size=12).hexdigest()


def _inherited_state() -> Iterator[object]:
    """What a process has of the one that starts it, besides variables."""
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
