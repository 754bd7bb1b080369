"""What processes are made of: each of the small things that only some systems have."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fullgraph_engine.host import process_backends, wire
from fullgraph_engine.host.permissions import Permissions
from fullgraph_engine.host.process_backends import (
    channels,
    descriptors,
    limits,
    packets,
    processes,
)
from fullgraph_engine.host.process_backends.branches import Replay
from fullgraph_engine.host.process_backends.spare import Spare, Starter
from fullgraph_engine.host.process_backends.spawning import Spares
from fullgraph_engine.host.wire import BranchAnswer, BranchBegun
from fullgraph_engine.protocol import Allowed

ENGINE = Path(__file__).resolve().parents[3] / "engine"
STUB = f"{Path(__file__).resolve().parents[2] / 'fixtures' / 'host' / 'pipeline.py'}:Pipeline"
NOTHING = Permissions(Allowed(), ())
LINUX = sys.platform.startswith("linux")


def python(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(ENGINE)},
        stdout=subprocess.PIPE,
    )


# -- which back end -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "wanted", "chosen"),
    [
        ("linux", "auto", "fork"),
        ("linux", "fork", "fork"),
        ("linux", "spawn", "spawn"),
        ("darwin", "auto", "spawn"),
        ("darwin", "fork", "spawn"),
    ],
)
def test_the_back_end_that_is_chosen(
    monkeypatch: pytest.MonkeyPatch, system: str, wanted: str, chosen: str
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert process_backends.choose_backend(wanted) == chosen


# -- descriptors --------------------------------------------------------------------------------


@pytest.fixture
def leaves_none_open() -> Iterator[None]:
    before = descriptors.list_open()
    yield
    left = descriptors.list_open() - before
    # The listing has one of its own.
    assert len(left) <= 1, left


def test_channels_lead_from_one_end_to_the_other(leaves_none_open: None) -> None:
    ours, given = channels.open_channels()
    for read, write in ((ours.reports, given.report), (ours.stdout, given.stdout)):
        assert not descriptors.is_readable(read)
        os.write(write, b"there")
        assert descriptors.is_readable(read)
        assert os.read(read, 10) == b"there"
    os.write(given.box, b"last words")
    assert os.pread(ours.box, 20, 0) == b"last words"
    given.close()
    assert descriptors.is_readable(ours.reports)
    assert os.read(ours.reports, 1) == b""
    ours.close()


def test_channels_that_cannot_all_be_opened_leave_none(
    monkeypatch: pytest.MonkeyPatch, leaves_none_open: None
) -> None:
    def full(name: str) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(descriptors, "in_memory", full)
    with pytest.raises(OSError, match="Too many"):
        channels.open_channels()


def test_a_raised_descriptor_is_the_same_file_at_the_end_of_the_table() -> None:
    read, write = os.pipe()
    raised = descriptors.move_to_end(write)
    assert raised > 100
    assert not os.get_inheritable(raised)
    os.write(raised, b"x")
    assert os.read(read, 1) == b"x"
    descriptors.close_all([read, raised])


def test_a_folder_is_found_by_its_descriptor(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    assert os.path.realpath(descriptors.path_of(folder)) == os.path.realpath(tmp_path)
    os.close(folder)


def test_a_program_inherits_what_it_is_given() -> None:
    read, write = os.pipe()
    given = descriptors.prepare_inheritance([write])
    code = (
        f"import os, sys; os.write({given.numbers[0]}, str(os.getsid(0) == os.getpid()).encode())"
    )
    subprocess.run([sys.executable, "-c", code], check=True, **given.popen)
    assert os.read(read, 10) == b"True"
    descriptors.close_all([read, write])


@pytest.mark.skipif(not LINUX, reason="SOCK_SEQPACKET is of Linux")
def test_packets_stay_apart_and_bring_descriptors() -> None:
    ours, theirs = packets.control_pair()
    with ours, socket.socket(fileno=theirs) as other:
        read, write = os.pipe()
        assert packets.send_packet(ours, b"first", [write])
        assert packets.send_packet(ours, b"second", [])
        os.close(write)
        data, (copy,) = packets.receive_packet(other) or (b"", [])
        assert data == b"first"
        os.write(copy, b"through")
        assert os.read(read, 10) == b"through"
        assert packets.receive_packet(other) == (b"second", [])
        descriptors.close_all([read, copy])
        ours.close()
        assert packets.receive_packet(other) is None
        assert not packets.send_packet(other, b"nobody", [])


# -- processes ----------------------------------------------------------------------------------


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = python("import time; print(flush=True); time.sleep(600)")
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("kind", ["proc", "ps"])
def test_a_snapshot_knows_parents_and_memory(kind: str, sleeper: subprocess.Popen[bytes]) -> None:
    if kind == "proc" and not LINUX:
        pytest.skip("there is no /proc")
    seen = processes.FromPs() if kind == "ps" else processes.read_processes()
    assert seen.parents[sleeper.pid] == os.getpid()
    assert sleeper.pid in processes.find_descendants(os.getpid(), seen.parents)
    assert 1 << 20 < seen.resident(sleeper.pid) < 1 << 30
    used = processes.measure_usage(os.getpid(), seen)
    assert used.memory > seen.resident(os.getpid())
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    after = processes.FromPs() if kind == "ps" else processes.read_processes()
    assert sleeper.pid not in after.parents  # it is a zombie


def test_whether_a_process_exists(sleeper: subprocess.Popen[bytes]) -> None:
    assert processes.process_exists(sleeper.pid)
    assert processes.process_exists(1)
    sleeper.kill()
    sleeper.wait()
    assert not processes.process_exists(sleeper.pid)


def test_a_killed_process_takes_its_descendants_along() -> None:
    parent = python(
        """
        import subprocess, sys, time
        code = "import time; time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        print(child.pid, flush=True)
        time.sleep(600)
        """
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    processes.kill_trees([parent.pid])
    assert processes.was_killed(parent.wait())
    parent.stdout.close()
    assert _gone(child)


def _gone(pid: int) -> bool:
    """Whether it ends within a while; whoever adopts it may take its time to notice."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if pid not in processes.read_processes().parents:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(
    "dies",
    [
        "processes.die_with(int(sys.argv[1]))",
        # What other systems than Linux do.
        "processes._prctl = None; processes.die_with(int(sys.argv[1]))",
    ],
)
def test_a_process_ends_with_its_parent(dies: str) -> None:
    parent = python(
        f"""
        import os, subprocess, sys, time
        code = '''
        import sys, time
        from fullgraph_engine.host.process_backends import processes
        {dies}
        print("ready", flush=True)
        time.sleep(600)
        '''.replace(8 * " ", "")
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(os.getpid())], stdout=subprocess.PIPE
        )
        child.stdout.readline()
        print(child.pid, flush=True)
        time.sleep(600)
        """
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert child in processes.read_processes().parents
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert _gone(child)


def test_how_a_process_ended_in_words() -> None:
    assert processes.signal_name(-signal.SIGKILL) == "Killed"
    assert processes.signal_name(-250) == "signal 250"
    assert processes.was_killed(-signal.SIGKILL)
    assert not processes.was_killed(None)
    assert not processes.was_killed(1)


# -- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "passed", "work"),
    [
        (0.1, 60.0, "while True: pass"),
        (60.0, 0.1, "time.sleep(600)"),
        (None, 0.1, "time.sleep(600)"),
    ],
)
def test_a_process_ends_itself_when_its_time_is_up(
    used: float | None, passed: float, work: str
) -> None:
    process = python(
        f"""
        import time
        from fullgraph_engine.host.process_backends import limits
        limits.end_within({used}, {passed})
        {work}
        """
    )
    code = process.wait(60)
    assert limits.ran_out_of_time(code)
    assert not limits.ran_out_of_time(0)
    assert not limits.ran_out_of_time(None)
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.skipif(not LINUX, reason="elsewhere memory is only measured from outside")
def test_a_process_gets_no_more_memory_than_it_may_have() -> None:
    process = python(
        """
        import os, resource
        from fullgraph_engine.host.process_backends import limits, namespaces
        namespaces.drop_capabilities()  # root may raise any limit
        limits.apply_limits(64)
        try:
            bytearray(1 << 28)
        except MemoryError:
            limits.lift_memory_limit()
            print(len(bytearray(1 << 25)))
        try:
            resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, 1 << 40))
        except ValueError:
            print("no more")
        """
    )
    assert process.communicate()[0] == b"33554432\nno more\n"


