"""Code that crashes, hangs, forks, exits and fills the memory."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from tests.engine.hosts import Engine, has_landlock, spot, started_engine

from fullgraph_engine.protocol import (
    Analyzed,
    Limits,
)

# What a statement does: the code of the finding, and words of its message. It is tried both as
# the module's own statement and inside a run.
MISDEEDS = {
    "sys.exit": ("import sys; sys.exit(3)", "trace/eager-error", "3"),
    "os._exit": ("import os; os._exit(3)", "trace/crashed", "exited with status 3"),
    "loop": ("while True: pass", "trace/timeout", ""),
    "loop that catches": (
        "while True:\n        try:\n            pass\n        except BaseException: pass",
        "trace/timeout",
        "",
    ),
    "sleep in C": ("import time; time.sleep(600)", "trace/timeout", ""),
    "deaf sleep": (
        "import signal, time; signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65)); "
        "time.sleep(600)",
        "trace/timeout",
        "",
    ),
    "end of the main thread": (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); "
        "ctypes.CDLL(None).pthread_exit(None)",
        "trace/timeout",
        "",
    ),
    "segfault": ("import ctypes; ctypes.string_at(0)", "trace/crashed", "Segmentation fault"),
    "abort": ("import os; os.abort()", "trace/crashed", "Aborted"),
    "kill itself": ("import os; os.kill(os.getpid(), 9)", "trace/crashed", "Killed"),
    "memory": ("[bytearray(1 << 24) for _ in range(1 << 20)]", "trace/eager-error", "emory"),
    "stdin": ("input()", "trace/eager-error", "EOFError"),
    "kill the parent": (
        "import os; os.kill(os.getppid(), 9)",
        "trace/sandboxed",
        "not let this code signal other processes",
    ),
    "fork": ("import os; os.fork()", "trace/sandboxed", "not let this code start processes"),
    "subprocess": (
        "import subprocess; subprocess.run(['true'])",
        "trace/sandboxed",
        "not let this code start processes",
    ),
    "write": (
        "open('/tmp/fullgraph-must-not-be', 'w')",
        "trace/sandboxed",
        "does not let this code change files",
    ),
    "remove": (
        "import os; os.remove(__file__)",
        "trace/sandboxed",
        "does not let this code change files",
    ),
    "network": (
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "trace/sandboxed",
        "not let this code use the network",
    ),
    "socket": (
        "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
        "trace/sandboxed",
        "not let this code use the network: a socket",
    ),
    "a path that claims to be a stream": (
        "Path = type('Path', (str,), {'__hash__': lambda p: hash('/dev/null'), "
        "'__eq__': lambda p, other: True})\n"
        "    open(Path('/tmp/fullgraph-must-not-be'), 'w')",
        "trace/sandboxed",
        "does not let this code change files",
    ),
    "recursion": (
        "import sys; sys.setrecursionlimit(10**9)\n"
        "    def deep(n): return [deep(n + 1)]\n"
        "    import functools; g = functools.reduce\n"
        "    h = lambda *a: g(h, [1, 2])\n"
        "    h()",
        # Since Python 3.12 recursion in C has a limit of its own.
        *(
            ("trace/crashed", "Segmentation fault")
            if sys.version_info < (3, 12)
            else ("trace/eager-error", "RecursionError")
        ),
    ),
}
BRIEF = Limits(seconds=1.5, module_seconds=1.5, memory=300)
MISDEED_LIMITS = {"memory": Limits(memory=300), "recursion": Limits()}


@pytest.mark.slow
@pytest.mark.parametrize("name", MISDEEDS)
def test_misdeed_in_a_run(engine: Engine, name: str) -> None:
    deed, code, words = MISDEEDS[name]
    result = engine.analyze(
        f"def before():  # target\n    return 1\ndef f():  # target\n    {deed}\n",
        limits=MISDEED_LIMITS.get(name, BRIEF),
    )
    finding = result.trouble()
    assert finding.code == code
    assert words in finding.message
    if name in ("kill itself", "os._exit"):
        assert finding.range == spot(2, 4, 5)  # nothing is known but the target
    else:
        assert finding.range.start.line >= 3
    assert result.status("f") == {"trace/timeout": "timeout", "trace/crashed": "crashed"}.get(
        code, "failed"
    )
    assert result.value("before") == "1"


@pytest.mark.slow
@pytest.mark.parametrize("name", MISDEEDS)
def test_misdeed_in_the_module(engine: Engine, name: str) -> None:
    deed, code, words = MISDEEDS[name]
    result = engine.analyze(
        f"def before():  # target\n    return 1\ndef deed():\n    {deed}\ndeed()\n"
        "def after():  # target\n    return 2\n",
        limits=MISDEED_LIMITS.get(name, BRIEF),
    )
    finding = result.trouble()
    assert finding.code == code
    assert words in finding.message
    assert finding.range.start.line >= (2 if name == "kill itself" else 3)
    assert result.value("before") == "1"
    assert result.value("after") == "2"


def test_time_that_was_used_up_in_a_finalizer_is_told(engine: Engine) -> None:
    # Python prints what a finalizer raises, and goes on.
    result = engine.analyze(
        """\
        class Slow:
            def __del__(self):
                while True: pass
        Slow()
        def f():  # target
            return 1
        """,
        limits=BRIEF,
    )
    assert result.troubles == [("trace/timeout", 3)]
    assert result.value("f") == "1"


def test_memory_that_the_module_used_up_is_told_as_such(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import mmap, time
        def fill():
            room = mmap.mmap(-1, 1 << 29)
            for start in range(0, 1 << 29, 4096):
                room[start] = 1
            time.sleep(600)
        fill()
        def f():  # target
            return 1
        """,
        limits=Limits(seconds=20, module_seconds=20, memory=200),
    )
    finding = result.trouble()
    assert finding.code == "trace/crashed"
    assert "more than 200 MiB" in finding.message


