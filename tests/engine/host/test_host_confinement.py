"""Hostile files: what the audit hook does not see, the kernel refuses."""

from __future__ import annotations

import errno
import os
import re
import resource
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engine.hosts import (
    BOOT,
    STUB,
    Engine,
    landlock_version,
    named,
    started_engine,
)

from fullgraph_engine.host.process_backends import seccomp, system_calls
from fullgraph_engine.protocol import Allowed, Limits, Ready

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="layers of Linux")

BEGINNING = """\
import ctypes, gc, mmap, os, resource, signal, socket, subprocess, sys, tempfile, time
libc = ctypes.CDLL(None, use_errno=True)
def tried(call, *arguments):
    try:
        found = call(*arguments)
    except BaseException as error:
        return type(error).__name__
    return found
def said(call, *arguments):
    return ctypes.get_errno() if call(*arguments) == -1 else 0
"""
NUMBERS = {"x86_64": system_calls.X86_64, "aarch64": system_calls.AARCH64}[os.uname().machine]


def done(engine: Engine, deed: str, limits: Limits | None = None) -> object:
    """What a function returns whose last line is this."""
    *lines, last = deed.strip().split("\n")
    body = "".join(f"    {line}\n" for line in (*lines, f"return {last}"))
    limits = limits or Limits(seconds=20.0)
    result = engine.analyze(f"{BEGINNING}def f():  # target\n{body}", limits=limits)
    return eval(result.value("f"))


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "precious"
    path.write_text("precious")
    path.chmod(0o600)
    return path


# -- other processes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "deed",
    [
        "tried(resource.prlimit, PID, resource.RLIMIT_CPU, (900, 900))",
        "tried(os.setpriority, os.PRIO_PROCESS, PID, 19)",
        "tried(os.sched_setaffinity, PID, {0})",
        "tried(os.sched_setscheduler, PID, os.SCHED_BATCH, os.sched_param(0))",
        "libc.kill(PID, signal.SIGKILL)",
        "libc.syscall(NUMBERS['pidfd_send_signal'], os.pidfd_open(PID), 9, None, 0)"
        " if tried(os.pidfd_open, PID) != 'ProcessLookupError' else None",
        "libc.ptrace(16, PID, None, None)",
    ],
)
def test_other_processes_stay_as_they_are(
    engine: Engine, victim: subprocess.Popen[bytes], deed: str
) -> None:
    def state() -> tuple[object, ...]:
        pid = victim.pid
        status = Path(f"/proc/{pid}/status").read_text()
        return (
            resource.prlimit(pid, resource.RLIMIT_CPU),
            os.getpriority(os.PRIO_PROCESS, pid),
            os.sched_getaffinity(pid),
            os.sched_getscheduler(pid),
            re.search(r"TracerPid:\s*(\d+)", status)[1],  # type: ignore[index]
            victim.poll(),
        )

    before = state()
    done(engine, f"NUMBERS = {NUMBERS}\nPID = {victim.pid}\n{deed}")
    assert state() == before


def test_a_message_cannot_name_the_process_of_a_run(
    engine: Engine, victim: subprocess.Popen[bytes]
) -> None:
    lines = b"".join(
        b'!{"type": "ChildForked", "number": %d, "pid": %d}\n' % (number, victim.pid)
        for number in range(40)
    )
    # It reaches the parent through what the module's process reports through, while there is a run.
    engine.analyze(
        f"""\
        import ctypes, os, time
        if ctypes.CDLL(None).fork() == 0:
            for _ in range(40):
                for name in os.listdir("/proc/self/fd"):
                    try:
                        os.write(int(name), {lines!r})
                    except OSError:
                        pass
                time.sleep(0.05)
            os._exit(0)
        def f():  # target
            while True: pass
        """,
        limits=Limits(seconds=1.5),
    )
    assert victim.poll() is None


STOPS = """\
import ctypes, os
def f():  # target
    return ctypes.CDLL(None).kill(os.getppid(), {number})
"""


def test_a_run_signals_no_process_that_it_was_forked_from(processes: str) -> None:
    if processes == "spawn" or landlock_version() < 6:
        pytest.skip("nothing is forked, or Landlock knows no signals")
    engine, _ = started_engine(processes)
    for number in (0, signal.SIGSTOP, signal.SIGKILL):
        assert engine.analyze(STOPS.format(number=int(number))).value("f") == "-1"
    assert engine.close() == 0


