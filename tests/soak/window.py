"""An editor window on a server process of its own, for what takes minutes."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))

from client import Client  # noqa: E402

COMMAND = [sys.executable, str(ROOT / "tests" / "server" / "real_server.py")]


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
        self._texts: dict[str, tuple[int, str]] = {}
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, before[1]))
            command = ["prlimit", f"--nofile={descriptors}", *COMMAND]
        else:
            command = COMMAND
        try:
            super().__init__(command, folder)
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

    def until(self, timeout: float) -> Any:
        for at, message in super().until(timeout):
            self._seen(message)
            yield at, message

    def _seen(self, message: dict[str, Any]) -> None:
        params = message.get("params")
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
        self._texts[uri] = (1, text)
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})
        return uri

    def replace(self, uri: str, text: str) -> None:
        version = self._texts[uri][0] + 1
        self._texts[uri] = (version, text)
        self.notify(
            "textDocument/didChange",
            {
                "textDocument": {"uri": uri, "version": version},
                "contentChanges": [{"text": text}],
            },
        )

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

    # -- what a user sees ---------------------------------------------------------------------

    def codes(self, uri: str) -> list[str]:
        return sorted(one["code"] for one in self.diagnostics.get(uri, []))


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children()
    except psutil.NoSuchProcess:
        return []
