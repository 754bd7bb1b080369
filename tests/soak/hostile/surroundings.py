"""What hostile files try to reach: canaries of the runner's own, and how they have changed."""

# ruff: noqa: PTH115, PTH123, PTH208 (names, links and descriptors are what is looked at)

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import os
import resource
import secrets
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fullgraph_engine.host.process_backends import system_calls

MARK = "FULLGRAPH_HOSTILE"
"""An environment variable that the server and all that it starts have."""
SECRETS = ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL")
PATIENCE = 8.0
"""Seconds in which what a file has left behind is to be gone."""

_VICTIM = """\
import ctypes, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
room = ctypes.create_string_buffer(sys.argv[1].encode())
print(ctypes.addressof(room), flush=True)
input()
"""
_IOPRIO_GET = {"x86_64": 252, "aarch64": 31}
_OTHER_NUMBERS = {
    "x86_64": {
        "openat": 257,
        "unlinkat": 263,
        "renameat2": 316,
        "linkat": 265,
        "symlinkat": 266,
        "mkdirat": 258,
        "mknodat": 259,
        "truncate": 76,
        "exit_group": 231,
        "tgkill": 234,
        "tkill": 200,
        "pidfd_open": 434,
        "close_range": 436,
        "sendmsg": 46,
        "openat2": 437,
        "capset": 126,
        "setuid": 105,
        "rt_sigreturn": 15,
        "landlock_restrict_self": 446,
        "fallocate": 285,
        "sendmmsg": 307,
    },
    "aarch64": {
        "openat": 56,
        "unlinkat": 35,
        "renameat2": 276,
        "linkat": 37,
        "symlinkat": 36,
        "mkdirat": 34,
        "mknodat": 33,
        "truncate": 45,
        "exit_group": 94,
        "tgkill": 131,
        "tkill": 130,
        "pidfd_open": 434,
        "close_range": 436,
        "sendmsg": 211,
        "openat2": 437,
        "capset": 91,
        "setuid": 146,
        "rt_sigreturn": 139,
        "landlock_restrict_self": 446,
        "fallocate": 47,
        "sendmmsg": 269,
    },
}