def ends(name: str) -> bool:
    until = time.monotonic() + 20
    while named(name):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


DAEMON = """\
come, go = os.pipe()
if libc.fork() == 0:
    os.setsid()
    if libc.fork() == 0:
        os.setsid()
        libc.prctl(1, 0, 0, 0, 0)
        libc.prctl(15, {name!r}.encode(), 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))
        os.closerange(0, go)
        os.write(go, b"!")
        os.closerange(0, 65536)
        while True:
            time.sleep(600)
    os._exit(0)
os.read(come, 1)
"""


def test_a_daemon_does_not_outlive_its_analysis(engine: Engine) -> None:
    name = f"fg{secrets.token_hex(4)}"
    assert done(engine, DAEMON.format(name=name) + "os.getpid()")
    assert ends(name)


def test_a_daemon_does_not_outlive_an_engine_that_is_killed(processes: str) -> None:
    name = f"fg{secrets.token_hex(4)}"
    engine, events = started_engine(processes)
    ready = events[-1]
    assert isinstance(ready, Ready)
    if any(layer.name == "pid namespace" and layer.lack for layer in ready.sandbox.layers):
        engine.close()
        pytest.skip("no pid namespace here")
    body = (DAEMON.format(name=name) + "time.sleep(600)").replace("\n", "\n    ")
    engine.begin(f"{BEGINNING}def f():  # target\n    {body}\n")
    until = time.monotonic() + 150
    while not named(name):
        assert time.monotonic() < until
        time.sleep(0.01)
    engine.process.kill()
    engine.close()
    gone = ends(name)
    for pid in named(name):
        os.kill(pid, signal.SIGKILL)
    assert gone


def test_a_process_can_always_be_forked_for_the_next_run(engine: Engine) -> None:
    """Root may start processes beyond any limit, so it is the limit that is looked at."""
    number = resource.RLIMIT_NPROC
    before = resource.getrlimit(number)
    lower = f"tried(resource.setrlimit, {number}, (0, 0)), resource.getrlimit({number})"
    assert done(engine, lower) == ("ValueError", before)
    assert done(engine, f"tried(resource.setrlimit, {resource.RLIMIT_CORE}, (0, 0))") is None


# -- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "deed",
    [
        "tried(os.fchmod, os.open(FILE, os.O_RDONLY), 0o777)",
        "tried(os.utime, os.open(FILE, os.O_RDONLY), (1, 1))",
        "tried(os.setxattr, os.open(FILE, os.O_RDONLY), 'user.fullgraph', b'1')",
        "libc.chmod(FILE.encode(), 0o777)",
        "libc.utimes(FILE.encode(), None)",
        "libc.chown(FILE.encode(), os.getuid(), os.getgid())",
        # FS_IOC_SETFLAGS: no access times
        "libc.ioctl(os.open(FILE, os.O_RDONLY), 0x40086602, ctypes.byref(ctypes.c_long(0x80)))",
    ],
)
def test_the_metadata_of_files_stay_as_they_are(engine: Engine, file: Path, deed: str) -> None:
    def state() -> tuple[object, ...]:
        found = file.stat()
        flags = subprocess.run(["lsattr", file], capture_output=True).stdout
        names = os.listxattr(file)
        return found.st_mode, found.st_uid, found.st_mtime, found.st_ctime, names, flags

    before = state()
    done(engine, f"FILE = {str(file)!r}\n{deed}")
    assert state() == before


def test_metadata_in_the_scratch_folder_may_be_changed(engine: Engine) -> None:
    assert (
        done(
            engine,
            """\
import shutil
made = tempfile.mkstemp()[1]
copied = shutil.copy2(made, made + "2")
os.chmod(copied, 0o640)
oct(os.stat(copied).st_mode & 0o777)""",
        )
        == "0o640"
    )


def test_shared_memory_is_private_limited_and_freed(engine: Engine) -> None:
    name = f"fullgraph-{secrets.token_hex(4)}"
    foreign = Path("/dev/shm", name)
    foreign.write_text("precious")
    try:
        found = done(
            engine,
            f"""\
foreign = "/dev/shm/{name}"
tried(os.unlink, foreign)
open(foreign + "-left", "w").write("left")
at = os.statvfs("/dev/shm")
at.f_blocks * at.f_frsize, os.path.exists(foreign)""",
            Limits(seconds=20.0, memory=300),
        )
        assert foreign.read_text() == "precious"
    finally:
        foreign.unlink()
    assert not Path(f"/dev/shm/{name}-left").exists()
    assert found == (300 << 20, False)


