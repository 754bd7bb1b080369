"""Combine the sandbox layers of the kernel: detect which exist, and apply them to processes that
execute user code."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from ...protocol import from_plain, to_plain
from ...protocol.sandbox import Allowed, SandboxLayer, SandboxLevel
from .. import caches
from . import descriptors, landlock, limits, namespaces, processes, seccomp
from .namespaces import Entered

SHARED_MEMORY = namespaces.SHARED_MEMORY
_SECONDS = 10.0
_LEFT_OUT = "switched off for a measurement"

Part = Literal[
    "audit hook",
    "Landlock",
    "seccomp",
    "pid namespace",
    "network namespace",
    "IPC namespace",
    "mounts",
    "capabilities",
    "credentials",
]
"""Name of a sandbox layer that can be left out, in order to measure its effect."""

_left_out: set[Part] = set()


def leave_out(parts: Iterable[str]) -> None:
    """Do not apply the named sandbox layers in this process and all processes forked from it.

    Raises:
        ValueError: a name is not a layer of the sandbox.
    """
    known = {str(part): part for part in get_args(Part)}
    for name in parts:
        if name not in known:
            raise ValueError(
                f"{name} is not a layer of the sandbox; the layers are {', '.join(known)}"
            )
        _left_out.add(known[name])


def is_left_out(part: Part) -> bool:
    """Whether a layer of the sandbox was disabled with ``leave_out``."""
    return part in _left_out


@dataclass(frozen=True)
class Confinement:
    """The sandbox layers that all processes of an engine share, and the state of each.

    ``collector`` is the pid of the first process in the engine's pid namespace; 0 without such a
    namespace.
    """

    level: SandboxLevel
    collector: int = 0

    def collector_has_ended(self) -> bool:
        """Whether the first process of the pid namespace exists and is ending. It finishes only
        after all other processes of the namespace."""
        return bool(self.collector) and processes.is_exiting(self.collector)


@dataclass(frozen=True)
class _KernelSupport:
    """The sandbox layers that this kernel supports, according to a test in a temporary process."""

    entered: Entered
    level: SandboxLevel


def begin_confinement(scratch: str, allowed: Allowed) -> Confinement:
    """Detect the available sandbox layers, and enter the namespaces that all processes started
    later inherit.

    Call it before a second thread starts. ``scratch`` is the engine's temporary folder, which the
    test uses.
    """
    seen = _test_kernel(scratch, allowed)
    collector = 0
    if seen.entered.held:
        namespaces.reenter_namespaces(seen.entered)
        if seen.entered.held & namespaces.PID:
            collector = namespaces.start_collector()
    return Confinement(seen.level, collector)


@dataclass(frozen=True)
class Confined:
    """The sandbox layers that apply to one process, and its private folders, whose changes only
    this process sees."""

    layers: tuple[SandboxLayer, ...]
    private: tuple[str, ...] = ()


def confine_process(
    root: str, allowed: Allowed, *, memory: int, programs: bool, private: tuple[str, ...] = ()
) -> Confined:
    """Apply the sandbox to this process and the processes that it forks later; this cannot be
    undone.

    Files may be written below ``root`` and in ``allowed`` folders. ``memory`` is the MiB of shared
    memory. ``programs``: programs may be started. Changes below ``private`` folders are discarded
    with the process, if the kernel supports overlays.
    """
    folders = caches.writable_folders(allowed)
    mounts = namespaces.Mounts(_LEFT_OUT, _LEFT_OUT)
    if not is_left_out("mounts"):
        mounts = namespaces.restrict_mounts(root, memory, folders, private)
    if not is_left_out("capabilities"):
        namespaces.drop_capabilities()
    on_landlock = SandboxLayer("Landlock", _LEFT_OUT)
    if not is_left_out("Landlock"):
        writable = (root, namespaces.SHARED_MEMORY, *folders, *mounts.private)
        on_landlock = landlock.restrict_process(writable, _DEVICES, network=allowed.network)
    on_seccomp = _LEFT_OUT
    if not is_left_out("seccomp"):
        metadata = programs or not mounts.read_only
        on_seccomp = seccomp.restrict_calls(
            programs=programs or allowed.programs, metadata=metadata, network=allowed.network
        )
    network = "network access is allowed" if allowed.network else ""
    layers = (
        on_landlock,
        SandboxLayer("seccomp", on_seccomp or network, partly=not on_seccomp),
        SandboxLayer("read-only mounts", mounts.read_only),
        SandboxLayer("private /dev/shm", mounts.shared_memory),
    )
    return Confined(layers, mounts.private)


_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom"))
"""Device files that user code may write to. Terminals, disks and GPUs are not among them."""


def isolate_process() -> None:
    """Prevent this process from sending signals to the process that it was forked from."""
    if not is_left_out("Landlock"):
        landlock.isolate_signals()


def _test_kernel(scratch: str, allowed: Allowed) -> _KernelSupport:
    """Return which layers of the sandbox the kernel supports, after testing all of them in other
    processes."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            limits.end_within(None, _SECONDS)
            _report_support(scratch, allowed, writing)
        finally:
            os._exit(0)
    os.close(writing)
    received = b""
    while part := os.read(reading, 1 << 16):
        received += part
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    try:
        found: _KernelSupport = from_plain(_KernelSupport, json.loads(received))
    except (ValueError, TypeError, KeyError, AttributeError):
        ended = os.waitstatus_to_exitcode(status)
        lack = f"testing the sandbox failed ({ended})"
        return _KernelSupport(Entered(), _sandbox_level(Entered(), allowed, lack, ()))
    return found