# -- spares -------------------------------------------------------------------------------------


class _Started:
    """Stands in for processes: only what a pool does with them."""

    def __init__(self) -> None:
        self.count = 0

    def start(self) -> Spare:
        self.count += 1
        ours, given = channels.open_channels()
        given.close()
        return Spare(10_000_000 + self.count, ours, -1)


def _collapses() -> bool:
    """Whether this kernel moves memory into huge pages on request."""
    size = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
    release = [int(part) for part in re.findall(r"\d+", platform.release())[:2]]
    return release >= [6, 1] and size.exists() and int(size.read_text()) == 2 << 20


@pytest.mark.skipif(not _collapses(), reason="this kernel moves nothing into huge pages")
def test_what_was_allocated_is_moved_into_huge_pages() -> None:
    program = python("""
        import re
        from fullgraph_engine.host.process_backends import huge_pages

        content = bytes(range(256)) * (16 << 12)
        huge_pages.gather_pages()
        rollup = open("/proc/self/smaps_rollup").read()
        print(re.findall(r"AnonHugePages: +(\\d+) kB", rollup)[0])
        print(content == bytes(range(256)) * (16 << 12))
    """)
    huge, intact = program.communicate()[0].split()
    assert int(huge) >= 14 << 10
    assert intact == b"True"


