"""A language client with nothing in it, so that what is measured is the server."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path
from queue import Empty, Queue
from typing import Any


class Client:
    """Speaks LSP over the pipes of a server process; every message is kept with its arrival."""

    def __init__(
        self, command: list[str], cwd: Path, environment: dict[str, str] | None = None
    ) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=cwd, env=environment
        )
        self.messages: Queue[tuple[float, dict[str, Any]]] = Queue()
        self._next = 0
        threading.Thread(target=self._read, daemon=True).start()

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def request(self, method: str, params: Any, timeout: float = 60) -> tuple[float, Any]:
        """The arrival and the result; answers the server's own requests meanwhile."""
        self._next += 1
        self._send({"id": self._next, "method": method, "params": params})
        for at, message in self.until(timeout):
            if message.get("id") == self._next and "method" not in message:
                return at, message.get("result")
        raise TimeoutError(method)

    def until(self, timeout: float) -> Any:
        """Messages as they arrive, until none came for ``timeout`` seconds."""
        while True:
            try:
                at, message = self.messages.get(timeout=timeout)
            except Empty:
                return
            if "id" in message and "method" in message:
                self._send({"id": message["id"], "result": self._answer(message)})
            yield at, message

    @staticmethod
    def _answer(message: dict[str, Any]) -> Any:
        if message["method"] == "workspace/configuration":
            return [None for _ in message["params"]["items"]]
        return None

    def close(self) -> None:
        self.request("shutdown", None)
        self.notify("exit", None)
        self.process.wait(20)

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = 0
            while line := stream.readline().strip():
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if not length:
                return
            body = stream.read(length)
            self.messages.put((time.perf_counter(), json.loads(body)))
