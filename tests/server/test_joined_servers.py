"""``fullgraph server --with COMMAND``: an editor with one server per language gets both."""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fullgraph.lsp.joined.merging import (
    join_completions,
    join_hovers,
    merge_capabilities,
    unmark_item,
)
from fullgraph.lsp.server_capabilities import initialize_result
from fullgraph.session.capabilities import ClientCapabilities

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LITERALS: dict[str, Any] = {"codeActionKind": {"valueSet": []}}
NET = "class Net(nn.Module):\n    print(1)  # break: A graph break\n"


class Editor:
    """An editor without a protocol library: sends messages, and keeps messages of the server."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        stub = folder / "python-stub"
        stub.write_text(f'#!/bin/sh\nshift\nexec {sys.executable} {HERE / "stub_engine.py"} "$@"\n')
        stub.chmod(0o755)
        self.interpreter = stub
        python_path = os.pathsep.join([str(ROOT / "engine"), str(ROOT / "server")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fullgraph", "server", "--stdio", *arguments],
            env={**os.environ, "PYTHONPATH": python_path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.received: list[dict[str, Any]] = []
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._ids = itertools.count(1)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        stream = self.process.stdout
        while line := stream.readline():
            length = int(line.partition(b":")[2])
            stream.readline()
            self._messages.put(json.loads(stream.read(length)))
        self._messages.put(None)

    def send(self, method: str, params: Any, id: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self._write(message if id is None else {**message, "id": id})

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def wait(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the next message for which ``wanted`` is true; answer requests meanwhile."""
        while True:
            message = self._messages.get(timeout=60)
            assert message is not None, "the server has ended"
            self.received.append(message)
            if "method" in message and "id" in message:
                items = message["params"].get("items", ())
                answer = [f"of {one.get('section')}" for one in items] if items else None
                self._write({"jsonrpc": "2.0", "id": message["id"], "result": answer})
            if wanted(message):
                return message

    def answer(self, method: str, params: Any) -> dict[str, Any]:
        """Send a request and return the message with its answer."""
        id_ = next(self._ids)
        self.send(method, params, id_)
        return self.wait(lambda message: message.get("id") == id_ and "method" not in message)

    def request(self, method: str, params: Any) -> Any:
        return self.answer(method, params)["result"]

    def diagnostics(self, sources: set[str]) -> list[dict[str, Any]]:
        """Wait until the diagnostics of the file come from these sources, and return them."""
        method = "textDocument/publishDiagnostics"
        published = self.wait(
            lambda message: (
                message.get("method") == method
                and {one["source"] for one in message["params"]["diagnostics"]} == sources
            )
        )
        return list(published["params"]["diagnostics"])

    def initialize(self) -> dict[str, Any]:
        options = {"trusted": True, "interpreter": str(self.interpreter), "engine.keep": 0}
        params = {
            "processId": None,
            "rootUri": self.folder.as_uri(),
            "capabilities": {
                "general": {"positionEncodings": ["utf-8", "utf-16"]},
                "textDocument": {
                    "diagnostic": {},
                    "codeAction": {
                        "codeActionLiteralSupport": {"codeActionKind": {"valueSet": []}}
                    },
                },
            },
            "initializationOptions": options,
        }
        result = self.request("initialize", params)
        self.send("initialized", {})
        return dict(result["capabilities"])

    @property
    def uri(self) -> str:
        return (self.folder / "net.py").as_uri()

    def open(self, text: str) -> None:
        document = {"uri": self.uri, "languageId": "python", "version": 1, "text": text}
        self.send("textDocument/didOpen", {"textDocument": document})

    def at(self, line: int, character: int) -> dict[str, Any]:
        place = {"line": line, "character": character}
        return {"textDocument": {"uri": self.uri}, "position": place}


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    started = Editor(tmp_path, "--with", f"{sys.executable} {HERE / 'other_server.py'}")
    yield started
    started.process.kill()
    started.process.wait()


def test_editor_gets_the_findings_and_answers_of_both_servers(editor: Editor) -> None:
    capabilities = editor.initialize()
    assert capabilities["definitionProvider"] is True
    assert "other.command" in capabilities["executeCommandProvider"]["commands"]
    assert "fullgraph.server.analyze" in capabilities["executeCommandProvider"]["commands"]
    assert capabilities["textDocumentSync"]["change"] == 1
    assert capabilities["positionEncoding"] == "utf-16"
    assert "diagnosticProvider" not in capabilities

    editor.open(NET)
    found = editor.diagnostics({"fullgraph", "other"})
    messages = {one["message"].split("\n")[0] for one in found}
    assert messages == {"from the other server", "A graph break"}

    hover = editor.request("textDocument/hover", editor.at(1, 6))
    assert "hover of the other server" in json.dumps(hover)
    definition = editor.request("textDocument/definition", editor.at(1, 6))
    assert definition == {"method": "textDocument/definition"}

    place = {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 9}}
    context = {"diagnostics": found}
    actions = editor.request(
        "textDocument/codeAction",
        {"textDocument": {"uri": editor.uri}, "range": place, "context": context},
    )
    titles = [one["title"] for one in actions]
    assert "action for ['other']" in titles
    assert len(titles) > 1, "fullgraph has actions as well"

    completions = editor.request("textDocument/completion", editor.at(1, 6))
    (item,) = [one for one in completions["items"] if one["label"] == "other"]
    resolved = editor.request("completionItem/resolve", item)
    assert resolved["detail"] == "resolved 7"

    answer = editor.answer("textDocument/rename", {**editor.at(1, 6), "newName": "x"})
    assert answer["error"]["message"] == "no name here"
    executed = editor.request("workspace/executeCommand", {"command": "other.command"})
    assert executed == {"method": "workspace/executeCommand"}


