"""The connection itself: bytes in, bytes out, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from fullgraph.lsp.connection import ClientConnection
from fullgraph.lsp.protocol import Protocol
from fullgraph.store.folder import results_folder

HERE = Path(__file__).parent
INITIALIZE: dict[str, Any] = {
    "processId": None,
    "rootUri": None,
    "capabilities": {},
    "initializationOptions": {"trusted": True},
}


class Wire:
    """A client that can be as wrong as it likes."""

    def __init__(self, write: Any, read: Any) -> None:
        self._write = write
        self._read = read
        self.notifications: list[dict[str, Any]] = []

    def send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send_bytes(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def send_bytes(self, data: bytes) -> None:
        self._write.write(data)
        self._write.flush()

    def receive(self) -> dict[str, Any] | None:
        length = 0
        while line := self._read.readline():
            if not line.strip():
                break
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if not line:
            return None
        message: dict[str, Any] = json.loads(self._read.read(length))
        return message

    def response(self, number: Any) -> dict[str, Any]:
        while (message := self.receive()) is not None:
            if "method" not in message:
                assert message["id"] == number
                return message
            self.notifications.append(message)
            if "id" in message:
                self.send(id=message["id"], result=None)
        raise AssertionError("The server closed the connection.")

    def request(self, number: Any, method: str, params: Any = None) -> dict[str, Any]:
        self.send(id=number, method=method, params=params)
        return self.response(number)

    def initialize(self, **capabilities: Any) -> dict[str, Any]:
        answer = self.request(1, "initialize", {**INITIALIZE, "capabilities": capabilities})
        self.send(method="initialized", params={})
        return answer


class Process(Wire):
    def __init__(
        self, *arguments: str, environment: dict[str, str], cwd: Path | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "stub_server.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            cwd=cwd,
        )
        super().__init__(self.process.stdin, self.process.stdout)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def one(*arguments: str, cwd: Path | None = None) -> Process:
        environment = {
            "STUB_ENGINE": f"count={tmp_path / 'count'}",
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        }
        started.append(Process(*arguments, environment=environment, cwd=cwd))
        return started[-1]

    yield one
    for process in started:
        with process.process as ending:
            ending.kill()


@pytest.fixture
def wire(start: Callable[..., Process]) -> Process:
    return start()


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        (
            "fullgraph.cli.command_line, fullgraph.cli.commands.server, fullgraph.lsp.transport",
            {"pygls", "lsprotocol", "cattrs", "rich", "torch"},
        ),
        # What was found in an earlier session is shown before anything is fixed.
        ("fullgraph.lsp.server", {"libcst", "rich", "torch"}),
        # Each check imports the comparison of compiled results, which most checks do not run.
        ("fullgraph.cli.check_command, fullgraph.fixes.numerics", {"libcst", "torch"}),
    ],
)
def test_an_answer_does_not_wait_for_libraries_that_it_does_not_need(
    modules: str, heavy: set[str]
) -> None:
    code = f"import sys, {modules}\nfound = {heavy} & set(sys.modules)\nassert not found, found\n"
    paths = os.pathsep.join(str(HERE.parents[1] / name) for name in ("server", "engine"))
    environment = {**os.environ, "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_initialize_is_answered_once(wire: Process) -> None:
    wire.send(id=1, method="initialize", params=INITIALIZE)
    wire.send(id=2, method="workspace/executeCommand", params={"command": "none"})
    assert wire.receive()["id"] == 1  # type: ignore[index]
    assert wire.response(2)["error"]["code"] == -32602


def test_a_first_message_in_pieces(wire: Process) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE})
    data = f"Content-Length: {len(body)}\r\nContent-Type: x\r\n\r\n{body}".encode()
    for start in range(0, len(data), 11):
        wire.send_bytes(data[start : start + 11])
    assert wire.response(1)["result"]["serverInfo"]["name"] == "fullgraph"


def test_nothing_before_initialize(wire: Process) -> None:
    assert (
        wire.request(5, "textDocument/codeLens", {"textDocument": {"uri": "a"}})["error"]["code"]
        == -32002
    )
    # Late is not too late.
    assert "result" in wire.initialize()


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["utf-8", "utf-16"], "utf-8"),
        (["utf-32"], "utf-32"),
        (["utf-7", "utf-16"], "utf-16"),
        (["utf-7"], "utf-16"),
        (None, "utf-16"),
    ],
)
def test_the_encoding_is_the_first_that_both_know(
    wire: Process, offered: list[str] | None, chosen: str
) -> None:
    answer = wire.initialize(general={"positionEncodings": offered} if offered else {})
    assert answer["result"]["capabilities"]["positionEncoding"] == chosen


def test_pull_is_offered_only_to_who_can_be_told_to_pull_again(wire: Process) -> None:
    answer = wire.initialize(textDocument={"diagnostic": {}})
    assert "diagnosticProvider" not in answer["result"]["capabilities"]


def test_bad_parameters_are_answered(wire: Process) -> None:
    wire.initialize()
    error = wire.request(7, "textDocument/codeLens", {"textDocument": 5})["error"]
    assert error["code"] == -32602 and "textDocument/codeLens" in error["message"]
    assert "Traceback" not in json.dumps(error)


def test_errors_of_the_client_are_answered_and_leave_no_traceback_in_the_log(wire: Process) -> None:
    wire.initialize()
    wire.send(method="textDocument/didClose", params=[])
    assert wire.request(7, "textDocument/hover", {})["error"]["code"] == -32602
    analyze = {"command": "fullgraph.server.analyze", "arguments": ["untitled:none"]}
    assert wire.request(8, "workspace/executeCommand", analyze)["error"]["code"] == -32602
    assert wire.request(9, "shutdown")["result"] is None
    wire.send(method="exit")
    _, log = wire.process.communicate()
    assert b"didClose" in log and b"Traceback" not in log


def test_what_is_asked_for_before_there_are_settings_is_of_the_text_as_it_is_then(
    wire: Process,
) -> None:
    wire.initialize(workspace={"configuration": True})
    document = {"uri": "untitled:a", "languageId": "python", "version": 1}
    first, second = "class A(nn.Module): pass\n", "class B(nn.Module): pass\n"
    wire.send(method="textDocument/didOpen", params={"textDocument": {**document, "text": first}})
    command = {"command": "fullgraph.server.analyze", "arguments": ["untitled:a"]}
    wire.send(id=7, method="workspace/executeCommand", params=command)
    # The server asks for settings. When it has answered another message, it waits for them.
    while (question := wire.receive()) is not None:
        if question.get("method") == "workspace/configuration":
            break
    assert question is not None
    assert "error" in wire.request(8, "nonsense")
    wire.send(method="textDocument/didClose", params={"textDocument": {"uri": "untitled:a"}})
    wire.send(method="textDocument/didOpen", params={"textDocument": {**document, "text": second}})
    wire.send(id=question["id"], result=[None])
    answer = wire.response(7)["result"]
    assert [report["name"] for report in answer["reports"]] == ["B"]


def test_a_text_that_is_opened_twice_is_closed_in_between(tmp_path: Path) -> None:
    go = tmp_path / "go"
    wire = Process(environment={"STUB_ENGINE": f"waits={go}"})
    wire.initialize()
    document = {"uri": "untitled:a", "languageId": "python", "version": 1}
    command = {"command": "fullgraph.server.showGraph", "arguments": ["untitled:a", "A"]}
    for number, text in ((7, "class A(nn.Module): pass\n"), (8, "class A(nn.Module): ...\n")):
        opened = {"textDocument": {**document, "text": text}}
        wire.send(method="textDocument/didOpen", params=opened)
        wire.send(id=number, method="workspace/executeCommand", params=command)
        if number == 7:
            # Answered behind it, when the command waits for the engine.
            debug = {"command": "fullgraph.server.debugInformation", "arguments": []}
            assert "result" in wire.request(9, "workspace/executeCommand", debug)
    assert wire.response(7)["error"]["code"] == -32800
    go.touch()
    assert "class A(nn.Module): ..." in wire.response(8)["result"]["text"]
    wire.request(10, "shutdown")
    wire.send(method="exit")
    assert wire.process.wait(30) == 0


def test_a_server_is_initialized_once(wire: Process) -> None:
    wire.initialize()
    assert wire.request(7, "initialize", INITIALIZE)["error"]["code"] == -32600


def test_an_unknown_method_is_answered_and_an_unknown_notification_ignored(wire: Process) -> None:
    wire.initialize()
    wire.send(method="$/nonsense", params={})
    wire.send(method="nonsense", params={})
    assert wire.request(7, "nonsense")["error"]["code"] == -32601


def test_what_is_no_json_does_not_end_the_server(wire: Process) -> None:
    wire.initialize()
    wire.send_bytes(b"Content-Length: 3\r\n\r\n{{{")
    assert wire.request(7, "nonsense")["error"]["code"] == -32601


def test_an_error_of_our_own_brings_no_traceback(wire: Process) -> None:
    wire.initialize()
    arguments = {"textDocument": {"uri": "untitled:a"}, "range": None, "context": None}
    wire.send(
        method="textDocument/didOpen",
        params={
            "textDocument": {"uri": "untitled:a", "languageId": "python", "version": 1, "text": ""}
        },
    )
    error = wire.request(7, "textDocument/codeAction", arguments)["error"]
    assert "raceback" not in json.dumps(error) and 'File "' not in json.dumps(error)


def test_after_shutdown_only_exit(wire: Process) -> None:
    wire.initialize()
    assert wire.request(2, "shutdown")["result"] is None
    assert (
        wire.request(3, "textDocument/codeLens", {"textDocument": {"uri": "a"}})["error"]["code"]
        == -32600
    )
    wire.send(method="exit")
    assert wire.process.wait(10) == 0


async def test_no_refresh_after_shutdown() -> None:
    """A client answers a refresh with requests, which a server that shuts down refuses."""
    sent: list[str] = []

    class Recorder:
        is_shut_down = False

        async def request(self, method: str, params: Any) -> None:
            sent.append(method)

    recorder = Recorder()
    connection = ClientConnection(cast("Protocol", recorder))
    connection.request_in_background("before", None)
    recorder.is_shut_down = True
    connection.request_in_background("after", None)
    while not sent:
        await asyncio.sleep(0)
    # A request starts one turn of the event loop after its call, so both would have been sent.
    await asyncio.sleep(0)
    assert sent == ["before"]


def framed(head: bytes, **message: Any) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return head.replace(b"LENGTH", b"%d" % len(body)) + body


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: LENGTH\n\n",
        b"content-length:LENGTH\r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\nContent-Length: LENGTH\r\n\n",
        b"X: " + b"x" * 200_000 + b"\r\nContent-Length: LENGTH\r\n\r\n",
    ],
    ids=["LF", "small letters", "mixed", "200 KB"],
)
def test_headers_as_careless_clients_write_them(wire: Process, head: bytes) -> None:
    wire.send_bytes(framed(head, id=1, method="initialize", params=INITIALIZE))
    assert "result" in wire.response(1)
    wire.send_bytes(framed(head, id=2, method="shutdown"))
    assert wire.response(2)["result"] is None


def test_a_message_of_an_absurd_length_ends_the_server(wire: Process) -> None:
    wire.initialize()
    wire.send_bytes(b"Content-Length: 99999999999999\r\n\r\n")
    assert wire.process.wait(30) == 1


def test_a_uri_that_no_file_can_have(wire: Process) -> None:
    wire.initialize()
    uri = "file:///" + "a" * 5000 + ".py"
    document = {"uri": uri, "languageId": "python", "version": 1, "text": "import torch\n"}
    wire.send(method="textDocument/didOpen", params={"textDocument": document})
    assert "error" in wire.request(2, "nonsense")
    wire.request(3, "shutdown")
    wire.send(method="exit")
    assert wire.process.wait(30) == 0


def test_exit_without_shutdown_is_a_failure(wire: Process) -> None:
    wire.initialize()
    wire.send(method="exit")
    assert wire.process.wait(10) == 1


def test_the_end_of_input_ends_server_and_engine(wire: Process, tmp_path: Path) -> None:
    pid = with_a_run_that_never_ends(wire, tmp_path)
    wire.process.stdin.close()  # type: ignore[union-attr]
    wire.process.wait(15)
    assert gone(pid)


def test_a_killed_server_takes_the_engine_with_it(wire: Process, tmp_path: Path) -> None:
    pid = with_a_run_that_never_ends(wire, tmp_path)
    wire.process.kill()
    wire.process.wait(10)
    assert gone(pid)


def test_the_death_of_the_client_ends_the_server(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    wire = start()
    wire.request(1, "initialize", {**INITIALIZE, "processId": parent.pid})
    wire.send(method="initialized", params={})
    assert "error" in wire.request(2, "nonsense")
    parent.kill()
    parent.communicate()
    # The pipe to the server stays open.
    wire.process.wait(20)


def test_the_folder_that_it_was_started_in_may_vanish(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    wire = start(cwd=folder)
    wire.initialize()
    folder.rmdir()
    text = "class Net(nn.Module):\n    pass\n"
    document = {"uri": "untitled:a", "languageId": "python", "version": 1, "text": text}
    wire.send(method="textDocument/didOpen", params={"textDocument": document})
    command = {"command": "fullgraph.server.analyze", "arguments": ["untitled:a"]}
    assert wire.request(2, "workspace/executeCommand", command)["result"]["completed"]


def test_nothing_is_printed_between_messages(wire: Process) -> None:
    wire.initialize()
    wire.request(2, "shutdown")
    wire.send(method="exit")
    out, _ = wire.process.communicate()
    rest = re.sub(rb"Content-Length: (\d+)\r\n\r\n\{.*\}", b"", out)
    assert rest == b""


def test_a_socket(start: Callable[..., Process], tmp_path: Path) -> None:
    process = start("--tcp").process
    line = process.stderr.readline().decode()  # type: ignore[union-attr]
    port = int(line.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port)) as connection:
        stream = connection.makefile("rwb")
        wire = Wire(stream, stream)
        assert wire.initialize()["result"]["serverInfo"]["name"] == "fullgraph"
        assert wire.request(2, "shutdown")["result"] is None
        wire.send(method="exit")
        assert process.wait(10) == 0


def test_a_socket_that_closes_ends_the_server(start: Callable[..., Process]) -> None:
    process = start("--tcp").process
    line = process.stderr.readline().decode()  # type: ignore[union-attr]
    with socket.create_connection(("127.0.0.1", int(line.rsplit(":", 1)[1]))) as connection:
        stream = connection.makefile("rwb")
        Wire(stream, stream).initialize()
        stream.close()
    process.wait(15)


def with_a_run_that_never_ends(wire: Process, tmp_path: Path) -> int:
    wire.initialize()
    document = {
        "uri": "untitled:a",
        "languageId": "python",
        "version": 1,
        "text": "class Net(nn.Module):\n    # deaf\n",
    }
    wire.send(method="textDocument/didOpen", params={"textDocument": document})
    count = tmp_path / "count"
    while not count.exists() or "analyze" not in count.read_text():
        time.sleep(0.01)
    return int(count.read_text().split()[1])


def gone(pid: int) -> bool:
    for _ in range(1000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


# -- an engine that is started before anybody has said anything ------------------------------------


def counted(tmp_path: Path, word: str, number: int = 1) -> list[str]:
    """What stands behind a word in the lines of engines, once there are as many."""
    path = tmp_path / "count"
    end = time.monotonic() + 30
    while time.monotonic() < end:
        lines = path.read_text().splitlines() if path.exists() else []
        found = [line.partition(" ")[2] for line in lines if line.split()[0] == word]
        if len(found) >= number:
            return found
        time.sleep(0.05)
    raise AssertionError(f"There were never {number} lines that begin with {word}.")


def opened(wire: Process, interpreter: Path) -> None:
    options = {"trusted": True, "interpreter": str(interpreter)}
    wire.request(1, "initialize", {**INITIALIZE, "initializationOptions": options})
    wire.send(method="initialized", params={})
    text = "class Net(nn.Module):\n    call()\n"
    document = {"uri": "untitled:a", "languageId": "python", "version": 1, "text": text}
    wire.send(method="textDocument/didOpen", params={"textDocument": document})


def test_an_early_engine_is_the_one_of_the_text(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    wire = start("--engine", sys.executable)
    counted(tmp_path, "start")
    opened(wire, Path(sys.executable))
    counted(tmp_path, "analyze")
    assert len(counted(tmp_path, "start")) == 1


def test_an_early_engine_of_another_interpreter_is_ended(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    other = tmp_path / "python"
    other.symlink_to(sys.executable)
    wire = start("--engine", str(other))
    (early,) = counted(tmp_path, "start")
    opened(wire, Path(sys.executable))
    counted(tmp_path, "start", 2)
    end = time.monotonic() + 30
    while Path(f"/proc/{early}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{early}").exists()


def test_no_engine_is_early_where_results_are_kept(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    other = tmp_path / "python"
    other.symlink_to(sys.executable)
    kept = results_folder({"XDG_CACHE_HOME": str(tmp_path / "cache")})
    kept.mkdir(parents=True)
    (kept / "some.results").touch()
    wire = start("--engine", str(other))
    opened(wire, Path(sys.executable))
    counted(tmp_path, "analyze")
    assert len(counted(tmp_path, "start")) == 1


@pytest.mark.parametrize("engine", [sys.executable, "/nowhere/python"])
def test_an_early_engine_goes_with_the_client(
    start: Callable[..., Process], tmp_path: Path, engine: str
) -> None:
    wire = start("--engine", engine)
    started = counted(tmp_path, "start") if engine == sys.executable else []
    wire.process.stdin.close()  # type: ignore[union-attr]
    assert wire.process.wait(30) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)