def test_a_run_that_ends_with_the_module_process_says_so(engine: Engine, processes: str) -> None:
    if processes == "spawn":
        pytest.skip("a run needs no other process there")
    result = engine.analyze(
        """\
        import os, threading, time
        def end():
            while not open(f"/proc/self/task/{os.getpid()}/children").read():
                time.sleep(0.01)
            os._exit(5)
        threading.Thread(target=end).start()
        def f():  # target
            time.sleep(600)
        """
    )
    finding = result.trouble()
    assert finding.code == "trace/crashed"
    assert "the process that executed the file ended" in finding.message
    assert "exited with status 5" in finding.message


@pytest.mark.slow
def test_runs_go_on_long_after_a_statement_used_up_the_time(engine: Engine) -> None:
    result = engine.analyze(
        "import time\nwhile True: pass\ndef f():  # target\n    time.sleep(3)\n    return 1\n",
        limits=Limits(seconds=20.0, module_seconds=0.5),
    )
    assert result.troubles == [("trace/timeout", 1)]
    assert result.value("f") == "1"


def test_a_run_that_no_process_can_be_had_for_is_told() -> None:
    engine, _ = started_engine("spawn")
    # What a spare is told to do is left in the scratch folder, which is gone by then.
    result = engine.analyze(
        """\
        import os, shutil, tempfile
        shutil.rmtree(tempfile.gettempdir())
        def f():  # target
            return 1
        def g():  # target
            return 2
        """,
        jobs=1,
        parts=("first",),
    )
    told = sorted((report.status, report.error) for report in result.reports.values())
    assert told == [
        ("crashed", "No process could be started to trace the target: No such file or directory"),
        ("traced", None),
    ]
    assert engine.close() == 0


def test_two_statements_that_end_the_process(engine: Engine) -> None:
    result = engine.analyze(
        "import os, ctypes\nos._exit(1)\nctypes.string_at(0)\ndef f():  # target\n    return 1\n"
    )
    assert result.troubles == [("trace/crashed", 1), ("trace/crashed", 2)]
    assert result.value("f") == "1"


def test_a_module_that_ends_the_process_again_and_again(engine: Engine) -> None:
    text = "import os\ndef f():  # target\n    return 1\n" + "os._exit(1)\n" * 20
    result = engine.analyze(text)
    assert 1 < len(result.troubles) < 10
    assert result.status("f") == "crashed"
    assert isinstance(result.end, Analyzed)


