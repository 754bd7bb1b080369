"""What keeps user code from the rest of the machine, layer by layer, and what a user lets it do."""

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
    "audit hook": "Python code writes no files outside of a scratch folder, starts no processes",
    "Landlock": "the same for C code; no signals to, and no look into, other processes",
    "seccomp": "no sockets, no shared memory that stays, no priorities or limits of others",
    "pid namespace": "no process outlives the engine or sees others than the engine's",
    "network namespace": "no network device",
    "IPC namespace": "no System V shared memory of others",
    "read-only mounts": "no modes, owners and times of files are changed",
    "private /dev/shm": "shared memory is limited, and freed at the end",
}
"""What each layer is for, as a clause."""


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
"""A cache of a library in the home folder: ``host/caches`` knows where."""


@dataclass(frozen=True)
class Allowance:
    """An entry of the setting ``sandbox.allow``. ``value`` is the folder of ``write``, the variable
    of ``read-env``, and else empty."""

    kind: AllowanceKind
    value: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}" if self.value else self.kind


@dataclass(frozen=True)
class WritableFolder:
    """``path`` is absolute. Where links lead from it out of ``inside``, it is not writable."""

    path: str
    inside: str = ""


@dataclass(frozen=True)
class Allowed:
    """What user code may do beyond what every run may: all entries of ``sandbox.allow`` together.

    ``programs`` may be started; ``variables`` of the environment stay though they look like
    secrets.
    """

    network: bool = False
    programs: bool = False
    writable: tuple[WritableFolder, ...] = ()
    caches: tuple[Cache, ...] = ()
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class SandboxLayer:
    """``lack`` says why it does not hold, as part of a sentence, and is empty if it does.
    ``partly``: it holds but for that."""

    name: Layer
    lack: str = ""
    partly: bool = False

    @property
    def holds(self) -> bool:
        """Whether it does, at least in part."""
        return self.partly or not self.lack


@dataclass(frozen=True)
class SandboxLevel:
    """Every layer, whether it holds or not."""

    layers: tuple[SandboxLayer, ...] = ()
