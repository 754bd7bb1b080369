"""Engines that stay for later commands: one process of ours for all that need the same."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fullgraph import __version__
from fullgraph.engines import (
    AnyEngine,
    Engine,
    EngineListener,
    EngineState,
    EngineStatus,
    Interpreter,
)
from fullgraph.engines.background import (
    BackgroundEngine,
    EngineLaunch,
    client,
    folder,
    keeper,
)
from fullgraph.engines.background import (
    connection as connection_module,
)
from fullgraph.engines.background import service as service_module
from fullgraph.engines.background.connection import EngineConnection
from fullgraph.engines.background.folder import BackgroundUnavailable, check_private, private_folder
from fullgraph.engines.background.keeper import Keeper
from fullgraph.engines.background.messages import Welcome
from fullgraph.session.engine_pool import EnginePool
from fullgraph_engine.protocol import (
    Allowed,
    Analyze,
    Analyzed,
    Compared,
    Event,
    Failed,
    FindingFound,
    IndexWritten,
    Log,
    Reproduced,
    ReproFound,
    Restarted,
    encode_line,
)
from fullgraph_engine.protocol.sandbox import WritableFolder

from .conftest import Counter
from .loop_clock import passed
from .test_engine_client import NET, STUB, asked, events
from .test_engine_compare import asked as comparison
from .test_engine_repro import asked as reproduction

SLOW = "class Net(nn.Module):\n    1  # slow: 60\n"


def messages(got: list[Event]) -> list[str]:
    return [one.finding.message for one in got if isinstance(one, FindingFound)]


class Commands:
    """Commands of one user, and the process that serves them."""

    def __init__(self, runtime: Path, counter: Counter) -> None:
        self.environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(runtime),
            "STUB_ENGINE": f"count={counter.path}",
        }
        self.launch = EngineLaunch(sys.executable)
        self.folder = runtime / "fullgraph"
        self.notes: list[str] = []
        self.made: list[BackgroundEngine] = []
        self.own: list[Engine] = []
        self.keepers: list[tuple[Keeper, asyncio.Task[None]]] = []

    @property
    def name(self) -> str:
        return self.launch.engine_name(self.environment)

    @property
    def path(self) -> Path:
        return folder.socket_path(private_folder(self.environment), self.name)

    def command(
        self, *, keep: float = 600.0, listener: EngineListener | None = None
    ) -> BackgroundEngine:
        engine = BackgroundEngine(
            self.launch,
            listener or EngineListener(),
            keep=keep,
            own=self.own_engine,
            on_note=self.notes.append,
            environment=self.environment,
            boot=STUB,
        )
        self.made.append(engine)
        return engine

    def own_engine(self, processes: str) -> AnyEngine:
        self.own.append(engine_of(EngineListener()))
        return self.own[-1]

    async def serve(self, **options: Any) -> Keeper:
        """Be the process, here."""
        options = {"name": self.name, "interpreter": sys.executable, **options}
        kept = Keeper(self.path, options.pop("make", engine_of), **options)
        self.keepers.append((kept, asyncio.create_task(kept.run())))
        await until(lambda: folder.socket_inode(self.path) is not None)
        return kept

    async def ended(self) -> None:
        """The process has, by itself."""
        await self.keepers[-1][1]

    def is_serving(self) -> bool:
        return not self.keepers[-1][1].done()

    async def pid(self) -> int:
        connection = await EngineConnection.connect_to(self.path)
        connection.drop()
        return connection.welcome.result().pid

    async def close(self) -> None:
        for engine in self.made:
            await engine.close()
        for kept, task in self.keepers:
            kept.end()
            await task


def engine_of(listener: EngineListener, kind: type[Engine] = Engine) -> Engine:
    return kind(
        Path(sys.executable),
        listener,
        boot=STUB,
        back_off=(),
    )


async def until(there: Callable[[], bool]) -> None:
    while not there():
        await asyncio.sleep(0.005)


@pytest.fixture
def runtime() -> Iterator[Path]:
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="fg-") as made:
        yield Path(made)


@pytest.fixture
async def commands(
    runtime: Path, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Commands]:
    made = Commands(runtime, counter)
    monkeypatch.setenv("STUB_ENGINE", made.environment["STUB_ENGINE"])
    yield made
    await made.close()


@pytest.fixture
async def processes(commands: Commands) -> AsyncIterator[Commands]:
    """Whose processes are real ones; they end with the test."""
    try:
        yield commands
    finally:
        for path in folder.list_sockets(commands.folder):
            with contextlib.suppress(OSError, BackgroundUnavailable):
                connection = await EngineConnection.connect_to(path)
                connection.drop()
                process = psutil.Process(connection.welcome.result().pid)
                process.terminate()
                await asyncio.to_thread(process.wait, 20)


# -- one engine for all -------------------------------------------------------------------------


async def test_two_commands_have_one_engine(commands: Commands, counter: Counter) -> None:
    await commands.serve()
    one, other = commands.command(), commands.command()
    for engine in (one, other):
        await engine.start()
        status = await engine.ready()
        assert (status.state, status.torch) == (EngineState.READY, "2.13.0")
        assert [layer.name for layer in status.sandbox.layers] == ["audit hook", "Landlock"]
    results = await asyncio.gather(
        events(one.analyze(asked(NET))), events(other.analyze(asked(NET.replace("print", "open"))))
    )
    assert [messages(got) for got in results] == [["Call to print"], ["Call to open"]]
    assert [got[-1].request for got in results if isinstance(got[-1], Analyzed)] == [1, 1]
    assert counter.words.count("start") == 1
    assert (commands.own, commands.notes) == ([], [])


async def test_comparisons_and_repros(commands: Commands) -> None:
    await commands.serve()
    engine = commands.command()
    await engine.start()
    compared = (await events(engine.compare(comparison("exact"))))[-1]
    assert isinstance(compared, Compared) and compared.outcome == "same"
    made = engine.reproduce(reproduction("143 12 verified"))
    got = await events(made)
    assert isinstance(got[-1], Reproduced) and got[-1].verified
    assert [one.lines for one in got if isinstance(one, ReproFound)][:2] == [143, 12]
    assert made.found is not None and made.found.lines == 12


async def test_output_goes_to_whose_code_it_is(commands: Commands) -> None:
    await commands.serve()
    logs: list[Log] = []
    others: list[Log] = []
    one = commands.command(listener=EngineListener(log=logs.append))
    other = commands.command(listener=EngineListener(log=others.append))
    for engine in (one, other):
        await engine.start()
    # So that numbers of the engine are not those of the command.
    await events(other.analyze(asked(NET)))
    await events(one.analyze(asked("class Net(nn.Module):\n    1  # print: hello\n")))
    await events(other.analyze(asked(NET)))
    assert [(log.request, log.text) for log in logs] == [(1, "hello\n")]
    assert others == []


async def test_a_command_that_is_gone_leaves_no_request(
    commands: Commands, counter: Counter
) -> None:
    await commands.serve()
    one, other = commands.command(), commands.command()
    await one.start()
    await other.start()
    one.analyze(asked(SLOW))
    running = other.analyze(asked("class Net(nn.Module):\n    1  # slow: 0.2\n"))
    await until(lambda: counter.analyzed == 2)
    one.kill()
    await until(lambda: "cancel" in counter.words)
    got = await events(running)
    assert isinstance(got[-1], Analyzed) and not got[-1].cancelled
    assert counter.words.count("cancel") == 1


async def test_a_request_is_cancelled(commands: Commands) -> None:
    await commands.serve()
    engine = commands.command()
    await engine.start()
    analysis = engine.analyze(asked(SLOW))
    analysis.cancel()
    got = await events(analysis)
    assert isinstance(got[-1], Analyzed) and got[-1].cancelled


async def test_requests_are_told_apart_by_command(commands: Commands) -> None:
    """The engine lets the requests of one wait for each other, and for no others."""
    seen: list[Analyze] = []

    class Seeing(Engine):
        def analyze(self, request: Analyze) -> Any:
            seen.append(request)
            return super().analyze(request)

    def make(listener: EngineListener) -> Engine:
        return engine_of(listener, Seeing)

    await commands.serve(make=make)
    one, other = commands.command(), commands.command()
    for engine in (one, other, one):
        await engine.start()
        await events(engine.analyze(asked(NET)))
    numbers = [request.client for request in seen]
    assert numbers[0] == numbers[2] != numbers[1]
    assert 0 not in numbers


async def test_what_is_asked_before_the_process_is_there_waits_for_it(commands: Commands) -> None:
    engine = commands.command()
    waiting, unwanted = engine.analyze(asked(NET)), engine.analyze(asked(NET))
    unwanted.cancel()
    got = await events(unwanted)
    assert isinstance(got[-1], Analyzed) and got[-1].cancelled
    await commands.serve()
    await engine.start()
    assert messages(await events(waiting)) == ["Call to print"]
    assert commands.own == []


async def test_what_is_asked_of_a_closed_one_fails(commands: Commands) -> None:
    await commands.serve()
    engine = commands.command()
    await engine.start()
    running = engine.analyze(asked(SLOW))
    await engine.close()
    later = engine.analyze(asked(NET))
    for analysis in (running, later):
        failed = (await events(analysis))[-1]
        assert isinstance(failed, Failed) and failed.reason == "The engine was stopped."


async def test_every_client_hears_of_the_index(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands.environment["STUB_ENGINE"] += f",index={tmp_path / 'a.index'}"
    monkeypatch.setenv("STUB_ENGINE", commands.environment["STUB_ENGINE"])
    await commands.serve()
    for _ in range(2):
        found: list[IndexWritten] = []
        engine = commands.command(listener=EngineListener(index=found.append))
        await engine.start()
        await until(lambda: bool(found))  # noqa: B023 - it has ended before the next round
        assert found == [IndexWritten(str(tmp_path / "a.index"), complete=True)]
        await engine.close()


# -- what is wrong with the process -------------------------------------------------------------


async def test_a_process_that_ends_is_replaced_amid_a_request(
    commands: Commands, counter: Counter
) -> None:
    kept = await commands.serve()
    engine = commands.command()
    await engine.start()
    analysis = engine.analyze(
        asked("class Net(nn.Module):\n    1  # slow: 0.1\n    2  # break: b\n")
    )
    await until(lambda: counter.analyzed == 1)
    kept.end()
    got = await events(analysis)
    again = [type(one) for one in got].index(Restarted)
    assert messages(got[again:]) == ["b"]
    assert isinstance(got[-1], Analyzed) and not got[-1].cancelled
    assert len(commands.own) == 1
    assert commands.notes == [
        "The background engine cannot be used: The process of the engine has ended."
    ]
    # What is asked from now on goes there as well.
    assert messages(await events(engine.analyze(asked(NET)))) == ["Call to print"]
    assert (await engine.ready()).torch == "2.13.0"


async def test_what_an_engine_dies_of_is_no_failure_of_other_commands(
    commands: Commands, counter: Counter
) -> None:
    await commands.serve()
    one, other = commands.command(), commands.command()
    await one.start()
    await other.start()
    running = other.analyze(asked(SLOW.replace("60", "0.2")))
    await until(lambda: counter.analyzed == 1)
    died = await events(one.analyze(asked("class Net(nn.Module):\n    1  # die\n")))
    assert isinstance(died[-1], Failed) and "SIGKILL" in died[-1].reason
    got = await events(running)
    assert isinstance(got[-1], Analyzed)
    await one.close()
    await other.close()
    await commands.ended()


async def test_a_process_that_stops_answering_is_replaced(commands: Commands) -> None:
    silent = await Silent.at(commands, welcome=True)
    engine = commands.command()
    await engine.start()
    analysis = engine.analyze(asked(NET))
    for _ in range(3):
        await passed(client.ALIVE)
    assert messages(await events(analysis)) == ["Call to print"]
    assert commands.notes == [
        "The background engine cannot be used: The process of the engine does not answer."
    ]
    silent.close()


async def test_a_process_that_never_answers(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "ANSWER", 0.01)
    silent = await Silent.at(commands, welcome=False)
    engine = commands.command()
    await engine.start()
    assert messages(await events(engine.analyze(asked(NET)))) == ["Call to print"]
    assert commands.notes == [
        f"The background engine cannot be used: The process at {commands.path} does not answer."
    ]
    silent.close()


class Silent:
    """A process that listens, and perhaps says what it is, and no more."""

    @staticmethod
    async def at(commands: Commands, *, welcome: bool) -> asyncio.AbstractServer:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if welcome:
                writer.write(encode_line(Welcome(commands.name, __version__, 1, "")))
            await reader.read()
            writer.close()

        return await asyncio.start_unix_server(connected, commands.path)


async def test_a_process_of_another_fullgraph_is_not_used(commands: Commands) -> None:
    await commands.serve(name="another")
    engine = commands.command()
    await engine.start()
    assert messages(await events(engine.analyze(asked(NET)))) == ["Call to print"]
    assert commands.notes == [
        f"The background engine cannot be used: The process at {commands.path} belongs to another "
        "version or installation of fullgraph."
    ]


async def test_who_speaks_otherwise_is_not_used(commands: Commands) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0\n")
        await reader.read()
        writer.close()

    listening = await asyncio.start_unix_server(connected, commands.path)
    engine = commands.command()
    await engine.start()
    assert (await engine.ready()).state is EngineState.READY
    (note,) = commands.notes
    assert note.startswith(
        "The background engine cannot be used: The process of the engine sent an invalid message"
    )
    listening.close()


async def test_a_process_of_another_user_is_not_used(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    await commands.serve()
    monkeypatch.setattr(folder, "same_user", lambda connection: False)
    engine = commands.command()
    await engine.start()
    assert (await engine.ready()).state is EngineState.READY
    assert commands.notes == [
        f"The background engine cannot be used: The process at {commands.path} is another user's."
    ]


async def test_another_user_is_not_served(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    await commands.serve()
    monkeypatch.setattr(service_module, "same_user", lambda connection: False)
    reader, writer = await asyncio.open_unix_connection(commands.path)
    assert await reader.read() == b""
    writer.close()


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="no SO_PEERCRED")
def test_whose_a_connection_is(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert folder.same_user(ours)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert not folder.same_user(ours)


async def test_what_is_no_request_ends_the_connection(commands: Commands) -> None:
    await commands.serve()
    for line in (b"no JSON\n", b'{"type": "Cancelled"}\n', b'{"type": "Analyze", "request": 1}\n'):
        reader, writer = await asyncio.open_unix_connection(commands.path)
        writer.write(line)
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        writer.close()
    assert commands.is_serving()


async def test_no_request_before_a_greeting(commands: Commands, counter: Counter) -> None:
    await commands.serve()
    connection = await EngineConnection.connect_to(commands.path)
    lost = asyncio.Event()
    connection.on_lost = lambda reason: lost.set()
    connection.send(asked(NET))
    await lost.wait()
    assert counter.analyzed == 0


async def test_an_engine_that_cannot_work_says_so_and_ends(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_ENGINE", "unusable")
    await commands.serve()
    engine = commands.command()
    await engine.start()
    status = await engine.ready()
    assert status.state is EngineState.UNUSABLE
    assert status.message == "There is no torch in this interpreter."
    got = await events(engine.analyze(asked(NET)))
    assert isinstance(got[-1], Failed) and got[-1].next_step == "Install torch in it."
    await engine.close()
    await commands.ended()
    assert folder.socket_inode(commands.path) is None
    assert commands.own == []


# -- how long it stays --------------------------------------------------------------------------


async def test_it_ends_some_time_after_its_last_client(commands: Commands) -> None:
    await commands.serve()
    one, other = commands.command(keep=100.0), commands.command(keep=300.0)
    await one.start()
    await events(one.analyze(asked(NET)))
    await other.start()
    await other.ready()
    await one.close()
    await passed(250.0)
    assert commands.is_serving()
    await other.close()
    await until(lambda: not commands.keepers[0][0]._service.clients)
    await passed(299.0)
    assert commands.is_serving()
    await passed(2.0)
    await commands.ended()
    assert folder.socket_inode(commands.path) is None


async def test_it_ends_if_nobody_comes(commands: Commands) -> None:
    await commands.serve()
    await passed(keeper.UNUSED + 1)
    await commands.ended()


async def test_it_ends_when_its_socket_is_removed(commands: Commands) -> None:
    await commands.serve()
    engine = commands.command()
    await engine.start()
    commands.path.unlink()
    await passed(keeper.LOOK)
    # The client that it has is served to the end.
    assert messages(await events(engine.analyze(asked(NET)))) == ["Call to print"]
    await engine.close()
    await commands.ended()
    assert commands.own == []


async def test_it_leaves_the_socket_of_another(commands: Commands) -> None:
    await commands.serve()
    commands.path.unlink()
    commands.path.write_text("another's")
    await passed(keeper.LOOK)
    await commands.ended()
    assert commands.path.read_text() == "another's"


async def test_an_engine_whose_torch_has_changed_does_not_count(commands: Commands) -> None:
    state = "as it was"
    await commands.serve(state=lambda: state)
    engine = commands.command()
    await engine.start()
    await events(engine.analyze(asked(NET)))
    assert commands.own == []
    await engine.close()
    state = "another"
    later = commands.command()
    await later.start()
    got = await events(later.analyze(asked(NET)))
    # What the old one said before it was known to be old is void.
    again = [type(one) for one in got].index(Restarted)
    assert messages(got[again:]) == ["Call to print"]
    assert len(commands.own) == 1
    await commands.ended()


async def test_it_looks_now_and_then_whether_its_torch_has_changed(commands: Commands) -> None:
    state = "as it was"
    await commands.serve(state=lambda: state)
    engine = commands.command(keep=10_000.0)
    await engine.start()
    await engine.close()
    state = "another"
    for _ in range(keeper.LOOKS):
        await passed(keeper.LOOK)
    await commands.ended()


async def test_the_longest_idle_of_many_ends(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "MOST", 2)
    await commands.serve()
    in_use = commands.command()
    await in_use.start()
    for number, environment in enumerate(("one", "other", "third")):
        commands.environment["TORCH_LOGS"] = environment
        await commands.serve()
        if number:
            # Neither that which a command uses, nor the new one.
            await commands.keepers[number][1]
    assert [task.done() for _, task in commands.keepers] == [False, True, True, False]


# -- which engine a command needs ---------------------------------------------------------------


def test_what_a_launch_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"PATH": "/bin", "PWD": "/a", "SSH_CLIENT": "1", "TERM": "xterm"}
    launch = EngineLaunch(sys.executable)
    name = launch.engine_name(environment)
    assert name == launch.engine_name(
        {**environment, "PWD": "/b", "SSH_CLIENT": "2", "TERM": "linux"}
    )
    assert name == launch.engine_name({"PATH": "/bin"})
    others = {
        launch.engine_name({**environment, "CUDA_VISIBLE_DEVICES": "0"}),
        launch.engine_name({**environment, "TORCH_LOGS": "dynamo"}),
        EngineLaunch(sys.executable, "spawn").engine_name(environment),
        EngineLaunch(sys.executable, allowed=Allowed(network=True)).engine_name(environment),
        EngineLaunch(sys.executable, allowed=Allowed(writable=(WritableFolder("/w"),))).engine_name(
            environment
        ),
    }
    monkeypatch.setattr("fullgraph.engines.background.launch.__version__", "0.0.0")
    others.add(launch.engine_name(environment))
    assert len(others - {name}) == 6


def test_a_change_of_a_package_is_another_launch(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    (packages / "torch" / "_dynamo").mkdir(parents=True)
    python.parent.mkdir()
    python.touch()
    launch = EngineLaunch(str(python))
    with pytest.raises(BackgroundUnavailable, match="torch files of"):
        launch.engine_name({})
    (packages / "torch" / "version.py").touch()
    name, state = launch.engine_name({}), launch.torch_state({})
    assert (launch.engine_name({}), launch.torch_state({})) == (name, state)
    (packages / "torch" / "_dynamo" / "guards.py").write_text("1\n")
    assert (launch.engine_name({}), launch.torch_state({}) == state) == (name, False)
    os.utime(packages, ns=(1, 1))
    assert launch.engine_name({}) != name


def test_a_torch_on_pythonpath(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").touch()
    launch = EngineLaunch("/nowhere/bin/python")
    environment = {"PYTHONPATH": str(tmp_path)}
    before = launch.torch_state(environment)
    (tmp_path / "torch" / "version.py").write_text("1\n")
    assert launch.torch_state(environment) != before


@pytest.mark.parametrize(
    ("variables", "cwd"),
    [
        ({}, "/"),
        ({"PYTHONPATH": "/a:/b", "HF_HOME": "~/hf"}, "/"),
        ({"PYTHONPATH": "/a:src"}, "/project"),
        ({"PYTHONPATH": "/a:"}, "/project"),
        ({"TRITON_CACHE_DIR": "cache"}, "/project"),
    ],
)
def test_the_folder_of_an_engine(variables: dict[str, str], cwd: str) -> None:
    python, project = Path("/bin/python"), Path("/project")
    launch = EngineLaunch.for_project(
        python, project, variables, processes="auto", allowed=Allowed()
    )
    assert launch.cwd == cwd


# -- the folder of the sockets ------------------------------------------------------------------


def test_the_folder_is_private(runtime: Path) -> None:
    made = private_folder({"XDG_RUNTIME_DIR": str(runtime)})
    assert made == runtime / "fullgraph"
    assert made.stat().st_mode & 0o777 == 0o700
    assert private_folder({"XDG_RUNTIME_DIR": str(runtime)}) == made


def test_a_folder_that_others_can_open(runtime: Path) -> None:
    (runtime / "open").mkdir()
    (runtime / "open").chmod(0o750)
    with pytest.raises(BackgroundUnavailable, match="Other users may open the folder"):
        check_private(runtime / "open")


def test_a_folder_of_another_user(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (runtime / "theirs").mkdir(0o700)
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(BackgroundUnavailable, match="Other users may open the folder"):
        check_private(runtime / "theirs")


def test_a_link_to_a_folder(runtime: Path) -> None:
    (runtime / "real").mkdir(0o700)
    (runtime / "link").symlink_to(runtime / "real")
    with pytest.raises(BackgroundUnavailable, match="is not a folder"):
        check_private(runtime / "link")


def test_a_folder_that_others_can_replace(runtime: Path) -> None:
    above = runtime / "above"
    above.mkdir()
    above.chmod(0o777)
    with pytest.raises(BackgroundUnavailable, match="Other users may replace the folder"):
        check_private(above / "fullgraph")
    above.chmod(0o1777)
    check_private(above / "fullgraph")


def test_the_temporary_folder_is_the_second_choice(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(runtime))
    other = runtime / "run"
    other.mkdir()
    other.chmod(0o777)
    expected = runtime / f"fullgraph-{os.geteuid()}"
    for above in ("", "relative", str(other), str(runtime / "missing")):
        assert private_folder({"XDG_RUNTIME_DIR": above}) == expected


async def test_without_a_folder_a_command_has_its_own_engine(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands.folder.mkdir()
    commands.folder.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    engine = commands.command()
    await engine.start()
    assert messages(await events(engine.analyze(asked(NET)))) == ["Call to print"]
    assert commands.notes == [
        f"The background engine cannot be used: Other users may open the folder "
        f"{commands.folder}; remove it, or run `chmod 700` on it."
    ]


# -- real processes -----------------------------------------------------------------------------


async def test_two_commands_start_one_process(processes: Commands, counter: Counter) -> None:
    one, other = processes.command(), processes.command()
    await asyncio.gather(one.start(), other.start())
    results = await asyncio.gather(*(events(each.analyze(asked(NET))) for each in (one, other)))
    assert [messages(got) for got in results] == [["Call to print"]] * 2
    assert counter.words.count("start") == 1
    assert (processes.own, processes.notes) == ([], [])


async def test_a_process_stays_and_holds_nothing_of_its_command(
    processes: Commands, counter: Counter, tmp_path: Path
) -> None:
    # Until torch is imported, other processes may look into it.
    processes.environment["STUB_ENGINE"] += f",waits={tmp_path / 'imported'}"
    engine = processes.command()
    await engine.start()
    await engine.close()
    process = psutil.Process(await processes.pid())
    # Editors end the processes below a server, wherever these have their session.
    assert process.pid not in [one.pid for one in psutil.Process().children(recursive=True)]
    assert os.getsid(process.pid) == process.pid
    assert os.getpgid(process.pid) == process.pid
    assert process.cwd() == "/"
    streams = [Path(f"/proc/{process.pid}/fd/{number}").readlink() for number in range(3)]
    log = processes.folder / "engine.log"
    assert streams == [Path("/dev/null"), log, log]
    (tmp_path / "imported").touch()
    again = processes.command()
    await again.start()
    assert messages(await events(again.analyze(asked(NET)))) == ["Call to print"]
    assert counter.words.count("start") == 1


async def test_what_a_killed_process_has_left_is_replaced(processes: Commands) -> None:
    one = processes.command()
    await one.start()
    await one.ready()
    killed = await processes.pid()
    os.kill(killed, signal.SIGKILL)
    later = processes.command()
    await until(lambda: not folder.is_served(processes.path))
    assert processes.path.exists()
    await later.start()
    assert messages(await events(later.analyze(asked(NET)))) == ["Call to print"]
    assert await processes.pid() != killed
    assert processes.own == processes.own[:1]  # that of the first command


async def test_a_restart_is_one_for_all(processes: Commands, counter: Counter) -> None:
    statuses: list[EngineStatus] = []
    one = processes.command(listener=EngineListener(status=statuses.append))
    other = processes.command()
    for engine in (one, other):
        await engine.start()
        await engine.ready()
    before = await processes.pid()
    running = one.analyze(asked(SLOW))
    await until(lambda: counter.analyzed == 1)
    statuses.clear()
    await one.restart()
    failed = (await events(running))[-1]
    assert isinstance(failed, Failed) and failed.reason == "The engine was restarted."
    assert (await one.ready()).state is EngineState.READY
    assert statuses[0].state is EngineState.STARTING
    assert messages(await events(one.analyze(asked(NET)))) == ["Call to print"]
    assert await processes.pid() != before
    assert messages(await events(other.analyze(asked(NET)))) == ["Call to print"]


async def test_a_process_need_not_stay(processes: Commands) -> None:
    engine = processes.command()
    await engine.start()
    process = psutil.Process(await processes.pid())
    await engine.close(stay=False)
    await asyncio.to_thread(process.wait, 20)
    assert folder.socket_inode(processes.path) is None


async def test_editors_share_an_engine(
    processes: Commands, counter: Counter, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    statuses: list[EngineStatus] = []
    for _ in range(2):
        pool = EnginePool(
            lambda key, status, before: statuses.append(status),
            recovered=lambda key: None,
            log=processes.notes.append,
            boot=STUB,
        )
        interpreter = Interpreter(Path(sys.executable), "setting")
        engine = pool.get_engine(interpreter, "auto", Allowed(), keep=600.0)
        assert messages(await events(engine.analyze(asked(NET)))) == ["Call to print"]
        assert statuses[-1].state is EngineState.READY
        assert pool.all_statuses()[0].torch == "2.13.0"
        await pool.close_all()
    assert counter.words.count("start") == 1


async def test_a_process_that_cannot_start(
    processes: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "keeper_command", lambda start: [sys.executable, "-c", "oops"])
    engine = processes.command()
    await engine.start()
    assert messages(await events(engine.analyze(asked(NET)))) == ["Call to print"]
    assert processes.notes == [
        "The background engine cannot be used: The process of the engine ended with status "
        f"1; {processes.folder / 'engine.log'} has its last output."
    ]
    assert "NameError" in (processes.folder / "engine.log").read_text()


async def test_a_terminated_process_removes_its_socket(processes: Commands) -> None:
    engine = processes.command()
    await engine.start()
    await engine.ready()
    process = psutil.Process(await processes.pid())
    await engine.close()
    process.terminate()
    await asyncio.to_thread(process.wait, 20)
    assert folder.list_sockets(processes.folder) == []
