"""An editor that does everything in any order, and what has to be true of the server meanwhile.

``Window`` is a hypothesis state machine: each rule sends one message or a few and waits for none.
When the server has come to rest, every request has exactly one answer, each open text is the one
that the editor has, and its diagnostics are those that a fresh server has for it.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import queue
import re
import socket
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

from forked_servers import Servers  # noqa: E402

PATIENCE = 60.0
"""Seconds for what must come; nothing that passes waits that long."""

DEBUG = "fullgraph.server.debugInformation"
ANALYZE = "fullgraph.server.analyze"
CANCEL = "fullgraph.server.cancel"
SHOWN = ("Graph", "Guards", "Events", "Bytecode", "Timings")
COMMANDS = (
    DEBUG,
    ANALYZE,
    *(f"fullgraph.server.show{kind}" for kind in SHOWN),
    "fullgraph.server.repro",
    "fullgraph.server.reproIssue",
    "fullgraph.server.nonsense",
)
UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}

# -- a client -------------------------------------------------------------------------------------


class Peer:
    """One client of one server: sends without waiting, and keeps all that comes back."""

    def __init__(self, port: int, encoding: str, profile: dict[str, Any], root: Path) -> None:
        self.configuration: Any = {}
        self.answers: dict[str, list[dict[str, Any]]] = {}
        self.published: dict[str, dict[str, Any]] = {}
        self._sent = 0
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._stream = self._socket.makefile("rb")
        self._lock = threading.Lock()
        self._arrived: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        offered = {**profile, "general": {"positionEncodings": [encoding]}}
        self.initialize = {
            "processId": None,
            "rootUri": None,
            "workspaceFolders": [{"uri": root.as_uri(), "name": "root"}],
            "capabilities": offered,
            "initializationOptions": {"trusted": True, "interpreter": sys.executable},
        }
        answer = self.ask("initialize", self.initialize)
        self.offers: dict[str, Any] = answer["result"]["capabilities"]
        assert self.offers["positionEncoding"] == encoding
        self.notify("initialized", {})

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        with self._lock:
            self._socket.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def notify(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    def request(self, method: str, params: Any, *, words: bool = False) -> Any:
        """Send a request; returns its id, which is a text for ``words``."""
        self._sent += 1
        number = f"request {self._sent}" if words else self._sent
        self.send({"id": number, "method": method, "params": params})
        return number

    def ask(self, method: str, params: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        key = json.dumps(self.request(method, params))
        until = time.monotonic() + PATIENCE
        while key not in self.answers:
            self._wait(until, method)
        return self.answers[key][0]

    def command(self, name: str, *arguments: Any) -> Any:
        params = {"command": name, "arguments": list(arguments)}
        return self.ask("workspace/executeCommand", params)["result"]

    def until_answered(self, ids: list[Any]) -> None:
        until = time.monotonic() + PATIENCE
        while missing := [one for one in ids if json.dumps(one) not in self.answers]:
            self._wait(until, f"requests {missing}")

    def _wait(self, until: float, what: str) -> None:
        try:
            if self._arrived.get(timeout=max(0.0, until - time.monotonic())) is not None:
                return
        except queue.Empty:
            raise AssertionError(f"No answer to {what} in {PATIENCE:.0f} s.") from None
        self._arrived.put(None)
        raise AssertionError(f"The server closed the connection before it answered {what}.")

    def close(self) -> None:
        assert self.ask("shutdown", None)["result"] is None
        self.notify("exit", None)
        while self._arrived.get(timeout=PATIENCE) is not None:
            pass
        self.disconnect()

    def disconnect(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while head := self._stream.readline():
                length = int(head.partition(b":")[2])
                assert not self._stream.readline().strip()
                self._received(json.loads(self._stream.read(length)))
        self._arrived.put(None)

    def _received(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            key = json.dumps(message["id"])
            self.answers.setdefault(key, []).append(message)
            self._arrived.put(key)
        elif "id" in message:
            self.send({"id": message["id"], "result": self._result(message)})
        elif message["method"] == "textDocument/publishDiagnostics":
            self.published[message["params"]["uri"]] = message["params"]

    def _result(self, message: dict[str, Any]) -> Any:
        if message["method"] == "workspace/configuration":
            return [self.configuration for _ in message["params"]["items"]]
        if message["method"] == "window/showDocument":
            return {"success": True}
        return {"applied": True} if message["method"] == "workspace/applyEdit" else None


# -- what is sent ---------------------------------------------------------------------------------

GOOD = st.one_of(
    st.sampled_from(
        (
            "",
            "import torch",
            "import b",
            "# a comment: 🎉 é \u2028 \f",
            "x = 'é🎉'  # break: Call to print",
            "y = 1  # break: 🎉",
            "y = 1  # file: trace/import-error none",
            "z = 2  # slow: 0.05",
            "w = 3  # print: out",
            "s = 4  # registers: ns::name",
            "v = x.y  # seen: value x.y: f32[4, 16] | f32[5, 16]",
            "f = 1  # break: with a fix\n# fix: pass",
            "r = 1  # break: with more\n# related: here",
            "y = 1  # break: hidden  # fullgraph: ignore",
        )
    ),
    st.builds(
        "class {}(nn.Module): {}".format,
        st.sampled_from("ABCDEFGH"),
        st.sampled_from(
            ("pass", "...  # break: a", "# stub: no-probe", "# stub: found", "'🎉'  # break: é")
        ),
    ),
)
BAD = st.one_of(
    st.just("def broken("), st.text(st.sampled_from("ab(é🎉\ud83d\ude00'#\t "), max_size=6)
)
LINES = st.integers(0, 19).flatmap(lambda one: BAD if one == 0 else GOOD)
ENDS = st.sampled_from(("\n", "\n", "\n", "\r\n", "\r"))
TEXTS = st.lists(st.tuples(LINES, ENDS), max_size=8).map(
    lambda pairs: "".join(line + end for line, end in pairs)
)
NUMBERS = st.one_of(st.integers(0, 12), st.sampled_from((40, 2**31 - 1)))
POSITIONS = st.fixed_dictionaries({"line": NUMBERS, "character": NUMBERS})
RANGES = st.fixed_dictionaries({"start": POSITIONS, "end": POSITIONS})
CHANGES = st.lists(
    st.one_of(
        st.fixed_dictionaries({"range": RANGES, "text": TEXTS}),
        st.fixed_dictionaries({"range": RANGES, "text": LINES}),
        st.fixed_dictionaries({"text": TEXTS}),
    ),
    min_size=1,
    max_size=4,
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(("textDocument", "uri", "position", "line", "range", "data", "label")),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=5,
)
NAMES = ("a.py", "b.py", "\u00fc 🎉.py", "sub/c.py", "notes.txt")
URIS = (*NAMES, "untitled:d", "vscode-notebook-cell:/e.py#1")
CONFIGURATIONS = st.sampled_from(
    (
        None,
        {},
        {"severity": {"graph-break": "error"}},
        {"ignore": ["graph-break"]},
        {"select": ["trace"]},
        {"traceOn": "save"},
        {"traceOn": "manual"},
        {"mode": "fake"},
        {"nonsense": 3, "jobs": "many"},
        ["no", "settings"],
    )
)
PROFILES: tuple[dict[str, Any], ...] = (
    {},
    {
        "textDocument": {"publishDiagnostics": {"versionSupport": True, "dataSupport": True}},
        "workspace": {"configuration": True},
    },
    {
        "textDocument": {
            "publishDiagnostics": {"relatedInformation": True, "versionSupport": True},
            "diagnostic": {},
            "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": []}}},
        },
        "window": {"workDoneProgress": True, "showDocument": {"support": True}},
        "workspace": {
            "applyEdit": True,
            "configuration": True,
            "diagnostics": {"refreshSupport": True},
            "codeLens": {"refreshSupport": True},
            "inlayHint": {"refreshSupport": True},
            "didChangeConfiguration": {"dynamicRegistration": True},
            "didChangeWatchedFiles": {"dynamicRegistration": True},
            "textDocumentContent": {"dynamicRegistration": True},
        },
        "experimental": {"changed": True},
    },
)
AT_POSITION = ("hover", "completion", "signatureHelp")
OF_DOCUMENT = ("codeLens", "diagnostic", "documentSymbol", "semanticTokens/full")
METHODS = (
    *(f"textDocument/{name}" for name in (*AT_POSITION, *OF_DOCUMENT)),
    "textDocument/inlayHint",
    "textDocument/codeAction",
    "completionItem/resolve",
    "inlayHint/resolve",
    "workspace/executeCommand",
    "workspace/textDocumentContent",
    "fullgraph/trace",
    "nonsense",
)
NOTIFICATIONS = (
    "textDocument/didOpen",
    "textDocument/didChange",
    "textDocument/didClose",
    "textDocument/didSave",
    "workspace/didChangeWatchedFiles",
    "workspace/didChangeWorkspaceFolders",
    "window/workDoneProgress/cancel",
    "$/cancelRequest",
    "$/setTrace",
    "$/nonsense",
    "nonsense",
)
OFTEN = 24
WHERE = st.integers(0, 32)
"""Which text is meant; up to ``OFTEN`` it is one that is open."""
TARGETS = st.sampled_from(("", "A", "B", "nobody", "🎉"))

# -- what the editor knows ------------------------------------------------------------------------


def received(text: str) -> str:
    """A text as it is after it was sent: JSON makes one character of two surrogates."""
    found: str = json.loads(json.dumps(text))
    return found


def offset(text: str, position: dict[str, int], encoding: str) -> int:
    """Characters before a position; one outside of the text is the nearest inside."""
    starts = [0, *(end.end() for end in re.finditer(r"\r\n|\r|\n", text))]
    if position["line"] >= len(starts):
        return len(text)
    at = starts[position["line"]]
    codec, width = UNITS[encoding]
    left = position["character"]
    while at < len(text) and text[at] not in "\r\n":
        left -= len(text[at].encode(codec, "surrogatepass")) // width
        if left < 0:
            break
        at += 1
    return at


@dataclass
class Text:
    """An open document, as the editor has it."""

    text: str
    version: int = 1
    changed: int = 1
    """The version that made it what it is."""
    stale: bool = False
    """What is known of it may be of a text before, as the user has wanted it."""

    def change(self, changes: list[dict[str, Any]], encoding: str) -> None:
        before = self.text
        for change in changes:
            if "range" not in change:
                self.text = received(change["text"])
                continue
            ends = (change["range"]["start"], change["range"]["end"])
            first, last = sorted(offset(self.text, end, encoding) for end in ends)
            self.text = received(self.text[:first] + change["text"] + self.text[last:])
        if self.text != before:
            self.changed = self.version

    @property
    def generation(self) -> str:
        data = self.text.encode("utf-8", "surrogatepass")
        return f"{self.version}:{hashlib.sha256(data).hexdigest()[:16]}"

    @property
    def parses(self) -> bool:
        try:
            ast.parse(self.text)
        except (SyntaxError, ValueError):
            return False
        return True


@dataclass
class Server:
    """A server process and its log."""

    port: int
    log: Path

    def failures(self) -> list[str]:
        """Lines of its log that no server should write."""
        found = self.log.read_text(errors="replace").splitlines()
        kinds = ("Traceback", "Error", "ERROR", "never retrieved", "never awaited")
        return [line for line in found if any(kind in line for kind in kinds)]


@dataclass
class Place:
    """Where the servers of a run are started."""

    servers: Servers
    folder: Path
    started: int = 0
    operations: int = 0
    texts: int = 0
    """That were compared with those of a fresh server."""
    diagnostics: int = 0
    """That those had."""

    def start(self) -> Server:
        self.started += 1
        log = self.folder / f"log{self.started}"
        environment = {
            **os.environ,
            "STUB_ENGINE": "",
            "FULLGRAPH_ENGINE_KEEP": "0",
            "SERVER_LOG": str(log),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        port = self.servers.start(HERE / "logged_server.py", environment)
        return Server(port, log)


# -- the machine ----------------------------------------------------------------------------------


class Window(RuleBasedStateMachine):
    """One editor window from its start to its end."""

    place: Place
    """Set by whoever runs it."""

    @initialize(
        encoding=st.sampled_from(tuple(UNITS)),
        profile=st.sampled_from(PROFILES),
        texts=st.lists(TEXTS, max_size=3),
    )
    def start(self, encoding: str, profile: dict[str, Any], texts: list[str]) -> None:
        self.encoding, self.profile = encoding, profile
        self.root = Path(tempfile.mkdtemp(dir=self.place.folder)).resolve()
        self.server = self.place.start()
        self.peer = Peer(self.server.port, encoding, profile, self.root)
        self.texts: dict[str, Text] = {}
        self.sent: list[Any] = []
        self.twice: list[Any] = []
        self.configuration: Any = {}
        self.trusted = True
        for name, text in zip(URIS, texts, strict=False):
            self.open(name, text)

    # -- texts --------------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        return name if ":" in name else (self.root / name).as_uri()

    def pick(self, at: int) -> str:
        """Most often a text that is open."""
        names = [self.uri(name) for name in (*URIS, "missing.py", "http://nowhere/x.py")]
        open_ = sorted(self.texts) if at < OFTEN else []
        found = open_ or names
        return found[at % len(found)]

    def is_ours(self, name: str) -> bool:
        return name.endswith((".py", ":d"))

    @rule(name=st.sampled_from(URIS), text=TEXTS)
    def open(self, name: str, text: str) -> None:
        self.place.operations += 1
        uri = self.uri(name)
        language = "python" if name != "notes.txt" else "plaintext"
        document = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.peer.notify("textDocument/didOpen", {"textDocument": document})
        if self.is_ours(name):
            self.texts[uri] = Text(received(text))

    @rule(at=WHERE, changes=CHANGES, step=st.integers(1, 3))
    def change(self, at: int, changes: list[dict[str, Any]], step: int) -> None:
        self.place.operations += 1
        uri = self.pick(at)
        text = self.texts.get(uri, Text(""))
        text.version += step
        identifier = {"uri": uri, "version": text.version}
        params = {"textDocument": identifier, "contentChanges": changes}
        self.peer.notify("textDocument/didChange", params)
        text.change(changes, self.encoding)
        if text.changed == text.version:
            text.stale = self.trace_on != "change" or not self.trusted

    @rule(at=WHERE, line=LINES, end=ENDS, row=st.integers(0, 8))
    def insert_line(self, at: int, line: str, end: str, row: int) -> None:
        place = {"line": row, "character": 0}
        self.change(at, [{"range": {"start": place, "end": place}, "text": line + end}], 1)

    @rule(at=WHERE, row=st.integers(0, 8))
    def remove_line(self, at: int, row: int) -> None:
        ends = {"line": row, "character": 0}, {"line": row + 1, "character": 0}
        self.change(at, [{"range": {"start": ends[0], "end": ends[1]}, "text": ""}], 1)

    @rule(at=WHERE, on_disk=st.booleans())
    def save(self, at: int, on_disk: bool) -> None:
        self.place.operations += 1
        uri = self.pick(at)
        if on_disk and uri in self.texts and uri.startswith("file:"):
            path = Path(unquote(uri.removeprefix("file://")))
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(self.texts[uri].text.encode("utf-8", "surrogatepass"))
        self.peer.notify("textDocument/didSave", {"textDocument": {"uri": uri}})

    @rule(name=st.sampled_from(URIS), often=st.integers(0, 3))
    def close(self, name: str, often: int) -> None:
        if often:
            return
        self.place.operations += 1
        uri = self.uri(name)
        self.peer.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        self.texts.pop(uri, None)

    # -- requests -----------------------------------------------------------------------------

    def send(self, method: str, params: Any, *, words: bool = False) -> Any:
        self.place.operations += 1
        number = self.peer.request(method, params, words=words)
        self.sent.append(number)
        return number

    @rule(
        at=WHERE,
        method=st.sampled_from(AT_POSITION),
        position=POSITIONS,
        words=st.booleans(),
    )
    def ask_at(self, at: int, method: str, position: dict[str, int], words: bool) -> None:
        params = {"textDocument": {"uri": self.pick(at)}, "position": position}
        self.send(f"textDocument/{method}", params, words=words)

    @rule(at=WHERE, method=st.sampled_from(OF_DOCUMENT))
    def ask_of(self, at: int, method: str) -> None:
        self.send(f"textDocument/{method}", {"textDocument": {"uri": self.pick(at)}})

    @rule(at=WHERE, where=RANGES)
    def ask_range(self, at: int, where: dict[str, Any]) -> None:
        uri = self.pick(at)
        params = {"textDocument": {"uri": uri}, "range": where}
        self.send("textDocument/inlayHint", params)
        published = self.peer.published.get(uri, {}).get("diagnostics", [])
        self.send("textDocument/codeAction", {**params, "context": {"diagnostics": published}})

    @rule(
        at=WHERE,
        named=TARGETS,
        line=st.one_of(st.none(), st.integers(-1, 9)),
    )
    def ask_trace(self, at: int, named: str, line: int | None) -> None:
        params = {"uri": self.pick(at), "target": named or None, "line": line, "run": 0}
        self.send("fullgraph/trace", params)

    @rule(command=st.sampled_from(COMMANDS), at=WHERE, named=TARGETS)
    def execute(self, command: str, at: int, named: str) -> None:
        uri = self.pick(at)
        params = {"command": command, "arguments": [uri, named] if named else [uri]}
        self.send("workspace/executeCommand", params)

    @rule(command=st.sampled_from(COMMANDS), arguments=st.one_of(JSON, st.lists(JSON)))
    def execute_anything(self, command: str, arguments: Any) -> None:
        self.send("workspace/executeCommand", {"command": command, "arguments": arguments})

    @rule(name=st.sampled_from((*URIS, None)))
    def cancel_runs(self, name: str | None) -> None:
        arguments = [] if name is None else [self.uri(name)]
        self.send("workspace/executeCommand", {"command": CANCEL, "arguments": arguments})
        for uri, text in self.texts.items():
            text.stale |= name is None or uri == self.uri(name)

    @rule(often=st.integers(0, 9))
    def restart_engine(self, often: int) -> None:
        if often == 0:
            command = {"command": "fullgraph.server.restartEngine", "arguments": []}
            self.send("workspace/executeCommand", command)

    @rule(method=st.sampled_from(METHODS), params=JSON)
    def ask_anything(self, method: str, params: Any) -> None:
        self.send(method, params)

    @rule(method=st.sampled_from(NOTIFICATIONS), params=JSON)
    def notify_anything(self, method: str, params: Any) -> None:
        self.place.operations += 1
        self.peer.notify(method, params)

    @rule(back=st.integers(0, 20))
    def cancel(self, back: int) -> None:
        self.place.operations += 1
        number = self.sent[-1 - back] if back < len(self.sent) else 10**6
        self.peer.notify("$/cancelRequest", {"id": number})

    @rule(name=st.sampled_from(URIS))
    def use_an_id_twice(self, name: str) -> None:
        self.place.operations += 2
        params = {"command": DEBUG, "arguments": []}
        number = self.peer.request("workspace/executeCommand", params)
        hover = {"textDocument": {"uri": self.uri(name)}, "position": {"line": 0, "character": 0}}
        self.peer.send({"id": number, "method": "textDocument/hover", "params": hover})
        self.twice.append(number)

    @rule(number=st.sampled_from((1, 10**6, "x", -1)), error=st.booleans())
    def answer_nothing(self, number: Any, error: bool) -> None:
        """An answer to what the server has not asked, or has forgotten."""
        self.place.operations += 1
        words = {"error": {"code": 1, "message": "no"}} if error else {"result": None}
        self.peer.send({"id": f"no {number}", **words})

    @rule()
    def initialize_again(self) -> None:
        self.send("initialize", self.peer.initialize)

    # -- the window ---------------------------------------------------------------------------

    @property
    def trace_on(self) -> str:
        settings = self.configuration if isinstance(self.configuration, dict) else {}
        return str(settings.get("traceOn", "change"))

    @rule(configuration=CONFIGURATIONS)
    def configure(self, configuration: Any) -> None:
        self.place.operations += 1
        self._configure(configuration)
        # What was edited before it was known is judged by it.
        for text in self.texts.values():
            text.stale |= self.trace_on != "change"

    def _configure(self, configuration: Any) -> None:
        self.configuration = self.peer.configuration = configuration
        self.peer.notify("workspace/didChangeConfiguration", {"settings": configuration})

    @rule(name=st.sampled_from(("sub", "other")), added=st.booleans())
    def change_folders(self, name: str, added: bool) -> None:
        self.place.operations += 1
        folder = {"uri": self.uri(name), "name": name}
        event = {"added": [folder] if added else [], "removed": [] if added else [folder]}
        self.peer.notify("workspace/didChangeWorkspaceFolders", {"event": event})

    @rule(
        name=st.sampled_from(("pyproject.toml", "fullgraph.probes.json", "a.py")),
        text=st.sampled_from(("[project]\n", "[tool.fullgraph]\njobs = 1\n", "{", "")),
    )
    def write_file(self, name: str, text: str) -> None:
        self.place.operations += 1
        (self.root / name).write_text(text)
        change = {"uri": self.uri(name), "type": 2}
        self.peer.notify("workspace/didChangeWatchedFiles", {"changes": [change]})

    @rule(trusted=st.booleans())
    def trust(self, trusted: bool) -> None:
        self.place.operations += 1
        self.trusted = trusted
        self.peer.notify("fullgraph/trust", {"trusted": trusted})
        for text in self.texts.values():
            text.stale |= not trusted

    # -- what has to be true ------------------------------------------------------------------

    @rule(often=st.integers(0, 3))
    def settle(self, often: int) -> None:
        if often == 0:
            self.check()

    def check(self) -> None:
        """Wait for all that goes on; then every answer is there, and every text."""
        self.peer.until_answered([*self.sent, *self.twice])
        files = at_rest(self.peer)
        ids = [*self.sent, *self.twice]
        answers = {number: self.peer.answers[json.dumps(number)] for number in ids}
        for number in self.sent:
            assert len(answers[number]) == 1, (number, answers[number])
        for number in self.twice:
            assert 1 <= len(answers[number]) <= 2
        internal = [one for got in answers.values() for one in got if code(one) == -32603]
        assert not internal, internal
        have = {uri: text.generation for uri, text in self.texts.items()}
        assert {file["uri"]: file["generation"] for file in files} == have
        for uri, published in self.peer.published.items():
            if uri not in self.texts:
                assert not published["diagnostics"], f"{uri} is closed"
        assert not self.server.failures(), self.server.failures()

    def teardown(self) -> None:
        if not hasattr(self, "peer"):
            return
        try:
            self._finish()
        finally:
            self.peer.disconnect()

    def _finish(self) -> None:
        self.check()
        self._refresh()
        at_rest(self.peer)
        shown = {uri: self._shown(self.peer, uri) for uri in self.texts}
        for uri, text in self.texts.items():
            published = self.peer.published.get(uri)
            if published is not None and "version" in published and not self.pulls:
                assert text.changed <= published["version"] <= text.version, uri
        server = self.place.start()
        fresh = Peer(server.port, self.encoding, self.profile, self.root)
        fresh.configuration = self.configuration
        fresh.notify("workspace/didChangeConfiguration", {"settings": self.configuration})
        for uri, text in self.texts.items():
            document = {"uri": uri, "languageId": "python", "version": 1, "text": text.text}
            fresh.notify("textDocument/didOpen", {"textDocument": document})
        at_rest(fresh)
        expected = {uri: self._shown(fresh, uri) for uri in self.texts}
        for uri, text in self.texts.items():
            # Where the engine says that it does not parse, what was known before stays.
            if "def broken(" not in text.text:
                assert shown[uri] == expected[uri], (uri, text, shown[uri], expected[uri])
                self.place.texts += 1
                self.place.diagnostics += len(expected[uri])
        for peer, one in ((fresh, server), (self.peer, self.server)):
            peer.close()
            assert not one.failures(), one.failures()

    def _refresh(self) -> None:
        """Trace what the editor has kept from being traced, or what does not parse."""
        if not self.trusted:
            self.trust(True)
        if self.trace_on != "change":
            self._configure({})
        for uri, text in self.texts.items():
            if text.stale:
                self.peer.command(ANALYZE, uri)
            elif not text.parses:
                self.peer.notify("textDocument/didSave", {"textDocument": {"uri": uri}})

    @property
    def pulls(self) -> bool:
        return "diagnosticProvider" in self.peer.offers

    def _shown(self, peer: Peer, uri: str) -> list[str]:
        if self.pulls:
            params = {"textDocument": {"uri": uri}}
            items = peer.ask("textDocument/diagnostic", params)["result"]["items"]
        else:
            items = peer.published.get(uri, {}).get("diagnostics", [])
        return sorted(json.dumps(item, sort_keys=True) for item in items)


def code(answer: dict[str, Any]) -> int:
    found: int = answer.get("error", {}).get("code", 0)
    return found


def at_rest(peer: Peer) -> list[dict[str, Any]]:
    """Wait until nothing is traced or is going to be; what the server says of its files."""
    until = time.monotonic() + PATIENCE
    rested = 0
    while rested < 3:
        files: list[dict[str, Any]] = peer.command(DEBUG)["files"]
        busy = any(file["busy"] or file["waiting"] for file in files)
        rested = 0 if busy else rested + 1
        assert time.monotonic() < until, f"It does not come to rest: {files}"
        time.sleep(0.02)
    return files
