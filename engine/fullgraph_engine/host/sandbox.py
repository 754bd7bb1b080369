"""What user code is kept from: changing files, starting processes, the network, other processes.

A user may allow some of it (``Permissions``). This sees what Python code does and says clearly what
is refused. It can be switched off from within the process; what cannot be is in
``process_backends/confinement``.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import Any, get_args

from ..protocol import Finding
from ..protocol.sandbox import Allowance, AllowanceKind, Allowed, Cache
from . import caches
from .permissions import Permissions
from .process_backends import confinement, descriptors

_realpath, _fsdecode, _getpid, _getpgrp = os.path.realpath, os.fsdecode, os.getpid, os.getpgrp
_dirname, _listdir, _getframe = os.path.dirname, os.listdir, sys._getframe
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
REFUSED = "fullgraph runs this code only to trace it"
"""How every refusal begins that is not the kernel's."""
_FROM_KERNEL = ("PermissionError: [Errno 1] ", "OSError: [Errno 30] ")
"""What the filter of system calls and read-only mounts say: EPERM, EROFS."""

_STREAMS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/zero"})
_AF_UNIX = 1

Rule = Callable[[str, tuple[Any, ...]], None]


@dataclass(frozen=True)
class Refusal:
    """``words`` say what was refused, ``allowance`` is what would have let it."""

    words: str
    allowance: Allowance | None


def is_refusal(words: str) -> bool:
    """Whether an exception, told with its type, says that something was refused here."""
    return any(beginning in words for beginning in (REFUSED, *_FROM_KERNEL))