def test_the_oldest_spare_is_taken_first(leaves_none_open: None) -> None:
    spares = Spares(_Started())  # type: ignore[arg-type]
    first, second = spares.add(), spares.add()
    assert spares.take() is first
    assert len(spares) == 1
    spares.forget(second)
    third = spares.take()
    assert third.pid == second.pid + 1
    for taken in (first, third):
        taken.discard()
    assert len(spares) == 0


def test_a_spare_that_is_told_nothing_ends() -> None:
    spare = Starter(STUB, NOTHING).start()
    spare.close()
    assert os.waitstatus_to_exitcode(os.waitpid(spare.pid, 0)[1]) == 0
    spare.discard()


def test_spares_of_one_starter_hash_alike_and_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "/nowhere")
    seen: list[tuple[list[str], dict[str, str]]] = []

    def popen(command: list[str], *, env: dict[str, str], **_: object) -> object:
        seen.append((command, env))
        raise OSError(11, "no")

    monkeypatch.setattr(subprocess, "Popen", popen)
    starter = Starter("", NOTHING)
    for _ in range(2):
        with pytest.raises(OSError, match="no"):
            starter.start()
    (command, one), (_, other) = seen
    assert one["PYTHONHASHSEED"] == other["PYTHONHASHSEED"]
    assert "PYTHONPYCACHEPREFIX" not in one
    assert json.loads(command[command.index("--spare") + 1])["unset"] == ["PYTHONHASHSEED"]


def test_a_spare_that_cannot_be_started_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, leaves_none_open: None
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(FileNotFoundError):
        Starter("", NOTHING).start()


# -- questions without forks --------------------------------------------------------------------


class _Ended(BaseException):
    pass


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[object]]:
    """Ask one question where nothing is forked; what the parent hears of it."""
    branches = process_backends.branches

    def leave(code: int) -> None:
        raise _Ended

    monkeypatch.setattr(branches, "_exit", leave)
    monkeypatch.setattr(limits, "end_within", lambda used, passed: None)

    def ask(work: Callable[[], object], answers: tuple[BranchAnswer, ...] = ()) -> list[object]:
        told: list[object] = []
        with contextlib.suppress(_Ended):
            told.append(Replay(answers, told.append, float("inf"), last=False)(work, 5.0, "q"))
        return told

    return ask


def test_an_answer_is_told_and_then_known(replayed: Callable[..., list[object]]) -> None:
    question, answer = replayed(lambda: {"a": 1})
    assert question == BranchBegun("q", 5.0)
    assert isinstance(answer, BranchAnswer)
    (known,) = replayed(lambda: pytest.fail("it is known"), (answer,))
    assert known.value == {"a": 1}  # type: ignore[attr-defined]


def test_what_cannot_be_answered_says_why(replayed: Callable[..., list[object]]) -> None:
    _, raised = replayed(lambda: 1 // int("0"))
    assert raised.lost == "it raised ZeroDivisionError: integer division or modulo by zero"  # type: ignore[attr-defined]
    _, unspeakable = replayed(lambda: lambda: 1)
    assert unspeakable.lost.startswith("its result cannot be sent to the parent process")  # type: ignore[attr-defined]


def test_the_last_attempt_asks_nothing() -> None:
    replay = Replay((), lambda message: pytest.fail(f"{message}"), float("inf"), last=True)
    answer = replay(lambda: pytest.fail("it is late"), 5.0, "q")
    assert (answer.late, answer.lost) == (True, "it did not end within 5.0 seconds")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"!",
        b"!5",
        b"![]",
        b"!{}",
        b'!{"type": "RunsPlanned", "runs": [3]}',
        b'!{"type": "ChildExited", "number": 1}',
        b'!{"type": "Nothing"}',
        b'{"type": "TargetDone", "report": 7}',
        b"!" + b"[" * 100_000,
    ],
)
def test_a_line_that_is_no_message_is_none(line: bytes) -> None:
    """User code can write to the descriptor that a run reports through."""
    assert wire.parse_message(line) is None