class Surroundings:
    """Four folders with canaries, listeners on loopback, a process beside, and a server's marks."""

    def __init__(self) -> None:
        self.tag = f"fgh{secrets.token_hex(4)}"
        self.secret = secrets.token_hex(12)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.tag}-")).resolve()
        self.project, self.home = self.folder / "project", self.folder / "home"
        self.canaries = (
            self.project,
            self.home,
            Path(tempfile.gettempdir(), f"{self.tag}-canary").resolve(),
            Path("/dev/shm", f"{self.tag}-canary"),
        )
        for place in self.canaries:
            _plant(place)
        for name in (".bashrc", ".netrc", ".ssh/authorized_keys", ".config/pip/pip.conf"):
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("kept\n")
        self._stack = contextlib.ExitStack()
        self._listeners = dict(self._listen())
        self._lock = self._stack.enter_context((self.folder / "locked").open("w"))
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._victim, self._address = self._start_victim()
        self._files, self._beside = self._trees(), self._victim_state()
        self._shared = _system_v()

    # -- what the server gets -----------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        """Variables for the server; ``HOME`` is a canary, secrets are to be kept from files."""
        token = self.secret
        hidden = (token, token, f"postgres://me:{token}@127.0.0.1/name")
        return {
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            # No engine outlives the canaries.
            "FULLGRAPH_ENGINE_KEEP": "0",
            MARK: self.tag,
            **dict(zip(SECRETS, hidden, strict=True)),
        }

    def beginning(self) -> str:
        """Assignments for hostile files: where the canaries are."""
        numbers = _OTHER_NUMBERS[os.uname().machine]
        machine = system_calls.X86_64 if "x86" in os.uname().machine else system_calls.AARCH64
        project, home, temporary, shared = map(str, self.canaries)
        values = {
            "PROJECT": project,
            "HOME": home,
            "TMP": temporary,
            "SHM": shared,
            "TAG": self.tag,
            "LOCKED": self._lock.name,
            "DAEMON": self.daemon,
            "VICTIM": self._victim.pid,
            "ADDRESS": self._address,
            "RUNNER": os.getpid(),
            "SECRET": [self.secret[:12], self.secret[12:]],
            **{name.upper(): self._address_of(name) for name in self._listeners},
            "NUMBERS": machine | numbers,
        }
        return "".join(f"{name} = {value!r}\n" for name, value in values.items())

    @property
    def daemon(self) -> str:
        """The name that processes give themselves which hostile files leave behind."""
        return f"{self.tag}d"

    def begin(self) -> None:
        """Take what there is now for what is to stay."""
        self._files = self._trees()

    # -- what has changed ---------------------------------------------------------------------

    def changes(self) -> list[str]:
        """What is not as it was at the start, or at the last call that found something."""
        found = list(self._changes())
        if found:
            self._files, self._shared = self._trees(), _system_v()
            for pid in named(self.daemon):
                os.kill(pid, signal.SIGKILL)
            for one in self._listeners.values():
                _drain(one)
            if self._victim_state() != self._beside:
                self._victim, self._address = self._start_victim()
                self._beside = self._victim_state()
        return found

    def _changes(self) -> Iterator[str]:
        files = self._trees()
        for path in sorted(files.keys() | self._files.keys()):
            before, now = self._files.get(path), files.get(path)
            if before != now:
                yield f"file {path}: {_difference(before, now)}"
        for name in _received(self._listeners):
            yield f"the listener {name} was reached"
        victim = self._victim_state()
        for what, value in self._beside.items():
            if victim.get(what) != value:
                yield f"the process beside: {what} was {value}, is {victim.get(what)}"
        if not _soon(lambda: not named(self.daemon)):
            yield f"a process {self.daemon} is left"
        if _system_v() != self._shared:
            yield "System V shared memory, semaphores or queues are left"

    def _trees(self) -> dict[str, tuple[object, ...]]:
        found: dict[str, tuple[object, ...]] = {}
        for root in self.canaries:
            for folder, folders, names in os.walk(root):
                for path in (folder, *(f"{folder}/{name}" for name in (*folders, *names))):
                    found[path] = _state(path)
        for parent in {
            self.folder.parent,
            Path("/tmp"),
            Path("/var/tmp"),
            Path("/dev/shm"),
            Path("/"),
        }:
            for name in os.listdir(parent):
                if self.tag in name:
                    found.setdefault(str(parent / name), ())
        return found

    # -- the process beside -------------------------------------------------------------------

    def _start_victim(self) -> tuple[subprocess.Popen[str], int]:
        command = [sys.executable, "-c", _VICTIM, f"victim {self.secret}"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        self._stack.callback(_end, process)
        return process, int(process.stdout.readline())

    def _victim_state(self) -> dict[str, object]:
        pid = self._victim.pid
        if self._victim.poll() is not None:
            return {"alive": False}
        status = dict(
            line.split(":\t", 1)
            for line in _text(f"/proc/{pid}/status").splitlines()
            if ":\t" in line
        )
        limits = {one: resource.prlimit(pid, getattr(resource, one)) for one in _LIMITS}
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(self._address)
            content = memory.read(len(self.secret) + 7)
        libc = ctypes.CDLL(None)
        return {
            "alive": True,
            "stopped": status["State"][0] in "Tt",
            **{name: status[name] for name in ("TracerPid", "SigPnd", "ShdPnd", "Uid", "Seccomp")},
            **limits,
            "memory": content,
            "priority": os.getpriority(os.PRIO_PROCESS, pid),
            "affinity": os.sched_getaffinity(pid),
            "scheduler": os.sched_getscheduler(pid),
            "io priority": libc.syscall(_IOPRIO_GET[os.uname().machine], 1, pid),
            "oom_score_adj": _text(f"/proc/{pid}/oom_score_adj"),
            "autogroup": _text(f"/proc/{pid}/autogroup"),
        }

    # -- listeners ----------------------------------------------------------------------------

    def _listen(self) -> Iterator[tuple[str, socket.socket]]:
        local, paths = "127.0.0.1", self.folder
        for name, family, kind, address in (
            ("tcp", socket.AF_INET, socket.SOCK_STREAM, (local, 0)),
            ("udp", socket.AF_INET, socket.SOCK_DGRAM, (local, 0)),
            ("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            ("unix", socket.AF_UNIX, socket.SOCK_STREAM, str(paths / "stream")),
            ("unix_packets", socket.AF_UNIX, socket.SOCK_DGRAM, str(paths / "packets")),
            ("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.tag}"),
            ("abstract_packets", socket.AF_UNIX, socket.SOCK_DGRAM, f"\0{self.tag}p"),
        ):
            listener = self._stack.enter_context(socket.socket(family, kind))
            listener.bind(address)
            if kind == socket.SOCK_STREAM:
                listener.listen()
            listener.setblocking(False)
            yield name, listener

    def _address_of(self, name: str) -> object:
        address = self._listeners[name].getsockname()
        if isinstance(address, bytes):
            return address.decode()
        return address[:2] if isinstance(address, tuple) else address

    # -- processes ----------------------------------------------------------------------------

    def marked(self) -> set[int]:
        """The processes that have the mark in their environment: the server and its own."""
        wanted = f"{MARK}={self.tag}".encode()
        found = set()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and wanted in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
        return found

    def close(self) -> None:
        self._stack.close()
        for place in (self.folder, *self.canaries):
            shutil.rmtree(place, ignore_errors=True)


def named(name: str) -> list[int]:
    """The processes that have given themselves this name, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            state = (entry / "stat").read_text()
            if f"({name})" in state and state.rpartition(")")[2].split()[0] != "Z":
                found.append(int(entry.name))
    return found


_LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]


def _plant(place: Path) -> None:
    (place / "deep").mkdir(parents=True)
    (place / "weights.pt").write_bytes(bytes(range(256)) * 64)
    (place / "notes.txt").write_text("kept\n")
    (place / "deep" / "module.py").write_text("VALUE = 1\n")
    (place / "script.sh").write_text("#!/bin/sh\nexit 1\n")
    (place / "script.sh").chmod(0o750)
    (place / "link").symlink_to("notes.txt")
    with contextlib.suppress(OSError):  # not on every file system
        os.setxattr(place / "notes.txt", "user.kept", b"kept")
    for path in place.rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000), follow_symlinks=False)


def _state(path: str) -> tuple[object, ...]:
    try:
        seen = os.lstat(path)
        names = os.listxattr(path, follow_symlinks=False)
        attributes = [(name, os.getxattr(path, name, follow_symlinks=False)) for name in names]
        if stat.S_ISREG(seen.st_mode):
            content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        else:
            content = os.readlink(path) if stat.S_ISLNK(seen.st_mode) else ""
    except OSError as error:
        return (str(error),)
    kept = ("mode", "uid", "gid", "size", "nlink", "mtime_ns", "ctime_ns")
    return (
        *((name, getattr(seen, f"st_{name}")) for name in kept),
        ("attributes", attributes),
        ("content", content),
    )


def _difference(before: tuple[object, ...] | None, now: tuple[object, ...] | None) -> str:
    if before is None or now is None:
        return "is new" if before is None else "is gone"
    return ", ".join(f"{a} -> {b}" for a, b in zip(before, now, strict=False) if a != b)


def _received(listeners: dict[str, socket.socket]) -> list[str]:
    readable = select.select(list(listeners.values()), [], [], 0)[0]
    return [name for name, one in listeners.items() if one in readable]


def _drain(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            if listener.type == socket.SOCK_STREAM:
                listener.accept()[0].close()
            else:
                listener.recv(1)


def _system_v() -> list[str]:
    """Keys, ids, modes, owners and sizes; not who has used one last, and when."""
    found = []
    for kind in ("shm", "sem", "msg"):
        with contextlib.suppress(OSError):
            for line in Path("/proc/sysvipc", kind).read_text().splitlines()[1:]:
                found.append(f"{kind} {' '.join(line.split()[:4])}")
    return found


def _soon(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