def test_settings_of_the_kernel_are_on_a_read_only_mount() -> None:
    # Root owns those files; Landlock is not everywhere.
    engine, events = started_engine()
    ready = events[-1]
    assert isinstance(ready, Ready)
    try:
        if not all(layer.holds for layer in ready.sandbox.layers):
            pytest.skip("a layer is missing here")
        deed = """\
mounts = [line.split() for line in open("/proc/self/mountinfo")]
[one[5].split(",")[0] for one in mounts if one[4] == "/proc"][-1]"""
        assert done(engine, deed) == "ro"
    finally:
        assert engine.close() == 0


def test_no_terminal_is_opened_for_writing(engine: Engine) -> None:
    ours, terminal = os.openpty()
    path = os.ttyname(terminal).encode()
    try:
        assert done(engine, f"said(libc.open, {path!r}, 0o401)") == errno.EACCES
    finally:
        os.close(ours)
        os.close(terminal)


@pytest.mark.parametrize("kind", ["NamedTemporaryFile(delete=False)", "TemporaryFile()"])
def test_files_count_for_the_memory_limit(engine: Engine, kind: str) -> None:
    result = engine.analyze(
        f"""\
        import tempfile, time
        def f():  # target
            kept = []
            for _ in range(40):
                file = tempfile.{kind}
                file.write(bytes(20 << 20))
                file.flush()
                kept.append(file)
            time.sleep(600)
        """,
        limits=Limits(seconds=30.0, memory=300),
    )
    assert "more than 300 MiB were written" in result.trouble().message


def test_one_file_has_a_limit_that_cannot_be_raised(engine: Engine) -> None:
    assert (
        done(
            engine,
            """\
tried(resource.setrlimit, resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))
tried(os.ftruncate, tempfile.mkstemp()[0], 400 << 20)""",
            Limits(seconds=20.0, memory=300),
        )
        == "OSError"
    )


def test_memory_without_a_place_is_not_to_be_had(engine: Engine) -> None:
    assert done(engine, "said(libc.memfd_create, b'x', 0)") == errno.EPERM


def test_the_memory_limit_cannot_be_raised(engine: Engine) -> None:
    deed = """\
_, hard = resource.getrlimit(resource.RLIMIT_DATA)
tried(resource.setrlimit, resource.RLIMIT_DATA, (1 << 40, 1 << 40))
tried(resource.setrlimit, resource.RLIMIT_DATA, (hard, hard))
type(tried(mmap.mmap, -1, 400 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)).__name__"""
    assert done(engine, deed, Limits(seconds=20.0, memory=300)) == "str"


# -- sockets ------------------------------------------------------------------------------------


def test_a_socket_of_another_program_is_not_reached(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "agent")
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(path)
        agent.listen()
        done(
            engine,
            f"""\
tried(lambda: socket.socket(socket.AF_UNIX).connect({path!r}))
one = libc.socket(1, 1, 0)
address = (1).to_bytes(2, "little") + {path.encode()!r} + b"\\0"
libc.connect(one, address, len(address))""",
        )
        assert not select.select([agent], [], [], 0.1)[0]


@pytest.mark.parametrize("kind", ["udp", "packets of a pair"])
def test_no_packet_is_sent(engine: Engine, tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "log")
    family = socket.AF_INET if kind == "udp" else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0) if kind == "udp" else path)
        if kind == "udp":
            port = listener.getsockname()[1]
            address = b"\x02\0" + port.to_bytes(2, "big") + bytes((127, 0, 0, 1)) + bytes(8)
            made = "one = libc.socket(2, 2, 0)"
        else:
            address = b"\x01\0" + path.encode() + b"\0"
            made = "pair = (ctypes.c_int * 2)()\nlibc.socketpair(1, 2, 0, pair)\none = pair[0]"
        done(
            engine,
            f"address = {address!r}\n{made}\nlibc.sendto(one, b'x', 1, 0, address, {len(address)})",
        )
        assert not select.select([listener], [], [], 0.1)[0]


