"""The engine's client, against an engine that says what the text tells it to."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from fullgraph.engines import Engine, EngineGone, EngineListener, EngineState, EngineStatus
from fullgraph.engines.installation import packages_state
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    Event,
    Failed,
    FindingFound,
    Log,
    TargetDone,
)
from fullgraph_engine.protocol.scratch import scratch_prefix

from .loop_clock import passed

STUB = Path(__file__).with_name("stub_engine.py")
NET = "class Net(nn.Module):\n    x = 1  # break: Call to print\n"


class Watched:
    """An engine and everything that it reported."""

    def __init__(self, **options: Any) -> None:
        self.statuses: list[EngineStatus] = []
        self.logs: list[Log] = []
        self._changed = asyncio.Condition()
        options = {"boot": STUB, "back_off": (0.01, 0.01), **options}
        self.engine = Engine(
            Path(options.pop("interpreter", sys.executable)),
            EngineListener(self.statuses.append, self.logs.append),
            **options,
        )

    @property
    def states(self) -> list[str]:
        return [status.state.value for status in self.statuses]

    async def until(self, state: EngineState, final: bool = True) -> EngineStatus:
        while not any(s.state is state and s.final is final for s in self.statuses):
            await asyncio.sleep(0.01)
        return next(s for s in self.statuses if s.state is state and s.final is final)

    async def is_not_started_again(self) -> None:
        """When its only process has ended, however long one waits."""
        while self.engine._process is not None:
            await asyncio.sleep(0.01)
        await passed(60.0)
        assert [status.message for status in self.statuses].count("Starting Python.") == 1


@pytest.fixture
async def watched() -> AsyncIterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def make(**options: Any) -> Watched:
        made.append(Watched(**options))
        return made[-1]

    yield make
    for one in made:
        await one.engine.close()


def asked(text: str = NET, **more: Any) -> Analyze:
    return Analyze(0, "1:abc", "/model.py", text, **more)


async def events(analysis: Any) -> list[Event]:
    return [event async for event in analysis]


async def test_streams_findings_and_ends_with_analyzed(watched: Callable[..., Watched]) -> None:
    engine = watched().engine
    await engine.start()
    got = await events(engine.analyze(asked()))
    assert [e.finding.message for e in got if isinstance(e, FindingFound)] == ["Call to print"]
    assert [e.report.breaks for e in got if isinstance(e, TargetDone)] == [1]
    assert isinstance(got[-1], Analyzed) and got[-1].generation == "1:abc"


async def test_states_while_it_starts(watched: Callable[..., Watched]) -> None:
    one = watched()
    await one.engine.start()
    status = await one.engine.ready()
    assert status.state is EngineState.READY
    assert (status.torch, status.python) == ("2.13.0", platform.python_version())
    assert list(dict.fromkeys(one.states)) == ["starting", "ready"]


async def test_two_requests_at_once_are_told_apart(watched: Callable[..., Watched]) -> None:
    engine = watched().engine
    await engine.start()
    slow = engine.analyze(asked("class A(nn.Module):\n    1  # slow: 0.1\n    2  # break: one\n"))
    quick = engine.analyze(asked("class B(nn.Module):\n    2  # break: two\n"))
    for analysis, message in ((slow, "one"), (quick, "two")):
        got = await events(analysis)
        assert [e.finding.message for e in got if isinstance(e, FindingFound)] == [message]


async def test_cancel_ends_a_run_with_one_last_event(watched: Callable[..., Watched]) -> None:
    engine = watched().engine
    await engine.start()
    await engine.ready()
    analysis = engine.analyze(asked("class A(nn.Module):\n    1  # slow: 60\n"))
    analysis.cancel()
    got = await events(analysis)
    assert isinstance(got[-1], Analyzed) and got[-1].cancelled
    assert await events(analysis) == []


async def test_cancel_before_torch_is_there_costs_nothing(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    count, torch = tmp_path / "count", tmp_path / "torch"
    monkeypatch.setenv("STUB_ENGINE", f"waits={torch},count={count}")
    engine = watched().engine
    await engine.start()
    analysis = engine.analyze(asked())
    analysis.cancel()
    got = await events(analysis)
    assert isinstance(got[-1], Analyzed) and got[-1].cancelled
    torch.touch()
    assert isinstance((await events(engine.analyze(asked())))[-1], Analyzed)
    assert [line.split()[0] for line in count.read_text().splitlines()] == ["start", "analyze"]


async def test_a_run_that_does_not_hear_a_cancel_is_killed(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fullgraph.engines.requests.CANCEL_GRACE", 0.1)
    engine = watched().engine
    await engine.start()
    await engine.ready()
    analysis = engine.analyze(asked("class A(nn.Module):\n    1  # deaf\n"))
    analysis.cancel()
    got = await events(analysis)
    assert isinstance(got[-1], Analyzed) and got[-1].cancelled
    assert isinstance((await events(engine.analyze(asked())))[-1], Analyzed)


async def test_death_ends_the_request_and_the_next_one_works(
    watched: Callable[..., Watched],
) -> None:
    one = watched()
    await one.engine.start()
    got = await events(one.engine.analyze(asked("class A(nn.Module):\n    1  # die\n")))
    assert isinstance(got[-1], Failed) and "SIGKILL" in got[-1].reason
    assert isinstance((await events(one.engine.analyze(asked())))[-1], Analyzed)
    assert any("last words" in log.text for log in one.logs)


async def test_nonsense_on_the_pipe_is_a_death(watched: Callable[..., Watched]) -> None:
    engine = watched().engine
    await engine.start()
    got = await events(engine.analyze(asked("class A(nn.Module):\n    1  # die: garbage\n")))
    assert isinstance(got[-1], Failed) and "sent an invalid message" in got[-1].reason
    assert isinstance((await events(engine.analyze(asked())))[-1], Analyzed)


async def test_an_engine_that_keeps_dying_is_given_up_and_reported_once(
    watched: Callable[..., Watched],
) -> None:
    one = watched()
    await one.engine.start()
    for _ in range(3):
        got = await events(one.engine.analyze(asked("class A(nn.Module):\n    1  # die\n")))
        assert isinstance(got[-1], Failed)
    crashed = [s for s in one.statuses if s.state is EngineState.CRASHED]
    assert [s.quiet for s in crashed] == [False, True, False]
    assert [s.final for s in crashed] == [False, False, True]
    got = await events(one.engine.analyze(asked()))
    assert [type(event) for event in got] == [Failed]
    await one.engine.restart()
    assert isinstance((await events(one.engine.analyze(asked())))[-1], Analyzed)


async def test_an_engine_that_dies_over_the_import_of_torch_is_tried_twice(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    monkeypatch.setenv("STUB_ENGINE", f"crash,count={count}")
    one = watched()
    await one.engine.start()
    status = await one.engine.ready()
    assert status.state is EngineState.UNUSABLE
    assert "libtorch.so is missing" in status.message and "imported torch" in status.message
    assert f"{sys.executable} -c 'import torch'" in status.next_step
    assert [s.quiet for s in one.statuses if s.state is EngineState.CRASHED] == [True]
    assert len(count.read_text().splitlines()) == 2
    monkeypatch.delenv("STUB_ENGINE")
    await one.engine.restart()
    assert isinstance((await events(one.engine.analyze(asked())))[-1], Analyzed)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'SyntaxError: no' >&2; exit 1", "status 1 (SyntaxError: no)"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("exit 0", "status 0"),
    ],
)
async def test_what_is_no_python_is_not_started_again(
    watched: Callable[..., Watched], tmp_path: Path, script: str, words: str
) -> None:
    interpreter = tmp_path / "no python"
    interpreter.write_text(f"#!/bin/sh\necho start >> {tmp_path}/count\n{script}\n")
    interpreter.chmod(0o755)
    one = watched(interpreter=interpreter)
    await one.engine.start()
    status = await one.engine.ready()
    assert status.state is EngineState.UNUSABLE
    assert f"{interpreter} cannot run the engine" in status.message and words in status.message
    assert "Python 3.10 or newer" in status.next_step
    await one.is_not_started_again()
    assert (tmp_path / "count").read_text() == "start\n"


async def test_an_interpreter_that_hangs_is_ended(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("fullgraph.engines.engine.SILENCE", 0.1)
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    interpreter.chmod(0o755)
    one = watched(interpreter=interpreter)
    await one.engine.start()
    status = await one.engine.ready()
    assert status.state is EngineState.UNUSABLE and "did not start" in status.message
    process = one.engine._process
    while process is not None and process.exit_status is None:
        await asyncio.sleep(0.01)
    assert [s.state for s in one.statuses].count(EngineState.UNUSABLE) == 1


async def test_a_long_import_is_mentioned_and_waited_for(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("fullgraph.engines.engine.LONG_IMPORT", 0.1)
    monkeypatch.setenv("STUB_ENGINE", f"waits={tmp_path / 'torch'}")
    one = watched()
    await one.engine.start()

    def mentions() -> list[EngineStatus]:
        return [s for s in one.statuses if s.state is EngineState.STARTING and s.next_step]

    while not mentions():
        await asyncio.sleep(0.01)
    (tmp_path / "torch").touch()
    assert (await one.engine.ready()).state is EngineState.READY
    (mention,) = mentions()
    assert "importing torch" in mention.message and "import torch" in mention.next_step


async def test_a_torch_that_is_gone_at_the_restart_is_not_said_to_be_there(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = watched()
    await one.engine.start()
    assert (await one.engine.ready()).torch == "2.13.0"
    monkeypatch.setenv("STUB_ENGINE", "unusable")
    await one.engine.restart()
    assert (await one.engine.ready()).torch == ""


async def test_an_interpreter_without_torch_is_not_started_again(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    monkeypatch.setenv("STUB_ENGINE", f"unusable,count={count}")
    one = watched()
    await one.engine.start()
    analysis = one.engine.analyze(asked())
    got = await events(analysis)
    assert isinstance(got[-1], Failed) and "no torch" in got[-1].reason
    await one.is_not_started_again()
    assert one.engine.status.state is EngineState.UNUSABLE
    assert len(count.read_text().splitlines()) == 1
    with pytest.raises(EngineGone, match="no torch"):
        await one.engine.self_check()


async def test_an_interpreter_that_cannot_be_started(
    watched: Callable[..., Watched], tmp_path: Path
) -> None:
    one = watched(interpreter=tmp_path / "absent")
    await one.engine.start()
    status = await one.engine.ready()
    assert status.state is EngineState.UNUSABLE
    assert "could not be started" in status.message and status.next_step


async def test_close_ends_the_process(watched: Callable[..., Watched]) -> None:
    one = watched()
    await one.engine.start()
    status = await one.engine.ready()
    await one.engine.close()
    with pytest.raises(ProcessLookupError):
        os.kill(status.pid, 0)
    assert one.states[-1] == "stopped"


async def test_close_kills_what_does_not_go_by_itself(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stubborn = tmp_path / "stubborn.py"
    stubborn.write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr("fullgraph.engines.engine.CLOSE_GRACE", 0.1)
    one = watched(boot=stubborn)
    await one.engine.start()
    assert one.engine._process is not None
    pid = one.engine._process.pid
    assert pid is not None
    os.kill(pid, 0)
    scratch = Path(tempfile.mkdtemp(prefix=scratch_prefix(pid)))
    (scratch / "left").touch()
    await one.engine.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not scratch.exists()


async def test_a_line_that_is_longer_than_a_pipe(watched: Callable[..., Watched]) -> None:
    engine = watched().engine
    await engine.start()
    message = "x" * 100_000
    got = await events(engine.analyze(asked(f"class A(nn.Module):\n    1  # break: {message}\n")))
    assert [e.finding.message for e in got if isinstance(e, FindingFound)] == [message]


async def test_a_line_without_an_end_is_a_death(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fullgraph.engines.process.LONGEST_LINE", 1 << 14)
    engine = watched().engine
    await engine.start()
    text = f"class A(nn.Module):\n    1  # break: {'x' * (1 << 16)}\n"
    got = await events(engine.analyze(asked(text)))
    assert isinstance(got[-1], Failed) and "a line of more than " in got[-1].reason


async def test_self_check(watched: Callable[..., Watched]) -> None:
    engine = watched().engine
    await engine.start()
    assert [hook.name for hook in (await engine.self_check()).hooks] == ["convert_frame"]


def test_the_engine_is_found_without_importing_it() -> None:
    code = (
        "import sys\n"
        "from fullgraph.engines import boot_script\n"
        "print(boot_script().is_file(), boot_script().parent.name)\n"
        "assert not {'torch', 'fullgraph_engine.host'} & set(sys.modules)\n"
    )
    paths = os.pathsep.join(str(STUB.parents[2] / name) for name in ("server", "engine"))
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-c", code]
    output = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    assert output.stdout.split() == ["True", "fullgraph_engine"]


async def test_windows_is_told_to_use_wsl(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = watched()
    monkeypatch.setattr(sys, "platform", "win32")
    await one.engine.start()
    status = await one.engine.ready()
    monkeypatch.undo()
    assert status.state is EngineState.UNUSABLE
    assert status.message == "The engine of fullgraph does not run on Windows."
    assert "WSL" in status.next_step


# -- after the worst -----------------------------------------------------------------------------


async def test_what_an_engine_died_over_is_made_once_more(watched: Callable[..., Watched]) -> None:
    one = watched()
    await one.engine.start()
    text = "class A(nn.Module):\n    1  # break: before\n    2  # die\n"
    got = await events(one.engine.analyze(asked(text)))
    kinds = [type(event).__name__ for event in got]
    assert kinds.count("Restarted") == 1
    assert isinstance(got[-1], Failed)


async def test_an_innocent_text_is_traced_though_the_engine_died_over_another(
    watched: Callable[..., Watched],
) -> None:
    one = watched()
    await one.engine.start()
    innocent = one.engine.analyze(asked("class A(nn.Module):\n    1  # slow: 0.5\n" + NET))
    guilty = one.engine.analyze(asked("class B(nn.Module):\n    1  # die\n"))
    assert isinstance((await events(guilty))[-1], Failed)
    assert isinstance((await events(innocent))[-1], Analyzed)


async def test_an_engine_that_is_killed_before_it_says_anything_is_started_again(
    watched: Callable[..., Watched], tmp_path: Path
) -> None:
    boot, once = tmp_path / "boot.py", tmp_path / "once"
    boot.write_text(
        "import os, pathlib, runpy, signal, sys\n"
        f"sys.path.insert(0, {str(STUB.parent)!r})\n"
        f"once = pathlib.Path({str(once)!r})\n"
        "if not once.exists():\n"
        "    once.touch()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"runpy.run_path({str(STUB)!r}, run_name='__main__')\n"
    )
    engine = watched(boot=boot).engine
    await engine.start()
    assert isinstance((await events(engine.analyze(asked())))[-1], Analyzed)


async def test_a_forecast_that_an_engine_was_killed_over_keeps_no_trace_waiting(
    watched: Callable[..., Watched],
) -> None:
    engine = watched().engine
    await engine.start()
    await engine.ready()
    forecast = engine.analyze(asked("class A(nn.Module):\n    1  # slow: 600\n", nice=15))
    trace = engine.analyze(asked("class B(nn.Module):\n    1  # slow: 0.5\n"))
    os.kill(engine.status.pid, signal.SIGKILL)
    assert isinstance((await asyncio.wait_for(events(trace), 60))[-1], Analyzed)
    later = engine.analyze(asked())
    assert isinstance((await asyncio.wait_for(events(later), 60))[-1], Analyzed)
    assert not forecast.ended and forecast.restarted
    forecast.cancel()
    assert isinstance((await events(forecast))[-1], Analyzed)


async def test_an_engine_is_replaced_that_waits_for_what_a_signal_has_stopped(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("fullgraph.engines.process.LOOK_AT_PROCESS", 0.05)
    torch = tmp_path / "torch"
    monkeypatch.setenv("STUB_ENGINE", f"helper,waits={torch}")
    one = watched()
    await one.engine.start()
    while not one.engine.status.pid:
        await asyncio.sleep(0.01)
    while not (helpers := psutil.Process(one.engine.status.pid).children()):
        await asyncio.sleep(0.01)
    helpers[0].suspend()
    while not any("killed" in status.message for status in one.statuses):
        await asyncio.sleep(0.01)
    torch.touch()
    assert isinstance((await events(one.engine.analyze(asked())))[-1], Analyzed)


async def test_an_engine_that_a_signal_has_stopped_is_replaced(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fullgraph.engines.process.LOOK_AT_PROCESS", 0.05)
    one = watched()
    await one.engine.start()
    await one.engine.ready()
    os.kill(one.engine.status.pid, signal.SIGSTOP)
    got = await events(one.engine.analyze(asked()))
    assert isinstance(got[-1], Analyzed)
    assert "killed by SIGKILL" in next(s.message for s in one.statuses if "killed" in s.message)


async def test_an_unusable_engine_is_tried_again_once_its_packages_are_others(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    states = iter(range(100))
    installed = {"state": next(states)}
    monkeypatch.setattr(
        "fullgraph.engines.status.packages_state", lambda python: installed["state"]
    )
    monkeypatch.setenv("STUB_ENGINE", "unusable")
    one = watched()
    await one.engine.start()
    assert (await one.engine.ready()).state is EngineState.UNUSABLE
    one.engine.reconsider()
    assert one.states[-1] == "unusable"  # so soon nothing can be otherwise
    monkeypatch.setenv("STUB_ENGINE", "")
    installed["state"] = next(states)
    one.engine.reconsider()
    got = await events(one.engine.analyze(asked()))
    assert isinstance(got[-1], Analyzed)
    assert one.states[-1] == "ready"


async def test_nobody_has_to_ask_for_that(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = {"state": 0}
    monkeypatch.setattr(
        "fullgraph.engines.status.packages_state", lambda python: installed["state"]
    )
    monkeypatch.setenv("STUB_ENGINE", "unusable")
    one = watched()
    await one.engine.start()
    await one.engine.ready()
    monkeypatch.setenv("STUB_ENGINE", "")
    installed["state"] = 1
    await passed(10.0)
    await one.until(EngineState.READY)


def test_packages_that_are_installed_change_the_state_of_a_python(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    before = packages_state(python)
    assert packages_state(python) == before
    (packages / "torch").mkdir()
    assert packages_state(python) != before
