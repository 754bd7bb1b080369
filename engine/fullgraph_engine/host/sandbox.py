"""Deny operations of user code: changing files, starting processes, network access and signals.

The user may allow some of them (``Permissions``). An audit hook sees the operations of Python code
and gives clear error messages. User code could disable the hook; it cannot disable the kernel's
restrictions, which ``process_backends/confinement`` sets up.
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
REFUSED = "fullgraph's sandbox does not let this code"
"""First words of every error message with which the audit hook denies an operation."""
_FROM_KERNEL = ("PermissionError: [Errno 1] ", "OSError: [Errno 30] ")
"""Beginnings of exception texts caused by the kernel's part of the sandbox: the system call filter
(EPERM) and read-only mounts (EROFS)."""

_STREAMS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/zero"})
_AF_UNIX = 1

Rule = Callable[[str, tuple[Any, ...]], None]


@dataclass(frozen=True)
class RefusedOperation:
    """An operation of user code that the sandbox denied.

    ``words`` describe it for the user; ``allowance`` is the permission that would allow it, or None
    if no permission does.
    """

    words: str
    allowance: Allowance | None


def is_refusal(words: str) -> bool:
    """Whether ``words``, the type and message of an exception, come from the sandbox."""
    return any(beginning in words for beginning in (REFUSED, *_FROM_KERNEL))


def allowance_hint(allowance: Allowance) -> str:
    """Return a sentence that tells the user which setting allows a denied operation."""
    flag = shlex.quote(str(allowance))
    return f"Allow it with `--allow {flag}`, or in your editor with the setting `sandbox.allow`."


class Sandbox:
    """The Python audit hook that denies operations of user code, such as writing files.

    All processes forked from this one inherit it. Files may be changed below ``root``, which
    contains the temporary folders. ``pass_over`` and ``untouched`` are functions that keep Dynamo
    from tracing the hook's own code.
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
        """Paths that user code changed; these changes are visible only to its own process."""
        self._home = _realpath(os.path.expanduser("~"))  # noqa: PTH111
        # Resolve the paths now, because user code gets other values of the environment variables.
        self._caches = {cache: _realpath(caches.cache_folder(cache)) for cache in get_args(Cache)}
        self._pass_over, self._untouched = pass_over, untouched
        self.forking = False
        """True while the engine itself forks a process, which is then allowed."""
        self._startable: frozenset[str] = frozenset()
        self._is_held = False
        """True if the kernel also restricts programs that user code starts, so that they cannot
        write outside ``root``."""
        self.refusal: RefusedOperation | None = None
        """Last denied operation, or None. It explains a later failure, because a library may catch
        the first exception and raise another one."""
        self.noted: set[str] | None = None
        """Paths that user code has read; None if they are not recorded."""
        self._owns_shared_memory = False
        self._shared: frozenset[str] = frozenset()

    def install(
        self, memory: int, *, programs: bool = False, private: tuple[str, ...] = ()
    ) -> None:
        """Install the audit hook and the kernel's restrictions in this process; both cannot be
        undone.

        ``memory`` is the MiB of shared memory. ``programs``: user code may be allowed to start
        programs later. Changes in ``private`` folders are visible only to this process and are
        discarded with it.
        """
        rules: dict[str, Rule] = {
            "open": self._check_open,
            "os.scandir": self._check_listing,
            **dict.fromkeys(_CHANGES, self._check_changes),
            **dict.fromkeys(_STARTS, self._check_start),
            **dict.fromkeys(_CONNECTS, self._check_connection),
            **dict.fromkeys(_RESOLVES, self._check_network),
            "socket.__new__": self._check_socket,
            "os.kill": self._check_signal,
            "os.killpg": self._check_signal,
        }
        lookup = {event: self._untouched(rule) for event, rule in rules.items()}.get

        # One trace raises about 100,000 audit events, so events without a check must take little
        # time.
        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            rule = lookup(event)
            if rule is not None:
                rule(event, arguments)

        self._pass_over(hook.__code__)
        if not confinement.is_left_out("audit hook"):
            sys.addaudithook(hook)
            self._refuse_multiprocessing()
        self._writable = caches.writable_folders(self._allowed)
        may = self._allowed
        private = tuple(dict.fromkeys(map(_realpath, private)))
        confined = confinement.confine_process(
            self.root, may, memory=memory, programs=programs, private=private
        )
        self._private = confined.private
        held = {layer.name for layer in confined.layers if layer.holds}
        self._is_held = "Landlock" in held
        self._owns_shared_memory = "private /dev/shm" in held

    def note_shared_memory(self) -> None:
        """Record which files exist in ``/dev/shm``, so that :meth:`clear_shared_memory` keeps
        them."""
        if self._owns_shared_memory:
            self._shared = frozenset(_listdir(confinement.SHARED_MEMORY))

    def clear_shared_memory(self) -> None:
        """Remove the files in ``/dev/shm`` that user code created since the call of
        :meth:`note_shared_memory`."""
        if self._owns_shared_memory:
            for name in set(_listdir(confinement.SHARED_MEMORY)) - self._shared:
                descriptors.remove_path(f"{confinement.SHARED_MEMORY}/{name}")

    def _refuse_multiprocessing(self) -> None:
        """Make ``multiprocessing`` raise when it starts an interpreter, since it does so without an
        audit event.

        ``subprocess`` is not affected.
        """
        try:
            import _posixsubprocess
        except ImportError:
            return
        import subprocess  # noqa: F401 - before it is replaced

        original = _posixsubprocess.fork_exec

        def fork_exec(*arguments: Any) -> int:
            self._check_start("multiprocessing", ())
            return int(original(*arguments))

        _posixsubprocess.fork_exec = fork_exec

    def let_start(self, names: frozenset[str]) -> bool:
        """Allow user code to start the programs ``names``, such as a C++ compiler, and return True.

        Return False, without a change, unless the kernel prevents programs from writing outside
        ``root``.
        """
        if self._is_held:
            self._startable = names
        return self._is_held

    # -- explaining failures ------------------------------------------------------------------

    def is_explained(self, error: str) -> bool:
        """Whether ``error``, the type and message of an exception, is explained by an operation
        that the sandbox denied."""
        return is_refusal(error) or self._hidden_variable(error) is not None

    def explain_refusal(self, finding: Finding, error: str) -> Finding:
        """Return ``finding`` with the denied operation that probably caused it, and a hint on how
        to allow the operation.

        ``error`` is the type and message of the exception. If no denied operation explains it,
        ``finding`` is returned unchanged.
        """
        variable = self._hidden_variable(error)
        allowance, notes = None, list(finding.notes)
        if variable is not None:
            allowance = Allowance("read-env", variable)
            notes.append(f"{variable} looks like a secret, so fullgraph hides it from this code.")
        elif self.refusal is not None:
            words = " ".join(self.refusal.words.split())
            if words in " ".join(error.split()):
                allowance = self.refusal.allowance
            elif not is_refusal(error):
                allowance = self.refusal.allowance
                notes.append(f"An earlier operation was refused: {REFUSED} {words}.")
        if allowance is not None:
            finding = replace(finding, hints=(*finding.hints, allowance_hint(allowance)))
        return replace(finding, notes=tuple(notes), allowance=allowance)

    def _hidden_variable(self, error: str) -> str | None:
        _, found, rest = error.rpartition("KeyError: ")
        name = rest.strip("'")
        return name if found and name in self._hidden else None

    # -- the rules ----------------------------------------------------------------------------
    # Every rule returns, or raises the OSError that the kernel would raise.

    def _make_refusal(
        self, why: str, what: str = "", allowance: Allowance | None = None
    ) -> PermissionError:
        words = f"{why}: {what}" if what else why
        self.refusal = RefusedOperation(words, allowance)
        return PermissionError(f"{REFUSED} {words}")

    def _check_open(self, event: str, arguments: tuple[Any, ...]) -> None:
        path, _, flags = arguments
        if isinstance(flags, int) and flags & _WRITING:
            self._check_write(path)
        elif self.noted is not None and not isinstance(path, int):
            self.noted.add(_fsdecode(path))

    def _check_listing(self, event: str, arguments: tuple[Any, ...]) -> None:
        (path,) = arguments
        if self.noted is not None and not isinstance(path, int):
            self.noted.add(_fsdecode(path or "."))

    def _check_changes(self, event: str, arguments: tuple[Any, ...]) -> None:
        for path, folder in _CHANGES[event]:
            name = arguments[path]
            base = arguments[folder] if folder < len(arguments) else -1
            if isinstance(name, int):
                name = _realpath(descriptors.path_of(name))
            elif base != -1:
                name = os.path.join(descriptors.path_of(base), _fsdecode(name))  # noqa: PTH118
            self._check_write(name)

    def _check_write(self, path: Any) -> None:
        if isinstance(path, int):
            return
        name = str.__str__(_fsdecode(path))  # a subclass may override __str__
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
        for folder in caches.allowed_folders(self._allowed):
            if caches.is_below(real, _realpath(folder.path)):
                why = "change files in an allowed folder that is outside of the workspace"
                raise self._make_refusal(f"{why} or did not exist before the run", name)
        raise self._make_refusal("change files", name, self._write_allowance(real))

    def _write_allowance(self, real: str) -> Allowance | None:
        """Return the permission that would allow user code to write to the path ``real``; None if
        no permission can, as for the home folder itself."""
        for cache, folder in self._caches.items():
            if caches.is_below(real, folder):
                return Allowance(cache)
        folder = _dirname(real)
        return None if caches.is_below(self._home, folder) else Allowance("write", folder)

    def _check_start(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.forking or self._allowed.programs:
            return
        if not self._may_start(event, arguments[0] if arguments else ""):
            kind: AllowanceKind = "cpp-extensions" if _builds_extension() else "subprocess"
            raise self._make_refusal("start processes", event, Allowance(kind))

    def _may_start(self, event: str, program: Any) -> bool:
        if event != "subprocess.Popen" or not self._startable:
            return False
        return os.path.basename(_fsdecode(program)) in self._startable  # noqa: PTH119

    def _check_connection(self, event: str, arguments: tuple[Any, ...]) -> None:
        if getattr(arguments[0], "family", None) != _AF_UNIX:
            self._check_network(event, arguments[1:])

    def _check_socket(self, event: str, arguments: tuple[Any, ...]) -> None:
        # Allow local (Unix) sockets, because connected pairs of them are needed. Also allow -1: the
        # address family of an existing descriptor is unknown.
        if arguments[1] not in (_AF_UNIX, -1):
            self._check_network(event, ("a socket",))

    def _check_network(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._allowed.network:
            return
        where = arguments[0] if arguments else ""
        raise self._make_refusal("use the network", str(where), Allowance("network"))

    def _check_signal(self, event: str, arguments: tuple[Any, ...]) -> None:
        # If user code may start programs, they could signal other processes anyway; the kernel then
        # prevents it.
        if self.forking or self._allowed.programs:
            return
        own = _getpid() if event == "os.kill" else _getpgrp()
        if arguments[0] != own and arguments[1] != 0:
            raise self._make_refusal("signal other processes")


_NO_FOLDER = 99
# By audit event, for each path among its arguments: the position of the path, and the position of
# the descriptor of the folder that the path is relative to.
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
    """Whether user code is building a C++ extension."""
    frame: FrameType | None = _getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch.utils.cpp_extension":
            return True
        frame = frame.f_back
    return False


def enter_folder(cwd: str, path: str, scratch: str) -> None:
    """Make ``cwd`` the current folder; if it is empty, the folder of the file ``path``; if that
    fails, the scratch folder."""
    try:
        os.chdir(cwd or os.path.dirname(path))  # noqa: PTH120
    except OSError:
        os.chdir(scratch)
    if "PWD" in os.environ:
        # The engine inherited this variable from the process that started it, perhaps for another
        # project.
        os.environ["PWD"] = os.getcwd()  # noqa: PTH109


def sandbox_environment(scratch: str, allowed: Allowed) -> dict[str, str]:
    """Return environment variables for user code: caches are in the folder ``scratch``, and
    libraries do not use the network.

    Caches of downloads (weights, tokenizers) and folders that the user allows writing to keep their
    place.
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
        # Limit the number of compilers that a build starts at once.
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
        # Without this setting, torch up to 2.9 starts addr2line for the C++ frames of some errors.
        "TORCH_DISABLE_ADDR2LINE": "1",
        "TORCH_SYMBOLIZE_MODE": "dladdr",
        # Without this setting, importing Inductor starts compile workers, if Triton is installed.
        "TORCH_WARM_POOL": "0",
        "WANDB_MODE": "disabled",
    }
