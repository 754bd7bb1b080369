"""Servers that are forked off one process which has imported everything.

Importing the protocol library takes ten times as long as a test. Each server is a process of its
own with an environment of its own, as users have it, and is served over its standard streams.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


class Servers:
    """The process that servers are forked off, as its parent sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(self, script: Path, environment: dict[str, str]) -> int:
        """Fork a server that executes ``script``; returns the port that it takes its client at."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([str(script), environment]), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


@contextlib.contextmanager
def servers() -> Iterator[Servers]:
    command = [sys.executable, __file__]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Servers(process)
        assert process.stdin is not None
        process.stdin.close()


def main() -> None:
    sys.path[:0] = [str(ROOT / "server"), str(ROOT / "engine")]
    warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    for line in sys.stdin:
        script, environment = json.loads(line)
        listening = socket.create_server(("127.0.0.1", 0))
        if not os.fork():
            serve(script, environment, listening)
            sys.exit()
        print(listening.getsockname()[1], flush=True)
        listening.close()


def warm_up() -> None:
    """Import what a server imports, and let its converter learn the types of its first messages."""
    from lsprotocol import types
    from pygls.protocol import default_converter

    from fullgraph.lsp import server

    for name in (HERE.parents[1] / "server" / "fullgraph" / "lsp" / "methods").glob("[a-z]*.py"):
        __import__(f"fullgraph.lsp.methods.{name.stem}")
    converter: Any = default_converter()
    raw = json.loads((HERE / "vscode.json").read_text())
    converter.structure(raw["capabilities"], types.ClientCapabilities)
    server.default_converter = lambda: converter  # type: ignore[attr-defined]


def serve(script: str, environment: dict[str, str], listening: socket.socket) -> None:
    """Be the server: it talks over the standard streams, which are those of its client."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connected, _ = listening.accept()
    listening.close()
    for descriptor in (0, 1):
        os.dup2(connected.fileno(), descriptor)
    connected.close()
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [script]
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