def test_requests_of_both_servers_reach_the_editor_and_their_answers_return(
    editor: Editor,
) -> None:
    editor.initialize()
    logged = editor.wait(lambda message: message.get("method") == "window/logMessage")
    assert logged["params"]["message"] == "configured: ['of other']"


def test_fullgraph_goes_on_if_the_other_server_ends(editor: Editor) -> None:
    editor.initialize()
    editor.open(NET)
    editor.diagnostics({"fullgraph", "other"})
    change = {"textDocument": {"uri": editor.uri, "version": 2}}
    editor.send("textDocument/didChange", {**change, "contentChanges": [{"text": NET + "# end\n"}]})
    shown = editor.wait(lambda message: message.get("method") == "window/showMessage")
    assert "has ended with status 3; only fullgraph's server is left" in shown["params"]["message"]
    assert editor.request("textDocument/definition", editor.at(1, 6)) is None
    assert editor.request("textDocument/hover", editor.at(0, 0)) is None
    change = {"textDocument": {"uri": editor.uri, "version": 3}}
    text = NET.replace("print(1)  # break: A graph break", "print(2)  # break: Another one")
    editor.send("textDocument/didChange", {**change, "contentChanges": [{"text": text}]})
    editor.wait(lambda message: "Another one" in json.dumps(message))


def test_both_servers_end_with_the_editor(editor: Editor) -> None:
    editor.initialize()
    children = psutil.Process(editor.process.pid).children(recursive=True)
    assert len(children) >= 2
    assert editor.request("shutdown", None) is None
    editor.send("exit", None)
    assert editor.process.wait(timeout=60) == 0
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive


def test_both_servers_end_if_the_editor_is_killed(editor: Editor) -> None:
    editor.initialize()
    children = psutil.Process(editor.process.pid).children(recursive=True)
    assert editor.process.stdin is not None
    editor.process.stdin.close()
    editor.process.wait(timeout=60)
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--with", "absent-server --stdio"], "Cannot start `absent-server --stdio`"),
        (["--with", "'"], "--with: No closing quotation."),
        (["--with", "x", "--tcp", "127.0.0.1:0"], "--with: Only possible on standard input"),
    ],
)
def test_wrong_command_is_a_sentence(arguments: list[str], words: str) -> None:
    python_path = os.pathsep.join([str(ROOT / "engine"), str(ROOT / "server")])
    ran = subprocess.run(
        [sys.executable, "-m", "fullgraph", "server", *arguments],
        env={**os.environ, "PYTHONPATH": python_path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 2
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr


def test_capabilities_of_both_are_merged() -> None:
    own = initialize_result(ClientCapabilities())["capabilities"]
    other = {"completionProvider": {"triggerCharacters": [".", "/"]}, "hoverProvider": False}
    merged = merge_capabilities(own, other)
    triggers = merged["completionProvider"]["triggerCharacters"]
    assert triggers[:2] == [".", "/"] and "[" in triggers and len(triggers) == len(set(triggers))
    assert merged["hoverProvider"] is True
    assert merged["textDocumentSync"] == own["textDocumentSync"]


def test_hovers_of_all_forms_are_joined() -> None:
    code = {"language": "python", "value": "x: int"}
    place = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
    joined = join_hovers(
        {
            "fullgraph": {"contents": {"kind": "markdown", "value": "*own*"}},
            "other": {"contents": [code, "text"], "range": place},
        }
    )
    assert joined == {
        "contents": {
            "kind": "markdown",
            "value": "```python\nx: int\n```\n\ntext\n\n---\n\n*own*",
        },
        "range": place,
    }
    assert join_hovers({"fullgraph": None, "other": {"contents": "x"}}) == {"contents": "x"}
    assert join_hovers({"fullgraph": None, "other": None}) is None


def test_defaults_of_one_list_of_completions_do_not_apply_to_the_other() -> None:
    place = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
    joined = join_completions(
        {
            "other": {
                "isIncomplete": True,
                "itemDefaults": {"editRange": place, "data": "default"},
                "items": [{"label": "a"}, {"label": "b", "data": "own"}],
            },
            "fullgraph": [{"label": "c"}],
        }
    )
    assert joined["isIncomplete"]
    items = [unmark_item(item) for item in joined["items"]]
    edits = [{"newText": label, "range": place} for label in "ab"]
    assert items == [
        ("other", {"label": "a", "data": "default", "textEdit": edits[0]}),
        ("other", {"label": "b", "data": "own", "textEdit": edits[1]}),
        ("fullgraph", {"label": "c"}),
    ]
