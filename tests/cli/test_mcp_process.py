"""``fullgraph mcp`` as a process, as coding agents start it: its pipes, its end, its engine."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

from agents import (  # noqa: E402
    Project,
    ToolFailed,
    agent_of_process,
    make_project,
    server_parameters,
)

NET = """\
class Net(nn.Module):
    print(1)  # break: `print` runs in Python
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path)
    made.write("net.py", NET)
    return made


@contextlib.contextmanager
def server_process(project: Project) -> Iterator[subprocess.Popen[bytes]]:
    """The process of the server, with pipes to write messages to and to read answers from."""
    parameters = server_parameters(project)
    process = subprocess.Popen(
        [parameters.command, *parameters.args],
        env=parameters.env,
        cwd=parameters.cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def send(process: subprocess.Popen[bytes], method: str, id: int = 0, **params: Any) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": params, **({"id": id} if id else {})}
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def answer_to(process: subprocess.Popen[bytes], id: int) -> dict[str, Any]:
    """Read messages until the answer to a request."""
    assert process.stdout is not None
    for line in process.stdout:
        message = json.loads(line)
        if message.get("id") == id:
            return dict(message)
    raise AssertionError("the server has ended")


def initialize(process: subprocess.Popen[bytes]) -> None:
    client = {"name": "test", "version": "1"}
    send(process, "initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
    answer_to(process, 1)
    send(process, "notifications/initialized")


async def test_tools_of_the_process_answer(project: Project) -> None:
    async with agent_of_process(project) as agent:
        tools = (await agent.client.list_tools()).tools
        answer = await agent.call("check", file="net.py")
        with pytest.raises(ToolFailed, match="has 10,000,000 characters"):
            await agent.call("check", file="net.py", text="#" * 10_000_000)
        again = await agent.call("check", file="net.py", text=NET + "\n")
    assert len(tools) == 8
    assert [one["at"] for one in answer["findings"]] == ["net.py:2:5"]
    assert again["findings"]
    assert "Tracing Net" in agent.progress


def disconnect(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


END_BY: dict[str, tuple[Callable[[subprocess.Popen[bytes]], None], int]] = {
    "disconnect": (disconnect, 0),
    "terminate": (lambda process: process.terminate(), 128 + signal.SIGTERM),
    "interrupt": (lambda process: process.send_signal(signal.SIGINT), 128 + signal.SIGINT),
    "kill": (lambda process: process.kill(), -signal.SIGKILL),
}
"""Ways in which clients end a server, with its exit status."""


@pytest.mark.parametrize("at_work", [False, True])
@pytest.mark.parametrize("way", list(END_BY))
def test_server_and_its_engine_end_with_the_client(
    project: Project, way: str, at_work: bool
) -> None:
    if at_work:
        never = project.folder / "never"
        project.write("net.py", f"class Net(nn.Module):\n    pass  # until: {never}\n")
    with server_process(project) as process:
        initialize(process)
        meta = {"progressToken": 7}
        send(process, "tools/call", 2, name="check", arguments={"file": "net.py"}, _meta=meta)
        if at_work:
            assert process.stdout is not None
            while b"Tracing Net" not in process.stdout.readline():
                pass
        else:
            assert "error" not in answer_to(process, 2)
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        end, status = END_BY[way]
        end(process)
        assert process.wait(timeout=30) == status
        _, alive = psutil.wait_procs(children, timeout=30)
        assert not alive


def test_invalid_messages_do_not_end_the_server(project: Project) -> None:
    with server_process(project) as process:
        initialize(process)
        assert process.stdin is not None
        process.stdin.write(b"{\n\xff\xfe\n[1, 2]\n")
        send(process, "tools/call", 2, name="absent", arguments={})
        assert "absent" in json.dumps(answer_to(process, 2))
        send(process, "tools/call", 3, name="check", arguments={"file": "net.py"})
        assert answer_to(process, 3)["result"]["structuredContent"]["findings"]
