"""An editor window on a server process of its own, for what takes minutes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
FEW = 4
"""Processes, descriptors or files, by which counts may differ from one time to another."""
sys.path.insert(0, str(ROOT))

from tests.benchmarks.client import Client  # noqa: E402

COMMAND = [sys.executable, str(ROOT / "tests" / "server" / "real_server.py")]


@dataclasses.dataclass(frozen=True)
class Usage:
    """Memory in MiB, and counts."""

    server: float
    engine: float
    """Of the engine's own process without what it maps from files. Pages that it shares with what
    it has forked count, so that it does not matter how many those are."""
    kept: float
    """Of processes that the engine keeps, such as those that have executed a file's imports. Each
    page is divided among those that share it."""
    processes: int
    descriptors: int
    """Of the server and the engine."""
    scratch: int
    """Files and folders for temporary files."""

    def __str__(self) -> str:
        return (
            f"server {self.server:.1f} MiB, engine {self.engine:.1f}, kept {self.kept:.1f}, "
            f"{self.processes} processes, {self.descriptors} descriptors, {self.scratch} files"
        )

    def grown(self, before: Usage, share: float) -> list[str]:
        """What is more than it was by more than a share, and what is counted by ``FEW``."""
        return [
            f"{field.name} {old:.1f} -> {new:.1f}"
            for field in dataclasses.fields(self)
            if (new := getattr(self, field.name))
            > (1 + share) * (old := getattr(before, field.name)) + FEW * isinstance(old, int)
        ]


class Window(Client):
    """Keeps the diagnostics of each file as they were published last.

    ``descriptors``: the server and all that it starts may have so many open files; 0 for as many
    as this process may.
    """

    def __init__(self, folder: Path, *, descriptors: int = 0, **settings: Any) -> None:
        self.folder = folder
        self.settings = settings
        self.diagnostics: dict[str, list[dict[str, Any]]] = {}
        self.messages_shown: list[str] = []
        self.log: list[str] = []
        self.states: list[str] = []
        self.ready_since = float("inf")
        """When the engine has become ready, by the monotonic clock; infinite while it is not."""
        self.texts: dict[str, tuple[int, str]] = {}
        """Version and text of each open file."""
        self._temporary = tempfile.TemporaryDirectory(prefix="fullgraph-soak-")
        self.scratch = Path(self._temporary.name)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, before[1]))
            command = ["prlimit", f"--nofile={descriptors}", *COMMAND]
        else:
            command = COMMAND
        try:
            # What is looked at and killed is below the server, so the engine is its own.
            own = {"TMPDIR": str(self.scratch), "FULLGRAPH_ENGINE_KEEP": "0"}
            super().__init__(command, folder, {**os.environ, **own})
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        self._lock = threading.Lock()
        self.request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": folder.as_uri(),
                "workspaceFolders": [{"uri": folder.as_uri(), "name": folder.name}],
                "capabilities": {"textDocument": {"publishDiagnostics": {"versionSupport": True}}},
                "initializationOptions": {"trusted": True, **settings},
            },
        )
        self.notify("initialized", {})

    def close(self) -> None:
        super().close()
        self._temporary.cleanup()

    def until(self, timeout: float) -> Any:
        for at, message in super().until(timeout):
            self._seen(message)
            yield at, message

    def _seen(self, message: dict[str, Any]) -> None:
        params: Any = message.get("params")
        if message.get("method") == "textDocument/publishDiagnostics":
            self.diagnostics[params["uri"]] = params["diagnostics"]
        elif message.get("method") == "window/showMessage":
            self.messages_shown.append(params["message"])
        elif message.get("method") == "window/logMessage":
            self.log.append(params["message"])
        elif message.get("method") == "fullgraph/status":
            if params["state"] not in ("ready", "tracing"):
                self.ready_since = float("inf")
            elif self.ready_since == float("inf"):
                self.ready_since = time.monotonic()
            self.states.append(params["state"])

    # -- what a user does ---------------------------------------------------------------------

    def open(self, name: str, text: str) -> str:
        uri = (self.folder / name).as_uri()
        self.texts[uri] = (1, text)
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})
        return uri

    def replace(self, uri: str, text: str) -> None:
        """Send the whole text."""
        self._change(uri, text, {"text": text})

    def edit(self, uri: str, text: str) -> None:
        """Send only what differs from the text as it was."""
        old = self.texts[uri][1]
        first = _common(old, text)
        tail = _common(old[first:][::-1], text[first:][::-1])
        change = {
            "range": {"start": _position(old, first), "end": _position(old, len(old) - tail)},
            "text": text[first : len(text) - tail],
        }
        self._change(uri, text, change)

    def _change(self, uri: str, text: str, change: dict[str, Any]) -> None:
        version = self.texts[uri][0] + 1
        self.texts[uri] = (version, text)
        identifier = {"uri": uri, "version": version}
        params = {"textDocument": identifier, "contentChanges": [change]}
        self.notify("textDocument/didChange", params)

    def save(self, uri: str) -> None:
        (self.folder / uri.rsplit("/", 1)[-1]).write_text(self.texts[uri][1])
        self.notify("textDocument/didSave", {"textDocument": {"uri": uri}})

    def command(self, name: str, *arguments: Any) -> Any:
        params = {"command": name, "arguments": list(arguments)}
        return self.request("workspace/executeCommand", params, timeout=600)[1]

    def facts(self) -> dict[str, Any]:
        return self.command("fullgraph.server.debugInformation")

    def rest(self, seconds: float) -> bool:
        """Wait until nothing is traced or is going to be; False if that takes too long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not any(file["busy"] or file["waiting"] for file in self.facts()["files"]):
                return True
            self.drain(0.2)
        return False

    def rest_with_torch(self, seconds: float) -> bool:
        """Wait until nothing is traced or is going to be, and the engine is ready."""
        until = time.monotonic() + seconds
        while self.rest(until - time.monotonic()):
            if self.ready_since != float("inf"):
                return True
            self.drain(0.1)
        return False

    def until_state(self, state: str, seconds: float) -> bool:
        """Wait until the server reports a state of the engine; False if that takes too long."""
        until = time.monotonic() + seconds
        self.states.clear()
        while state not in self.states:
            if time.monotonic() > until:
                return False
            self.drain(0.05)
        return True

    def drain(self, quiet: float) -> None:
        """Take in messages until none came for so many seconds."""
        for _ in self.until(quiet):
            pass

    # -- its processes ------------------------------------------------------------------------

    def levels(self) -> list[list[psutil.Process]]:
        """What the server has started, what that has started, and so on."""
        levels: list[list[psutil.Process]] = []
        level = _children(psutil.Process(self.process.pid))
        while level:
            levels.append(level)
            level = [child for one in level for child in _children(one)]
        return levels

    def engine(self) -> psutil.Process | None:
        """The engine; None while there is none."""
        return next((one for level in self.levels()[:1] for one in level), None)

    def settle(self) -> None:
        """Wait until no process does anything: forecasts have been made too."""
        self.rest_with_torch(300)
        before: dict[int, float] = {}
        until = time.monotonic() + 300
        while before != (now := self._seconds()) and time.monotonic() < until:
            before = now
            self.drain(3.0)

    def usage(self) -> Usage:
        """What the server and all that it has started use, once none of them does anything."""
        self.settle()
        levels = self.levels()
        server = psutil.Process(self.process.pid)
        engines = [one for level in levels[:1] for one in level]
        kept = [one for level in levels[1:] for one in level]
        return Usage(
            server=_megabytes([server]),
            engine=_own_megabytes(engines),
            kept=_megabytes(kept),
            processes=1 + len(engines) + len(kept),
            descriptors=server.num_fds() + sum(one.num_fds() for one in engines),
            scratch=sum(1 for _ in self.scratch.rglob("*")),
        )

    def _seconds(self) -> dict[int, float]:
        """Tenths of seconds of processor time by process; NaN of one that waits for a processor."""
        used = {}
        for one in (one for level in self.levels() for one in level):
            with contextlib.suppress(psutil.NoSuchProcess):
                runs = one.status() == psutil.STATUS_RUNNING
                used[one.pid] = float("nan") if runs else round(sum(one.cpu_times()[:2]), 1)
        return used

    # -- what a user sees ---------------------------------------------------------------------

    def codes(self, uri: str) -> list[str]:
        return sorted(one["code"] for one in self.diagnostics.get(uri, []))


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _position(text: str, offset: int) -> dict[str, int]:
    """For a text that UTF-16 holds in one unit for each character."""
    before = text[:offset]
    return {"line": before.count("\n"), "character": offset - before.rfind("\n") - 1}


def _own_megabytes(processes: list[psutil.Process]) -> float:
    used = [one.memory_info() for one in processes]
    return sum(float(one.rss - one.shared) for one in used) / (1 << 20)


def _megabytes(processes: list[psutil.Process]) -> float:
    return sum(float(one.memory_full_info().pss) for one in processes) / (1 << 20)


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children()
    except psutil.NoSuchProcess:
        return []