def _report_support(scratch: str, allowed: Allowed, writing: int) -> None:
    entered = namespaces.enter_namespaces(_namespace_kinds(allowed))
    # Only processes forked from now on are in the pid namespace.
    if os.fork() == 0:
        signal.alarm(int(_SECONDS))
        layers = confine_process(scratch, allowed, memory=1, programs=False).layers
        seen = _KernelSupport(entered, _sandbox_level(entered, allowed, "", layers))
        descriptors.write_all(writing, json.dumps(to_plain(seen)).encode())
        os._exit(0)
    os.wait()


def _namespace_kinds(allowed: Allowed) -> int:
    """Return the flags of the namespaces to enter: all, except those that permissions or
    ``leave_out`` exclude."""
    kinds = namespaces.ALL & ~namespaces.NETWORK if allowed.network else namespaces.ALL
    for name, kind in _NAMESPACES:
        if is_left_out(name):
            kinds &= ~kind
    return kinds


_NAMESPACES: tuple[tuple[Literal["pid namespace", "network namespace", "IPC namespace"], int], ...]
_NAMESPACES = (
    ("pid namespace", namespaces.PID),
    ("network namespace", namespaces.NETWORK),
    ("IPC namespace", namespaces.IPC),
)


def _sandbox_level(
    entered: Entered, allowed: Allowed, lack: str, layers: tuple[SandboxLayer, ...]
) -> SandboxLevel:
    others = [
        SandboxLayer(name, "" if entered.held & kind else lack or entered.lack or _LEFT_OUT)
        for name, kind in _NAMESPACES
    ]
    if allowed.network:
        others[1] = SandboxLayer("network namespace", "network access is allowed")
    what = _allowed_words(allowed)
    hook = SandboxLayer("audit hook", f"allowed {what}" if what else "", partly=bool(what))
    if is_left_out("audit hook"):
        hook = SandboxLayer("audit hook", _LEFT_OUT)
    return SandboxLevel((hook, *layers, *others))


def _allowed_words(allowed: Allowed) -> str:
    """Return a phrase that lists the operations allowed by the user, such as ``are the network,
    programs``. The phrase is empty if nothing is allowed."""
    parts = ["the network"] if allowed.network else []
    parts += ["programs"] if allowed.programs else []
    parts += [f"writing below {one.path}" for one in caches.allowed_folders(allowed)]
    parts += [f"the variable {name}" for name in allowed.variables]
    if not parts:
        return ""
    return f"{'is' if len(parts) == 1 and parts != ['programs'] else 'are'} {', '.join(parts)}"