@pytest.mark.parametrize(
    ("family", "kind", "protocol"),
    [(2, 1, 0), (2, 1, 262), (10, 2, 0), (2, 3, 1), (16, 3, 0), (17, 3, 0), (38, 5, 0), (40, 1, 0)],
    ids=["tcp", "mptcp", "udp6", "raw", "netlink", "packet", "alg", "vsock"],
)
def test_there_is_no_other_socket(engine: Engine, family: int, kind: int, protocol: int) -> None:
    assert done(engine, f"said(libc.socket, {family}, {kind}, {protocol})") == errno.EPERM


def test_pairs_of_sockets_do_what_programs_need_them_for(engine: Engine) -> None:
    deed = """\
import asyncio
ours, theirs = socket.socketpair()
ours.send(b"there")
asyncio.run(asyncio.sleep(0)), theirs.recv(5)"""
    assert done(engine, deed) == (None, b"there")


# -- programs -----------------------------------------------------------------------------------

_HELPERS = """\
made = tempfile.gettempdir() + "/made"
gc.unfreeze()
for held in gc.get_objects():
    if type(held).__name__ == "Sandbox":
        held.forking = True
        held._startable = frozenset(("touch",))
"""


@pytest.mark.parametrize(
    "deed",
    [
        "libc.system(b'touch ' + made.encode())",
        _HELPERS + "tried(subprocess.run, ['touch', made])",
        _HELPERS
        + "tried(lambda: os.waitpid(os.posix_spawn('/bin/touch', ['touch', made], {}), 0))",
    ],
)
def test_no_program_is_started(engine: Engine, deed: str) -> None:
    prefix = "made = tempfile.gettempdir() + '/made'\n"
    assert done(engine, f"{prefix}{deed}\nos.path.exists(made)") is False


def test_multiprocessing_is_refused_clearly(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import multiprocessing
        multiprocessing.get_context("spawn").Process(target=print).start()
        def f():  # target
            return 1
        """
    )
    assert result.troubles == [("trace/sandboxed", 1)]
    assert "not let this code start processes: multiprocessing" in result.trouble().message


# -- system calls -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("shmget", (0, 4096, 0o1600)),
        ("semget", (0, 1, 0o1600)),
        ("msgget", (0, 0o1600)),
        ("mq_open", ("b'/fullgraph'", 0o102, 0o600, 0)),
        ("io_uring_setup", (4, "bytes(120)")),
        ("ptrace", (0, 0, 0, 0)),
        ("process_vm_readv", ("os.getpid()", 0, 0, 0, 0, 0)),
        ("unshare", (0,)),
        ("clone", (0x10000000 | 17, 0, 0, 0, 0)),
        ("setns", (0, 0)),
        ("mount", (0, 0, 0, 0, 0)),
        ("keyctl", (0, -3, 0)),
        ("bpf", (0, 0, 0)),
        ("perf_event_open", (0, 0, 0, 0, 0)),
        ("userfaultfd", (0,)),
        ("personality", (0,)),
        ("open_by_handle_at", (0, 0, 0)),
        ("prctl", (1, 0, 0, 0, 0)),
        ("prctl", (4, 0, 0, 0, 0)),
        ("fcntl", (0, 8, "os.getpid()")),
        ("kill", (-1, 0)),
    ],
)
def test_system_calls_that_are_refused(
    engine: Engine, name: str, arguments: tuple[object, ...]
) -> None:
    given = ", ".join(map(str, arguments))
    deed = f"said(libc.syscall, {NUMBERS[name]}, {given})"
    assert done(engine, deed) == errno.EPERM


def test_calls_that_are_not_known_are_not_there(engine: Engine) -> None:
    calls = (NUMBERS["clone3"], system_calls.LAST + 1)
    for number in calls:
        assert done(engine, f"said(libc.syscall, {number}, 0, 0)") == errno.ENOSYS


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="ways of x86_64")
@pytest.mark.parametrize(
    "code",
    [
        "b8140000 00cd80c3",  # getpid of 32 bit
        "b827000040 0f05c3",  # getpid of x32
    ],
)
def test_calls_of_another_machine_end_the_process(engine: Engine, code: str) -> None:
    result = engine.analyze(
        f"""\
        import ctypes, mmap
        code = bytes.fromhex({code!r})
        room = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        room.write(code)
        call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(room)))
        def f():  # target
            return call()
        """
    )
    finding = result.trouble()
    assert finding.code == "trace/crashed"
    assert "Bad system call" in finding.message


def headers() -> list[tuple[dict[str, int], str]]:
    return [
        (system_calls.X86_64, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        (system_calls.AARCH64, "/usr/include/asm-generic/unistd.h"),
    ]


@pytest.mark.parametrize(("table", "header"), headers(), ids=["x86_64", "aarch64"])
def test_numbers_are_those_of_the_headers(table: dict[str, int], header: str) -> None:
    if not Path(header).exists():
        pytest.skip("no headers of the kernel are installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", Path(header).read_text())
    numbers = {name: int(number) for name, number in found}
    newest = max(numbers.values())
    for name, number in table.items():
        if number <= newest and name in numbers:
            assert numbers[name] == number, name
    # Most are old enough to be in any header.
    assert len(set(table) & set(numbers)) > (80 if table is system_calls.AARCH64 else 100)


def test_a_filter_jumps_to_where_it_goes_on() -> None:
    for machine in ("x86_64", "aarch64"):
        code = seccomp.filter_program(machine, programs=False, metadata=False)
        instructions = [code[at : at + 8] for at in range(0, len(code), 8)]
        for at, (kind, _, if_so, if_not) in enumerate(
            (one[0], one[1], one[2], one[3]) for one in instructions
        ):
            if kind in (0x15, 0x25):
                assert at + 1 + max(if_so, if_not) < len(instructions)


# -- the environment ----------------------------------------------------------------------------


def test_secrets_of_the_environment_are_not_seen(processes: str) -> None:
    secret = secrets.token_hex(8)
    hidden = {
        "HF_TOKEN": secret,
        "AWS_SECRET_ACCESS_KEY": secret,
        "MY_PASSWORD": secret,
        "DATABASE_URL": f"postgres://me:{secret}@host/name",
    }
    shown = {"TOKENIZERS_PARALLELISM": "false", "KEPT_TOKEN": "kept"}
    allowed = Allowed(variables=("KEPT_TOKEN",))
    engine, _ = started_engine(processes, env={**hidden, **shown}, allowed=allowed)
    try:
        seen = done(
            engine,
            f"""\