def hint(allowance: Allowance) -> str:
    """How to allow something, as a sentence."""
    flag = shlex.quote(str(allowance))
    return f"Allow it with `--allow {flag}`, or in your editor with the setting `sandbox.allow`."


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
        permissions: Permissions,
    ) -> None:
        self.root = _realpath(root)
        self._allowed = permissions.allowed
        self._hidden = frozenset(permissions.hidden)
        self._writable: tuple[str, ...] = ()
        self._private: tuple[str, ...] = ()
        self.discarded: set[str] = set()
        """Files that user code has changed in its private view."""
        self._home = _realpath(os.path.expanduser("~"))  # noqa: PTH111
        # Now: the variables that name caches are other ones for user code.
        self._caches = {cache: _realpath(caches.folder(cache)) for cache in get_args(Cache)}
        self._pass_over, self._untouched = pass_over, untouched
        self.forking = False
        """Set while the engine itself forks."""
        self._startable: frozenset[str] = frozenset()
        self._is_held = False
        """The kernel keeps what is started from writing outside of ``root``."""
        self.refusal: Refusal | None = None
        """What was refused last: a library may catch that, and say something else."""
        self.noted: set[str] | None = None
        """Files that user code has read, while somebody wants to know."""
        self._owns_shared_memory = False
        self._shared: frozenset[str] = frozenset()

    def install(
        self, memory: int, *, programs: bool = False, private: tuple[str, ...] = ()
    ) -> None:
        """``memory`` is in MiB, of shared memory. ``programs``: some may be let start later.
        ``private`` folders are writable in a private view, which the process discards."""
        rules: dict[str, Rule] = {
            "open": self._open,
            "os.scandir": self._lists,
            **dict.fromkeys(_CHANGES, self._changes),
            **dict.fromkeys(_STARTS, self._starts),
            **dict.fromkeys(_CONNECTS, self._connects),
            **dict.fromkeys(_RESOLVES, self._resolves),
            "socket.__new__": self._makes_socket,
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
        if not confinement.is_left_out("audit hook"):
            sys.addaudithook(hook)
            self._refuse_multiprocessing()
        self._writable = caches.writable(self._allowed)
        may = self._allowed
        private = tuple(dict.fromkeys(map(_realpath, private)))
        confined = confinement.confine(
            self.root, may, memory=memory, programs=programs, private=private
        )
        self._private = confined.private
        held = {layer.name for layer in confined.layers if layer.holds}
        self._is_held = "Landlock" in held
        self._owns_shared_memory = "private /dev/shm" in held

    def note_shared_memory(self) -> None:
        """Take what is in shared memory now for what every generation is to find there."""
        if self._owns_shared_memory:
            self._shared = frozenset(_listdir(confinement.SHARED_MEMORY))

    def clear_shared_memory(self) -> None:
        """Remove what an earlier generation has left there, if it is nobody else's."""
        if self._owns_shared_memory:
            for name in set(_listdir(confinement.SHARED_MEMORY)) - self._shared:
                descriptors.remove(f"{confinement.SHARED_MEMORY}/{name}")

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

    # -- what came of it ----------------------------------------------------------------------

    def explains(self, error: str) -> bool:
        """Whether an exception, told with its type, says what was refused."""
        return is_refusal(error) or self._hidden_variable(error) is not None

    def explained(self, finding: Finding, error: str) -> Finding:
        """A failure with what was refused before it, if anything was, and how to allow it."""
        variable = self._hidden_variable(error)
        allowance, notes = None, list(finding.notes)
        if variable is not None:
            allowance = Allowance("read-env", variable)
            notes.append(f"{variable} looks like a secret, so this code does not get to see it.")
        elif self.refusal is not None:
            words = " ".join(self.refusal.words.split())
            if words in " ".join(error.split()):
                allowance = self.refusal.allowance
            elif not is_refusal(error):
                allowance = self.refusal.allowance
                notes.append(f"Something was refused before: {REFUSED} and {words}.")
        if allowance is not None:
            finding = replace(finding, hints=(*finding.hints, hint(allowance)))
        return replace(finding, notes=tuple(notes), allowance=allowance)

    def _hidden_variable(self, error: str) -> str | None:
        _, found, rest = error.rpartition("KeyError: ")
        name = rest.strip("'")
        return name if found and name in self._hidden else None

    # -- the rules ----------------------------------------------------------------------------
    # Every rule returns, or raises what user code then sees: an OSError as from the kernel.

    def _refusal(
        self, why: str, what: str = "", allowance: Allowance | None = None
    ) -> PermissionError:
        words = f"{why}: {what}" if what else why
        self.refusal = Refusal(words, allowance)
        return PermissionError(f"{REFUSED} and {words}")

    def _open(self, event: str, arguments: tuple[Any, ...]) -> None:
        path, _, flags = arguments
        if isinstance(flags, int) and flags & _WRITING:
            self._writes(path)
        elif self.noted is not None and not isinstance(path, int):
            self.noted.add(_fsdecode(path))

    def _lists(self, event: str, arguments: tuple[Any, ...]) -> None:
        (path,) = arguments
        if self.noted is not None and not isinstance(path, int):
            self.noted.add(_fsdecode(path or "."))

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
        name = str.__str__(_fsdecode(path))  # what a derived class says of itself need not be so
        if name in _STREAMS:
            return
        real = _realpath(name)
        if real.startswith((self.root + os.sep, "/dev/shm/")):
            return
        if any(caches.is_below(real, folder) for folder in self._writable):
            return
        if any(caches.is_below(real, folder) for folder in self._private):
            self.discarded.add(real)
            return
        for folder in caches.folders(self._allowed):
            if caches.is_below(real, _realpath(folder.path)):
                why = "allows it to write there only if that is a folder of the workspace"
                raise self._refusal(f"{why}, and was there when this began", name)
        raise self._refusal("lets it change no files", name, self._writing(real))

    def _writing(self, real: str) -> Allowance | None:
        """What would let it write to a path, but for all of a home folder."""
        for cache, folder in self._caches.items():
            if caches.is_below(real, folder):
                return Allowance(cache)
        folder = _dirname(real)
        return None if caches.is_below(self._home, folder) else Allowance("write", folder)

    def _starts(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.forking or self._allowed.programs:
            return
        if not self._may_start(event, arguments[0] if arguments else ""):
            kind: AllowanceKind = "cpp-extensions" if _builds_extension() else "subprocess"
            raise self._refusal("lets it start no processes", event, Allowance(kind))

    def _may_start(self, event: str, program: Any) -> bool:
        if event != "subprocess.Popen" or not self._startable:
            return False
        return os.path.basename(_fsdecode(program)) in self._startable  # noqa: PTH119

    def _connects(self, event: str, arguments: tuple[Any, ...]) -> None:
        if getattr(arguments[0], "family", None) != _AF_UNIX:
            self._resolves(event, arguments[1:])

    def _makes_socket(self, event: str, arguments: tuple[Any, ...]) -> None:
        # The family of a descriptor is not known. Of the local ones pairs are needed.
        if arguments[1] not in (_AF_UNIX, -1):
            self._resolves(event, ("a socket",))

    def _resolves(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._allowed.network:
            return
        where = arguments[0] if arguments else ""
        raise self._refusal("gives it no network", str(where), Allowance("network"))

    def _signals(self, event: str, arguments: tuple[Any, ...]) -> None:
        # A program that it starts could signal others as well: that is for the kernel to refuse.
        if self.forking or self._allowed.programs:
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


def _builds_extension() -> bool:
    """Whether user code builds a C++ extension right now."""
    frame: FrameType | None = _getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch.utils.cpp_extension":
            return True
        frame = frame.f_back
    return False


def environment(scratch: str, allowed: Allowed) -> dict[str, str]:
    """Variables for user code: caches go to the scratch folder, libraries do not ask the network.

    What is only read from the user's real caches (downloaded weights, tokenizers) stays there. What
    is allowed is left as it is.
    """
    own = {
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
    if "cpp-extensions" in allowed.caches:
        del own["TORCH_EXTENSIONS_DIR"]
        # As many compilers as there may be processes, with what each of them starts.
        own["MAX_JOBS"] = os.environ.get("MAX_JOBS", "4")
    if "triton-cache" in allowed.caches:
        del own["TRITON_CACHE_DIR"]
    if not allowed.network:
        offline = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
        own |= dict.fromkeys(offline, "1")
    return {
        **own,
        "TMPDIR": scratch,
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        # Else torch up to 2.9 starts addr2line for the C++ frames of some errors.
        "TORCH_DISABLE_ADDR2LINE": "1",
        "TORCH_SYMBOLIZE_MODE": "dladdr",
        # Else importing Inductor starts compile workers, where Triton is installed.
        "TORCH_WARM_POOL": "0",
        "WANDB_MODE": "disabled",
    }