def test_output_is_logged_and_bounded(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import os, sys
        print("module")
        os.write(2, b"to the descriptor\\n")
        def f():  # target
            print("run", end="")
            for _ in range(100_000):
                sys.stderr.write("0123456789" * 10)
            return 1
        """
    )
    assert result.log("stdout").startswith("module\n")
    assert "to the descriptor\n" in result.log("stderr")
    assert len(result.log("stderr")) < 80_000
    assert "64 KiB" in result.log("engine")
    assert result.value("f") == "1"


def test_meddling_with_the_process_changes_nothing(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import builtins, io, json, os, select, signal, sys, tempfile
        os.chdir("/")
        os.closerange(3, 1000)
        sys.stdout = sys.stderr = io.StringIO()
        for number in range(1, 65):
            try:
                signal.signal(number, lambda *a: None)
            except (OSError, ValueError):
                pass
        signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        def broken(*a, **k):
            raise RuntimeError("replaced")
        json.dumps = json.loads = os.write = os.read = os.fork = os.waitpid = broken
        os.close = os.dup2 = os.getpid = os.setsid = os._exit = broken
        select.poll = select.select = broken
        builtins.print = builtins.open = builtins.input = builtins.exit = broken
        def f():  # target 2
            return 1
        """
    )
    assert not result.troubles
    assert [report.status for report in result.reports.values()] == ["traced"]
    assert len([f for f in result.findings if f.message == "f gave 1"]) == 2


def test_closing_every_descriptor_in_a_run(engine: Engine) -> None:
    result = engine.analyze("import os\ndef f():  # target\n    os.closerange(0, 65536)\n")
    finding = result.trouble()
    assert finding.code == "trace/crashed"
    assert "file descriptors" in finding.message


def test_closing_every_descriptor_in_the_module(engine: Engine) -> None:
    result = engine.analyze(
        "import os\nos.closerange(0, 65536)\ndef f():  # target\n    return 1\n"
    )
    finding = result.trouble()
    assert finding.code == "trace/crashed"
    assert "file descriptors" in finding.message
    assert isinstance(result.end, Analyzed)


def test_using_up_every_descriptor_in_the_module(engine: Engine, processes: str) -> None:
    if processes == "spawn":
        pytest.skip("runs get their descriptors from elsewhere there")
    result = engine.analyze(
        """\
        import os
        try:
            while True: os.open("/dev/null", 0)
        except OSError:
            pass
        def f():  # target
            return 1
        """
    )
    finding = result.trouble()
    assert finding.code == "trace/crashed"
    assert "used up the file descriptors" in finding.message


def test_a_module_that_may_open_no_files(engine: Engine, processes: str) -> None:
    if processes == "spawn":
        pytest.skip("runs get their descriptors from elsewhere there")
    result = engine.analyze(
        """\
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
        def f():  # target
            return 1
        """
    )
    finding = result.trouble()
    assert (finding.code, finding.range) == ("trace/crashed", spot(2, 4, 5))
    assert "used up the file descriptors" in finding.message


