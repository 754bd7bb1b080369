"""Layers of the sandbox around user code, and the permissions that users grant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Layer = Literal[
    "audit hook",
    "Landlock",
    "seccomp",
    "pid namespace",
    "network namespace",
    "IPC namespace",
    "read-only mounts",
    "private /dev/shm",
]

PURPOSES: dict[Layer, str] = {
    "audit hook": "Python code cannot write files outside of a scratch folder or start processes",
    "Landlock": (
        "C code cannot write files outside of a scratch folder, or signal or inspect other "
        "processes"
    ),
    "seccomp": (
        "code cannot open sockets, create lasting shared memory or change limits of other processes"
    ),
    "pid namespace": "code sees only the engine's processes, and its processes end with the engine",
    "network namespace": "code has no network devices",
    "IPC namespace": "code cannot use System V shared memory of other processes",
    "read-only mounts": "modes, owners and times of files cannot be changed",
    "private /dev/shm": "shared memory is limited, and freed at the end",
}
"""Protection that each sandbox layer provides, as a clause for the user."""


AllowanceKind = Literal[
    "write",
    "network",
    "read-env",
    "subprocess",
    "cpp-extensions",
    "triton-cache",
    "huggingface-cache",
]
Cache = Literal["cpp-extensions", "triton-cache", "huggingface-cache"]
"""Name of a library's cache in the home folder that user code may be allowed to use;
``host/caches`` has the paths."""


@dataclass(frozen=True)
class Allowance:
    """One permission for user code, from the setting ``sandbox.allow``.

    ``value`` is the folder for ``write`` and the variable for ``read-env``; otherwise it is empty.
    """

    kind: AllowanceKind
    value: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}" if self.value else self.kind


@dataclass(frozen=True)
class WritableFolder:
    """A folder that user code may write to.

    ``path`` is absolute. The folder is not writable if ``path`` contains symbolic links that lead
    outside the folder ``inside``.
    """

    path: str
    inside: str = ""


@dataclass(frozen=True)
class Allowed:
    """The permissions of user code beyond the default ones, from all entries of ``sandbox.allow``.

    ``programs``: user code may start programs. ``variables`` are environment variables to keep
    although they look like secrets.
    """

    network: bool = False
    programs: bool = False
    writable: tuple[WritableFolder, ...] = ()
    caches: tuple[Cache, ...] = ()
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class SandboxLayer:
    """One layer of the sandbox around user code, and whether it is active.

    ``lack`` is part of a sentence that says why the layer is not active; empty if it is.
    ``partly``: the layer is active except for ``lack``.
    """

    name: Layer
    lack: str = ""
    partly: bool = False

    @property
    def holds(self) -> bool:
        """True if the layer protects the machine, completely or in part."""
        return self.partly or not self.lack


@dataclass(frozen=True)
class SandboxLevel:
    """State of all sandbox layers, active or not."""

    layers: tuple[SandboxLayer, ...] = ()