seen = sorted(set(os.environ) & {set(hidden | shown)!r})
open("/proc/self/environ").read().count({secret!r}), seen, os.environ["KEPT_TOKEN"]""",
        )
    finally:
        assert engine.close() == 0
    assert seen == (0, sorted(shown), "kept")


def test_the_environment_of_other_processes_is_not_read(
    engine: Engine, victim: subprocess.Popen[bytes]
) -> None:
    for pid in (victim.pid, engine.process.pid, os.getpid()):
        deed = f"tried(lambda: open('/proc/{pid}/environ', 'rb').read())"
        assert done(engine, deed) in ("PermissionError", "FileNotFoundError")


# -- layers -------------------------------------------------------------------------------------


def test_every_layer_is_told() -> None:
    engine, events = started_engine()
    engine.close()
    ready = events[-1]
    assert isinstance(ready, Ready)
    layers = {layer.name: layer for layer in ready.sandbox.layers}
    assert len(layers) == 8
    assert layers["seccomp"].holds


WITHOUT_NAMESPACES = f"""\
import os, sys
sys.path.insert(0, {str(BOOT.parents[1])!r})
from fullgraph_engine.host.process_backends import seccomp
assert not seccomp.restrict_calls(programs=True, metadata=True)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_where_there_are_no_namespaces_the_other_layers_hold(tmp_path: Path, file: Path) -> None:
    # As in a container, whose filter refuses them as well.
    python = tmp_path / "python"
    start = tmp_path / "start.py"
    start.write_text(WITHOUT_NAMESPACES)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {start} "$@"\n')
    python.chmod(0o755)
    engine, events = started_engine("fork", python=str(python), pipeline=STUB)
    try:
        ready = events[-1]
        assert isinstance(ready, Ready)
        lacking = {layer.name for layer in ready.sandbox.layers if not layer.holds}
        assert lacking == {
            "pid namespace",
            "network namespace",
            "IPC namespace",
            "read-only mounts",
            "private /dev/shm",
        }
        assert all("EPERM" in one.lack for one in ready.sandbox.layers if not one.holds)
        deed = f"tried(os.fchmod, os.open({str(file)!r}, os.O_RDONLY), 0o777)"
        assert done(engine, deed) == "PermissionError"
        assert file.stat().st_mode & 0o777 == 0o600
    finally:
        assert engine.close() == 0