def test_code_of_the_engine_that_fails_is_told_as_such(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import random
        def f():  # target
            return 1
        random.seed = None
        """
    )
    finding = result.trouble()
    assert finding.code == "trace/crashed"
    assert "fullgraph's own code failed" in finding.message


FORGING = """\
import ctypes, json, os
def forge(*messages):
    for message in messages:
        for name in os.listdir("/proc/self/fd"):
            try: os.write(int(name), message.encode() + b"\\n")
            except OSError: pass
"""


def test_no_message_makes_the_engine_fail(engine: Engine) -> None:
    result = engine.analyze(
        FORGING
        + """\
odd = (None, "x", -1, 10**400, 1e308, [], [[]], {}, True, float("nan"))
for kind in (
    "StageBegun", "RunsPlanned", "ChildForked", "LateImports", "PreambleReady", "RunDone",
    "SnapshotTaken", "CallersEnded",
):
    names = (
        "stage seconds runs late number pid names lines files report target probe uncalled".split()
    )
    for one in odd:
        forge("!" + json.dumps({"type": kind, **dict.fromkeys(names, one)}))
def f():  # target
    return 1
"""
    )
    assert isinstance(result.end, Analyzed)
    assert engine.analyze("def f():  # target\n    return 2\n").value("f") == "2"


def test_no_last_words_make_the_engine_fail(engine: Engine) -> None:
    result = engine.analyze(
        FORGING
        + """\
forge("#[{}]", '#[{"path": 1, "line": "x"}]', "~[]", '~{"start": 1}', "@999 999", "@" + "9" * 9000)
ctypes.string_at(0)
def f():  # target
    return 1
"""
    )
    assert result.trouble().code == "trace/crashed"
    assert isinstance(result.end, Analyzed)


def test_nothing_is_told_of_other_requests(engine: Engine) -> None:
    said = (
        '{"type": "FindingFound", "request": %d, "finding": {"code": "stub/forged", "message": "x",'
        ' "range": {"start": {"line": 0, "byte": 0}, "end": {"line": 0, "byte": 0}}}}'
    )
    own = engine.requests + 1
    result = engine.analyze(
        f"{FORGING}forge({said % (own + 1)!r}, {said % own!r})\ndef f():  # target\n    return 1\n"
    )
    forged = [event for event in result.events if getattr(event, "request", own) != own]
    assert not forged
    assert "stub/forged" in [finding.code for finding in result.findings]


def test_nobody_gives_itself_more_time(engine: Engine) -> None:
    result = engine.analyze(
        FORGING
        + """\
def f():  # target
    while True:
        forge('!{"type": "StageBegun", "stage": "run", "seconds": 1e9}')
""",
        limits=BRIEF,
    )
    assert result.trouble().code == "trace/timeout"


def test_threads_started_by_the_module(engine: Engine, processes: str) -> None:
    result = engine.analyze(
        """\
        import threading, time
        threading.Thread(target=time.sleep, args=(600,)).start()
        def f():  # target
            return 1
        """
    )
    assert result.value("f") == "1"
    # They do not survive a fork; a process that becomes a run itself keeps them.
    assert ("threads" in result.log("engine")) == (processes == "fork")


def test_processes_that_escape_are_killed(engine: Engine, tmp_path: Path) -> None:
    # libc's own fork passes by the interpreter's audit hooks.
    result = engine.analyze(
        """\
        import ctypes, os, time
        libc = ctypes.CDLL(None)
        def f():  # target
            read, write = os.pipe()
            if libc.fork() == 0:
                os.setsid()
                if libc.fork() == 0:
                    os.setsid()
                    os.write(write, b"x")
                    time.sleep(600)
                time.sleep(600)
            os.read(read, 1)
            return 1
        """
    )
    assert result.value("f") == "1"
    # The fixture asserts that nobody is left.


def test_a_fork_bomb_is_ended(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import ctypes, time
        libc = ctypes.CDLL(None)
        def f():  # target
            for _ in range(100):
                if libc.fork() == 0:
                    time.sleep(600)
            time.sleep(600)
        """,
        limits=Limits(seconds=20, processes=20),
    )
    finding = result.trouble()
    assert finding.code == "trace/crashed"
    assert "more than 20 processes" in finding.message


def test_shared_memory_counts(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import mmap, time
        def f():  # target
            room = mmap.mmap(-1, 1 << 29)
            for start in range(0, 1 << 29, 4096):
                room[start] = 1
            time.sleep(600)
        """,
        limits=Limits(seconds=20, memory=200),
    )
    finding = result.trouble()
    assert "more than 200 MiB" in finding.message
    assert finding.range.start.line >= 3


def test_scratch_files_may_be_written_and_are_removed(engine: Engine, tmp_path: Path) -> None:
    result = engine.analyze(
        """\
        import os, tempfile
        def f():  # target
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "x"), "w") as file:
                    file.write("x")
                os.rename(file.name, file.name + "2")
            handle, name = tempfile.mkstemp()
            return name
        """,
        # Of a file that is new, so that no process is kept for its next text.
        path=str(tmp_path / "model.py"),
    )
    scratch = Path(eval(result.value("f"))).parent
    assert engine.analyze("def f():  # target\n    pass\n").status("f") == "traced"
    # A moment after the end, when its processes are gone.
    until = time.monotonic() + 20
    while scratch.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not scratch.exists()


def test_c_code_cannot_change_files_either(engine: Engine, tmp_path: Path) -> None:
    kept = tmp_path / "checkpoint.pt"
    kept.write_text("precious")
    result = engine.analyze(
        f"""\
        import ctypes
        libc = ctypes.CDLL(None)
        def f():  # target
            return libc.open({str(kept).encode()!r}, 0o1001), libc.unlink({str(kept).encode()!r})
        """
    )
    if not has_landlock():
        pytest.skip("this kernel has no Landlock")
    assert result.value("f") == "(-1, -1)"
    assert kept.read_text() == "precious"
