"""Measure fullgraph, as ratios to what it is compared with, all in one run.

    python bench.py [--repetitions N]

(a) From an edit (change and save, through a real LSP session) to the first and to the last finding,
    against the same target traced warm in one process (``warm.py``, which has nothing of
    fullgraph), and against a cold ``TORCH_LOGS=graph_breaks,guards`` run.
(b) From starting the server process to its answer to ``initialize``.
(c) Memory of the server, the engine host, and a run: proportional set size, in MiB.

The three of (a) take turns, so that a machine that slows down slows all of them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
from client import Client

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures" / "bench"
CASES = (("breaks.py", "Net", "4x16"), ("encoder.py", "Encoder", "4x32x128"))
SERVER = [sys.executable, "-m", "fullgraph", "server"]
ENVIRONMENT = {**os.environ, "PYTHONWARNINGS": "ignore"}


class Editor:
    """One file open in one server; edits it and waits for the findings."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.path = folder / source.name
        self.source = source.read_text()
        self.path.write_text(self.source)
        self.uri = self.path.as_uri()
        self.version = 0
        started = time.perf_counter()
        self.client = Client(SERVER, folder)
        answered, _ = self.client.request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": folder.as_uri(),
                "workspaceFolders": [{"uri": folder.as_uri(), "name": "bench"}],
                "initializationOptions": {"interpreter": sys.executable},
                "capabilities": {
                    "workspace": {"configuration": False},
                    "textDocument": {"publishDiagnostics": {"versionSupport": True}},
                },
            },
        )
        self.initialize = answered - started
        self.client.notify("initialized", {})
        item = {"uri": self.uri, "languageId": "python", "version": 0, "text": self.source}
        self.client.notify("textDocument/didOpen", {"textDocument": item})
        self.wait(time.perf_counter())

    def edit(self) -> tuple[float, float]:
        """Seconds to the first new finding (0 if none is to come), and to the end of the analysis.

        Every other edit adds a graph break to the top of ``forward``, the ones between remove it.
        """
        self.version += 1
        adds = self.version % 2 == 1
        head = "def forward(self, x):\n"
        extra = head + 8 * " " + 'print("extra")\n'
        text = self.source.replace(head, extra) if adds else self.source
        line = text[: text.index("print")].count("\n") if adds else -1
        document = {"uri": self.uri, "version": self.version}
        self.path.write_text(text)
        started = time.perf_counter()
        self.client.notify(
            "textDocument/didChange",
            {"textDocument": document, "contentChanges": [{"text": text}]},
        )
        self.client.notify("textDocument/didSave", {"textDocument": {"uri": self.uri}})
        return self.wait(started, line)

    def wait(self, started: float, line: int = -1) -> tuple[float, float]:
        first = 0.0
        busy = False
        for at, message in self.client.until(120):
            method, params = message.get("method"), message.get("params")
            if method == "textDocument/publishDiagnostics" and not first:
                if any(item["range"]["start"]["line"] == line for item in params["diagnostics"]):
                    first = at - started
            elif method == "fullgraph/status":
                if busy and not params["busy"]:
                    return first, at - started
                busy = params["busy"]
        raise TimeoutError("no end of the analysis within 120 s")

    def processes(self) -> list[psutil.Process]:
        """The server, then the engine host and its children."""
        server = psutil.Process(self.client.process.pid)
        return [server, *server.children(recursive=True)]


def megabytes(process: psutil.Process) -> float:
    return float(process.memory_full_info().pss) / (1 << 20)


class Peak(threading.Thread):
    """The most that the engine's children used while it ran."""

    def __init__(self, editor: Editor) -> None:
        super().__init__(daemon=True)
        self.editor, self.value, self.done = editor, 0.0, threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.02):
            for process in self.editor.processes()[2:]:
                try:
                    self.value = max(self.value, megabytes(process))
                except psutil.Error:
                    continue


def case(name: str, model: str, shape: str, repetitions: int) -> None:
    source = FIXTURES / name
    first: list[float] = []
    last: list[float] = []
    warm: list[float] = []
    cold: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        editor = Editor(source, Path(folder))
        yardstick = subprocess.Popen(
            [sys.executable, HERE / "warm.py", source, model, shape, "1000000"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
            text=True,
        )
        assert yardstick.stdout is not None
        process = psutil.Process(yardstick.pid)

        def repeat_warm() -> float:
            while not (line := yardstick.stdout.readline()).startswith("SECONDS"):
                if not line:
                    raise RuntimeError("warm.py ended")
            return float(line.split()[1])

        repeat_warm()  # the first one is not warm
        process.suspend()
        editor.edit()
        editor.edit()
        for _ in range(repetitions):
            process.resume()
            repeat_warm()  # the one that was interrupted
            warm.append(repeat_warm())
            process.suspend()
            first.append(editor.edit()[0])  # adds a break
            last.append(editor.edit()[1])  # the text that the others trace
        for _ in range(max(3, repetitions // 4)):
            started = time.perf_counter()
            subprocess.run(
                [sys.executable, HERE / "cold.py", source, model, shape],
                env={**ENVIRONMENT, "TORCH_LOGS": "graph_breaks,guards"},
                capture_output=True,
                check=True,
            )
            cold.append(time.perf_counter() - started)
        process.resume()
        yardstick.kill()
        yardstick.wait()
        peak = Peak(editor)
        peak.start()
        editor.edit()
        peak.done.set()
        server, host = editor.processes()[:2]
        print(f"\n{name}")
        row("edit to last finding", last, "s")
        row("edit to first finding", first, "s")
        row("warm trace in one process", warm, "s")
        row("cold TORCH_LOGS run", cold, "s")
        middle = statistics.median(last)
        ratio("last finding / warm trace", middle / statistics.median(warm), "aim: at most 1.3")
        ratio("cold run / last finding", statistics.median(cold) / middle, "aim: at least 6")
        print(
            f"  memory: server {megabytes(server):.0f} MiB, engine host {megabytes(host):.0f} MiB, "
            f"largest of module and run {peak.value:.0f} MiB"
        )
        editor.client.close()


def row(name: str, values: list[float], unit: str) -> None:
    if not values:
        print(f"  {name:<28}   none")
        return
    low, middle, high = min(values), statistics.median(values), max(values)
    print(f"  {name:<28}{middle:7.3f} {unit}   ({low:.3f} to {high:.3f}, {len(values)} times)")


def ratio(name: str, value: float, aim: str) -> None:
    print(f"  {name:<28}{value:7.2f}" + (f"     ({aim})" if aim else ""))


def initialize(repetitions: int) -> None:
    values = []
    bare = []
    for _ in range(repetitions):
        started = time.perf_counter()
        client = Client(SERVER, Path.cwd())
        answered, _ = client.request("initialize", {"processId": None, "capabilities": {}})
        values.append((answered - started) * 1000)
        client.close()
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import pygls.lsp.server"], check=True)
        bare.append((time.perf_counter() - started) * 1000)
    print("\nserver")
    row("start to initialize answered", values, "ms")
    row("python -c 'import pygls…'", bare, "ms")
    ratio("initialize / bare import", statistics.median(values) / statistics.median(bare), "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=12)
    options = parser.parse_args()
    initialize(options.repetitions)
    for name, model, shape in CASES:
        case(name, model, shape, options.repetitions)


if __name__ == "__main__":
    main()
