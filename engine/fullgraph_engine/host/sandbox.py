"""What user code is kept from: changing files, starting processes, the network, other processes.

It sees what Python code does and says clearly what is refused. It can be switched off from within
the process; what cannot be is in ``process_backends/confinement``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from .process_backends import confinement, descriptors

_realpath, _fsdecode, _getpid, _getpgrp = os.path.realpath, os.fsdecode, os.getpid, os.getpgrp
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
REFUSED = "fullgraph runs this code only to trace it"
"""How every refusal begins that is not the kernel's."""
_FROM_KERNEL = ("PermissionError: [Errno 1] ", "OSError: [Errno 30] ")
"""What the filter of system calls and read-only mounts say: EPERM, EROFS."""

_STREAMS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/zero"})
_AF_UNIX = 1

Rule = Callable[[str, tuple[Any, ...]], None]


def is_refusal(words: str) -> bool:
    """Whether an exception, told with its type, says that something was refused here."""
    return any(beginning in words for beginning in (REFUSED, *_FROM_KERNEL))


def refusal_before(refused: str) -> tuple[str, ...]:
    """Notes for a failure of code of which something was refused before it failed."""
    if not refused:
        return ()
    return (f"Something was refused before: {REFUSED} and {refused}.",)


class Sandbox:
    """Installed once in a process; it holds for all that this process forks.

    Files may be changed below ``root``, where every generation has a scratch folder.
    ``pass_over`` and ``untouched`` keep the tracer away from code that runs while it is tracing.
    """

    def __init__(
        self,
        root: str,
        pass_over: Callable[[CodeType], None],
        untouched: Callable[[Rule], Rule],
    ) -> None:
        self.root = _realpath(root)
        self._pass_over, self._untouched = pass_over, untouched
        self.forking = False
        """Set while the engine itself forks."""
        self._startable: frozenset[str] = frozenset()
        self._is_held = False
        """The kernel keeps what is started from writing outside of ``root``."""
        self.refused = ""
        """What was refused last: a library may catch that, and say something else."""
        self.noted: set[str] | None = None
        """Files that user code has read, while somebody wants to know."""

    def install(self, memory: int, *, programs: bool = False) -> None:
        """``memory`` is in MiB, of shared memory. ``programs``: some may be let start later."""
        rules: dict[str, Rule] = {
            "open": self._open,
            **dict.fromkeys(_CHANGES, self._changes),
            **dict.fromkeys(_STARTS, self._starts),
            **dict.fromkeys(_CONNECTS, self._connects),
            **dict.fromkeys(_RESOLVES, self._resolves),
            "os.kill": self._signals,
            "os.killpg": self._signals,
        }
        lookup = {event: self._untouched(rule) for event, rule in rules.items()}.get

        # A trace raises about a hundred thousand events: those without a rule must cost nothing.
        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            rule = lookup(event)
            if rule is not None:
                rule(event, arguments)

        self._pass_over(hook.__code__)
        sys.addaudithook(hook)
        self._refuse_multiprocessing()
        layers = confinement.confine(self.root, memory=memory, programs=programs)
        self._is_held = any(layer.name == "Landlock" and layer.holds for layer in layers)

    def _refuse_multiprocessing(self) -> None:
        """What it starts an interpreter with raises no event; ``subprocess`` has the original."""
        try:
            import _posixsubprocess
        except ImportError:
            return
        import subprocess  # noqa: F401 - before it is replaced

        original = _posixsubprocess.fork_exec

        def fork_exec(*arguments: Any) -> int:
            self._starts("multiprocessing", ())
            return int(original(*arguments))

        _posixsubprocess.fork_exec = fork_exec

    def let_start(self, names: frozenset[str]) -> bool:
        """Let programs with these names be started, if the kernel holds them to ``root``."""
        if self._is_held:
            self._startable = names
        return self._is_held

    # Every rule returns, or raises what user code then sees: an OSError as from the kernel.

    def _refusal(self, why: str, what: str = "") -> PermissionError:
        words = f"{why}: {what}" if what else why
        self.refused = words
        return PermissionError(f"{REFUSED} and {words}")

    def _open(self, event: str, arguments: tuple[Any, ...]) -> None:
        path, _, flags = arguments
        if isinstance(flags, int) and flags & _WRITING:
            self._writes(path)
        elif self.noted is not None and not isinstance(path, int):
            self.noted.add(_fsdecode(path))

    def _changes(self, event: str, arguments: tuple[Any, ...]) -> None:
        for path, folder in _CHANGES[event]:
            name = arguments[path]
            base = arguments[folder] if folder < len(arguments) else -1
            if isinstance(name, int):
                name = _realpath(descriptors.path_of(name))
            elif base != -1:
                name = os.path.join(descriptors.path_of(base), _fsdecode(name))  # noqa: PTH118
            self._writes(name)

    def _writes(self, path: Any) -> None:
        if isinstance(path, int):
            return
        name = _fsdecode(path)
        if name in _STREAMS:
            return
        real = _realpath(name)
        if real.startswith((self.root + os.sep, "/dev/shm/")):
            return
        raise self._refusal("lets it change no files", name)

    def _starts(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.forking and not self._may_start(event, arguments[0] if arguments else ""):
            raise self._refusal("lets it start no processes", event)

    def _may_start(self, event: str, program: Any) -> bool:
        if event != "subprocess.Popen" or not self._startable:
            return False
        return os.path.basename(_fsdecode(program)) in self._startable  # noqa: PTH119

    def _connects(self, event: str, arguments: tuple[Any, ...]) -> None:
        if getattr(arguments[0], "family", None) != _AF_UNIX:
            self._resolves(event, arguments[1:])

    def _resolves(self, event: str, arguments: tuple[Any, ...]) -> None:
        where = arguments[0] if arguments else ""
        raise self._refusal("gives it no network", str(where))

    def _signals(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.forking:
            return
        own = _getpid() if event == "os.kill" else _getpgrp()
        if arguments[0] != own and arguments[1] != 0:
            raise self._refusal("lets it signal no other process")


_NO_FOLDER = 99
# Of the arguments of an event: which is the path, and which the descriptor that it is relative to.
_CHANGES: dict[str, tuple[tuple[int, int], ...]] = {
    "os.chflags": ((0, _NO_FOLDER),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.link": ((0, 2), (1, 3)),
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.removexattr": ((0, _NO_FOLDER),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.setxattr": ((0, _NO_FOLDER),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, _NO_FOLDER),),
    "os.utime": ((0, 3),),
}
_STARTS = (
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pty.spawn",
    "subprocess.Popen",
)
_CONNECTS = ("socket.bind", "socket.connect", "socket.sendmsg", "socket.sendto")
_RESOLVES = (
    "socket.getaddrinfo",
    "socket.gethostbyaddr",
    "socket.gethostbyname",
    "socket.getnameinfo",
)


def environment(scratch: str) -> dict[str, str]:
    """Variables for user code: caches go to the scratch folder, libraries do not ask the network.

    What is only read from the user's real caches (downloaded weights, tokenizers) stays there.
    """
    caches = {
        name: f"{scratch}/{folder}"
        for name, folder in (
            ("MPLCONFIGDIR", "matplotlib"),
            ("NUMBA_CACHE_DIR", "numba"),
            ("PYTHONPYCACHEPREFIX", "pycache"),
            ("TORCHINDUCTOR_CACHE_DIR", "inductor"),
            ("TORCH_EXTENSIONS_DIR", "extensions"),
            ("TRITON_CACHE_DIR", "triton"),
        )
    }
    return {
        **caches,
        "TMPDIR": scratch,
        "MPLBACKEND": "Agg",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        # Else importing Inductor starts compile workers, where Triton is installed.
        "TORCH_WARM_POOL": "0",
        "WANDB_MODE": "disabled",
    }
