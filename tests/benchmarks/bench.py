"""Measure fullgraph, as ratios to what it is compared with, all in one run.

    python bench.py [--repetitions N] [--requests N] [--only-requests | --only-checks]

(a) From an edit (change and save, through a real LSP session) to the first and to the last finding,
    and to the end of the analysis, against the same target traced warm in one process
    (``warm.py``, which has nothing of fullgraph), and against a cold
    ``TORCH_LOGS=graph_breaks,guards`` run.
(b) From starting the server process to its answer to ``initialize``.
(c) Memory of the server, the engine host, and a run: proportional set size, in MiB.
(d) From a request to its answer while a trace is running, against the same server at rest: hover,
    completion of the longest list there is, signature help. Each comes right behind an edit of the
    text that it is about. Memory of the server before and after it has the operator index.
(e) What recording adds to a trace, part by part (``recording.py``).
(f) In a file of twenty targets: from a comment to the diagnostics of the new text; from an edit of
    one target to its finding, to the end of its trace (with ``try-paths`` off), and to the end of
    the analysis, which traces a further path beside it, against the same target traced warm in one
    process. From an edit while a text is traced to the end of the processes that do it.
(g) ``fullgraph check`` of a file, and of a tree of them, for the first and for the second time.
(i) With ``--models``: (a) for each file that has ``Model``, ``get_init_inputs`` and ``get_inputs``,
    as those of KernelBench have; and when the last finding came, and the target's own trace was
    through. Each file is printed when it is measured, with the medians of those so far.
(j) Memory that each of ten further open files takes in the engine's processes.
(k) A file that imports a large library: edits of a body, against the same file without it.
(h) ``fullgraph check`` of twenty lines: the first call, later ones with the engine that it left,
    and calls that leave none.

Those of (a), (f), (h) and (i) take turns, so that a machine that slows down slows all of them.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from client import Client

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures" / "bench"
WARM, COLD = HERE / "warm.py", HERE / "cold.py"
CASES = (("breaks.py", "Net", "4x16"), ("encoder.py", "Encoder", "4x32x128"))
SERVER = [sys.executable, "-m", "fullgraph", "server"]
ENVIRONMENT = {**os.environ, "PYTHONWARNINGS": "ignore", "FULLGRAPH_ENGINE_KEEP": "0"}


class Editor:
    """One file open in one server; edits it and waits for the findings."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.path = folder / source.name
        self.source = source.read_text()
        self.path.write_text(self.source)
        self.uri = self.path.as_uri()
        self.version = self.edits = 0
        self.last = 0.0
        """Seconds to the last diagnostics that came while the text of the last edit was traced."""
        started = time.perf_counter()
        self.client = Client(SERVER, folder, ENVIRONMENT)
        answered, _ = self.client.request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": folder.as_uri(),
                "workspaceFolders": [{"uri": folder.as_uri(), "name": "bench"}],
                "initializationOptions": {"trusted": True, "interpreter": sys.executable},
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

        Every other edit adds a graph break to the top of the last ``forward``, the ones between
        put a number in its place. No text comes twice: its results would be known.
        """
        self.edits += 1
        adds = self.edits % 2 == 1
        statement = f'print("{self.edits}")' if adds else f"number = {self.edits}"
        text = _with_statement(self.source, statement)
        return self.become(text, text[: text.index("print")].count("\n") if adds else -1)

    def become(self, text: str, line: int) -> tuple[float, float]:
        """The same of another text, whose first new finding is in a line."""
        self.version += 1
        document = {"uri": self.uri, "version": self.version}
        self.path.write_text(text)
        started = time.perf_counter()
        self.client.notify(
            "textDocument/didChange",
            {"textDocument": document, "contentChanges": [{"text": text}]},
        )
        self.client.notify("textDocument/didSave", {"textDocument": {"uri": self.uri}})
        return self.wait(started, line)

    def publish(self, text: str) -> float:
        """Seconds from a change to the diagnostics of the changed text."""
        self.version += 1
        document = {"uri": self.uri, "version": self.version}
        started = time.perf_counter()
        self.client.notify(
            "textDocument/didChange",
            {"textDocument": document, "contentChanges": [{"text": text}]},
        )
        for at, message in self.client.until(120):
            published = message.get("method") == "textDocument/publishDiagnostics"
            if published and message["params"].get("version") == self.version:
                return at - started
        raise TimeoutError("no diagnostics within 120 s")

    def retrace(self, number: int) -> float:
        """Seconds from an edit of the middle target, and a save, to the end of the analysis."""
        text, _ = _in_the_middle(self.source, f"number = {number}")
        return self.become(text, -1)[1]

    def begin(self) -> None:
        """Another text and a save, whose run is not waited for."""
        self.version += 1
        head = "def forward(self, x):\n"
        text = self.source.replace(head, f"{head}        number = {self.version}\n")
        document = {"uri": self.uri, "version": self.version}
        self.client.notify(
            "textDocument/didChange",
            {"textDocument": document, "contentChanges": [{"text": text}]},
        )
        self.path.write_text(text)
        self.client.notify("textDocument/didSave", {"textDocument": {"uri": self.uri}})

    def wait(self, started: float, line: int = -1) -> tuple[float, float]:
        first = self.last = 0.0
        busy = False
        for at, message in self.client.until(120):
            method, params = message.get("method"), message.get("params")
            if method == "textDocument/publishDiagnostics":
                if busy:
                    self.last = at - started
                places = [item["range"]["start"]["line"] for item in params["diagnostics"]]
                if line in places and not first:
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


def _with_statement(source: str, added: str) -> str:
    """The text with a statement before the first one of the last ``forward``."""
    method = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == "forward"
    ][-1]
    statement = method.body[0]
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        statement = method.body[1]
    lines = source.splitlines(keepends=True)
    lines.insert(statement.lineno - 1, f"{statement.col_offset * ' '}{added}\n")
    return "".join(lines)


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


@contextlib.contextmanager
def warm_traces(
    source: Path, model: str, shape: str
) -> Iterator[Callable[[], tuple[float, float]]]:
    """Traces a target in one process: the seconds of ``warm.py``, once for each call.

    The process is stopped between calls. Raises ``RuntimeError`` if it ends.
    """
    yardstick = subprocess.Popen(
        [sys.executable, WARM, source, model, shape, "1000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
        text=True,
    )
    assert yardstick.stdout is not None
    process, lines = psutil.Process(yardstick.pid), yardstick.stdout

    def repeat() -> tuple[float, float]:
        while not (line := lines.readline()).startswith("SECONDS"):
            if not line:
                raise RuntimeError("warm.py ended")
        _, plain, kept = line.split()
        return float(plain), float(kept)

    def trace() -> tuple[float, float]:
        process.resume()
        repeat()  # the one that was interrupted
        seconds = repeat()
        process.suspend()
        return seconds

    try:
        repeat()  # the first one is not warm
        process.suspend()
        yield trace
    finally:
        yardstick.kill()
        yardstick.wait()


def case(name: str, model: str, shape: str, repetitions: int) -> None:
    source = FIXTURES / name
    first: list[float] = []
    last: list[float] = []
    end: list[float] = []
    warm: list[float] = []
    symbolic: list[float] = []
    cold: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        editor = Editor(source, Path(folder))
        with warm_traces(source, model, shape) as trace:
            editor.edit()
            editor.edit()
            for _ in range(repetitions):
                for values, seconds in zip((warm, symbolic), trace(), strict=True):
                    values.append(seconds)
                first.append(editor.edit()[0])  # adds a break
                last.append(editor.last)
                end.append(editor.edit()[1])  # the text that the others trace
        for _ in range(max(3, repetitions // 4)):
            ran = _cold_run(source, model, shape)
            assert ran is not None
            cold.append(ran)
        peak = Peak(editor)
        peak.start()
        editor.edit()
        peak.done.set()
        server, host = editor.processes()[:2]
        print(f"\n{name}")
        row("edit to first finding", first, "s")
        row("edit to last finding", last, "s")
        row("edit to end of analysis", end, "s")
        row("warm trace in one process", warm, "s")
        row("the same, sizes kept symbolic", symbolic, "s")
        row("cold TORCH_LOGS run", cold, "s")
        for name, seconds, aim in (("last finding", last, "aim: at least 10"), ("end", end, "")):
            middle = statistics.median(seconds)
            ratio(f"{name} / warm trace", middle / statistics.median(warm), "")
            ratio(f"{name} / symbolic one", middle / statistics.median(symbolic), "")
            ratio(f"cold run / {name}", statistics.median(cold) / middle, aim)
        print(
            f"  memory: server {megabytes(server):.0f} MiB, engine host {megabytes(host):.0f} MiB, "
            f"largest of module and run {peak.value:.0f} MiB"
        )
        editor.client.close()


def models(paths: list[Path], repetitions: int) -> None:
    """(i): each file for itself, as ratios to its own trace in a warm process."""
    ratios: dict[str, list[float]] = {"first": [], "last": [], "end": []}
    cold: list[float] = []
    for path in paths:
        warm: list[float] = []
        taken: dict[str, list[float]] = {name: [] for name in ratios}
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            source = path.read_text()
            same = Path(folder) / "same.py"
            same.write_text(text := _with_statement(source, 'print("0")'))
            line = text[: text.index('print("0")')].count("\n")
            try:
                trace = stack.enter_context(warm_traces(same, "Model", "-"))
            except RuntimeError:
                print(f"  {path.name:<34}raises an error on fake tensors")
                continue
            editor = Editor(path, Path(folder))
            for number in range(-2, repetitions):
                seconds, _ = trace()
                first, end = editor.become(_with_statement(source, f'print("{number}")'), line)
                if number >= 0:
                    warm.append(seconds)
                    for name, value in zip(taken, (first, editor.last, end), strict=True):
                        taken[name].append(value)
            editor.client.close()
            ran = _cold_run(same, "Model", "-")
        middle = statistics.median(warm)
        for name, values in taken.items():
            ratios[name].append(statistics.median(values) / middle)
        if ran is not None:
            cold.append(ran / statistics.median(taken["last"]))
        shown = "  ".join(
            f"{name} {values[-1]:5.2f} ({statistics.median(values):.2f})"
            for name, values in ratios.items()
        )
        if ran is not None:
            shown += f"  cold / last {cold[-1]:5.1f} ({statistics.median(cold):.1f})"
        print(f"  {path.name:<34}warm {middle:6.3f} s   {shown}", flush=True)
    print(f"\n{len(ratios['end'])} models, against the same traced warm in one process")
    for name, aim in (("first", 0.5), ("last", 1.1), ("end", None)):
        row(f"save to {name}", ratios[name], "x")
        print(f"    (aim: at most {aim})" if aim else "    (of all that is traced besides)")
    row("cold run / save to last", cold, "x")
    print("    (aim: at least 10)")


COLD_SECONDS = 120.0


def _cold_run(source: Path, model: str, shape: str) -> float | None:
    """Seconds of a run on real tensors in a new process, ended after ``COLD_SECONDS``; None if it
    fails."""
    started = time.perf_counter()
    with contextlib.suppress(subprocess.TimeoutExpired):
        ran = subprocess.run(
            [sys.executable, COLD, source, model, shape],
            env={**ENVIRONMENT, "TORCH_LOGS": "graph_breaks,guards"},
            capture_output=True,
            check=False,
            timeout=COLD_SECONDS,
        )
        if ran.returncode:
            return None
    return time.perf_counter() - started


PLACES = {
    "hover": ("hover", "y = torch.max(x)", 11),
    "completion": ("completion", "y = torch.ops.aten.", 19),
    "signature help": ("signatureHelp", "y = torch.max(x, 1, )", 20),
}
"""What is asked: the method, a line, and the character in it."""


class Reader:
    """A long text of which nothing is traced, with a cursor behind what is being typed in it."""

    HEAD = "# ?\nimport torch\nimport torch.nn.functional as F\n\n"
    BODY = "\ndef f{0}(x):\n    y = torch.relu(x) + {0}\n    return F.gelu(torch.max(y, 1)[0])\n"

    def __init__(self, client: Client, folder: Path, functions: int) -> None:
        self.client = client
        self.uri = (folder / "typed.py").as_uri()
        self.version = 0
        text = "x = 1\n"
        item = {"uri": self.uri, "languageId": "python", "version": 0, "text": text}
        client.notify("textDocument/didOpen", {"textDocument": item})
        self.lines = [line for _, line, _ in PLACES.values()]
        self.text = self.HEAD + "".join(self.BODY.format(n) for n in range(functions))
        self.first = self.text.count("\n")

    def fill(self) -> None:
        self._change({"text": self.text + "\n".join(self.lines) + "\n"})

    def ask(self, what: str) -> tuple[float, Any]:
        """Seconds, and the answer; the text is edited before."""
        self.version += 1
        method, line, character = PLACES[what]
        place = {"line": self.first + self.lines.index(line), "character": character}
        start = {"line": 0, "character": 2}
        self._change(
            {
                "range": {"start": start, "end": {"line": 0, "character": 3}},
                "text": "ab"[self.version % 2],
            }
        )
        began = time.perf_counter()
        at, answer = self.client.request(
            f"textDocument/{method}", {"textDocument": {"uri": self.uri}, "position": place}
        )
        return at - began, answer

    def _change(self, change: dict[str, Any]) -> None:
        self.version += 1
        document = {"uri": self.uri, "version": self.version}
        self.client.notify(
            "textDocument/didChange", {"textDocument": document, "contentChanges": [change]}
        )

    def until_indexed(self) -> None:
        """Wait until all of the running torch is known."""
        began = time.perf_counter()
        while time.perf_counter() - began < 120:
            _, hover = self.ask("hover")
            if hover and "has not been asked yet" not in str(hover):
                return
            time.sleep(0.02)
        raise TimeoutError("no operator index within 120 s")


def requests(repetitions: int, functions: int = 750) -> None:
    """(d)"""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        editor = Editor(FIXTURES / "encoder.py", folder)
        reader = Reader(editor.client, folder, functions)
        reader.fill()
        reader.until_indexed()
        with_index = megabytes(editor.processes()[0])
        print(f"\nrequests in a text of {reader.text.count(chr(10))} lines")
        rest: dict[str, list[float]] = {what: [] for what in PLACES}
        busy: dict[str, list[float]] = {what: [] for what in PLACES}
        size = runs = going = 0
        for what in PLACES:
            reader.ask(what)
        for values in (rest, busy):
            begun = 0.0
            for _ in range(repetitions):
                for what in PLACES:
                    if values is busy and time.perf_counter() - begun > _RUN:
                        # A new run while the last one goes on, so that one always does.
                        runs += 1
                        going += len(editor.processes()) > 2
                        editor.begin()
                        begun = time.perf_counter()
                    seconds, answer = reader.ask(what)
                    values[what].append(seconds * 1000)
                    if what == "completion":
                        size = len(answer["items"])
        for what in PLACES:
            for when, values in (("while tracing", busy), ("at rest", rest)):
                percentiles(f"{what}, {when}", values[what])
            ratio(
                f"{what}: tracing / rest",
                statistics.median(busy[what]) / statistics.median(rest[what]),
                "",
            )
        print(f"  runs begun: {runs}, of which {going} beside one that went on")
        print(f"  items of the completion list: {size}")
        print(
            f"  memory: server {_without_index(folder):.0f} MiB with files and no index, "
            f"{with_index:.0f} MiB with the index, "
            f"{megabytes(editor.processes()[0]):.0f} MiB after all requests"
        )
        editor.client.close()


_RUN = 0.7


def _without_index(folder: Path) -> float:
    """Memory of a server whose engine has no index to give, after the same text was opened."""
    client = Client(SERVER, folder, ENVIRONMENT)
    client.request(
        "initialize",
        {
            "processId": os.getpid(),
            "rootUri": folder.as_uri(),
            "initializationOptions": {"trusted": True, "interpreter": "/nonexistent/python"},
            "capabilities": {"workspace": {"configuration": False}},
        },
    )
    client.notify("initialized", {})
    reader = Reader(client, folder, 750)
    reader.fill()
    for what in PLACES:
        reader.ask(what)
    used = megabytes(psutil.Process(client.process.pid))
    client.close()
    return used


TARGETS = 20


def superseded(repetitions: int) -> None:
    """(f): from an edit to the end of the processes that traced the text before."""
    taken: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        editor = Editor(FIXTURES / "encoder.py", Path(name))
        editor.edit()
        rest = {process.pid for process in editor.processes()}
        for number in range(repetitions):
            editor.begin()
            while not (running := [one for one in editor.processes() if one.pid not in rest]):
                time.sleep(0.01)
            time.sleep(0.3 + 0.05 * number)
            running = [one for one in editor.processes() if one.pid not in rest]
            editor.version += 1
            document = {"uri": editor.uri, "version": editor.version}
            change = {"text": f"{editor.source}# {number}\nx = {number}\n"}
            with _ends(running) as ends:
                started = time.perf_counter()
                editor.client.notify(
                    "textDocument/didChange", {"textDocument": document, "contentChanges": [change]}
                )
                for end in ends:
                    select.select([end], [], [])
                taken.append(1000 * (time.perf_counter() - started))
            editor.edit()
            editor.edit()
            rest = {process.pid for process in editor.processes()}
        editor.client.close()
    print("\nruns of a text that is gone")
    row("edit to their end", taken, "ms")
    print("    (aim: at most 20)")


FILES = 10
PAUSE = 3.0
WITHOUT_PATHS = "[tool.fullgraph]\ntry-paths = false\n"
"""Settings with which an analysis ends with the target's own trace."""
"""Seconds between two edits, in which operator calls of the last run are made again."""


def files_open() -> None:
    """(j): what each of some open files takes, edited once so that its imports are kept."""
    text = (FIXTURES / CASES[0][0]).read_text()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        editors = _Opened(folder, [f"open{number}.py" for number in range(FILES)], text)
        editors.come_to_rest()
        alone = sum(map(megabytes, editors.processes()[1:]))
        editors.edit_all()
        editors.come_to_rest()
        engine = editors.processes()[1:]
        held = sum(map(megabytes, engine))
        print(f"\n{FILES} further open files, {len(engine)} processes of the engine")
        print(f"  their memory                 {alone:.0f} MiB before, {held:.0f} after")
        ratio("MiB for each file", (held - alone) / FILES, "aim: at most 60")
        editors.client.close()


class _Opened(Editor):
    """Further files in the same server."""

    def __init__(self, folder: Path, names: list[str], text: str) -> None:
        (folder / "first.py").write_text(text)
        super().__init__(folder / "first.py", folder)
        self.uris = [(folder / one).as_uri() for one in names]
        self.others = folder, names, text

    def come_to_rest(self) -> None:
        """Wait until nothing is started or ended any more."""
        before, since = set[int](), time.perf_counter()
        while time.perf_counter() - since < 2:
            time.sleep(0.1)
            now = {process.pid for process in self.processes()}
            if now != before:
                before, since = now, time.perf_counter()

    def edit_all(self) -> None:
        folder, names, text = self.others
        for name in names:
            (folder / name).write_text(text)
            self.uri, self.path, self.version = (folder / name).as_uri(), folder / name, 0
            item = {"uri": self.uri, "languageId": "python", "version": 0, "text": text}
            self.client.notify("textDocument/didOpen", {"textDocument": item})
            self.wait(time.perf_counter())
            self.become(f"{text}\nedited = 1\n", -1)


def library(name: str, repetitions: int) -> None:
    """(k): edits in turns, so that both see the same machine."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        text = (FIXTURES / CASES[0][0]).read_text()
        taken: dict[str, list[float]] = {"with": [], "without": []}
        editors: dict[str, Editor] = {}
        for place, which in ((folder, "with"), (other, "without")):
            source = Path(place) / "model.py"
            source.write_text(f"import {name}\n{text}" if which == "with" else text)
            editors[which] = Editor(source, Path(place))
            editors[which].edit()
            editors[which].edit()
        for _ in range(2 * repetitions):
            for which, editor in editors.items():
                taken[which].append(editor.edit()[1])
        for editor in editors.values():
            editor.client.close()
    print(f"\nfile that imports {name}")
    for which, values in taken.items():
        row(f"edit to end, {which}", values, "s")
    middle = statistics.median(taken["with"]) / statistics.median(taken["without"])
    ratio("with / without", middle, "aim: at most 1.10")


@contextlib.contextmanager
def _ends(running: list[psutil.Process]) -> Iterator[list[int]]:
    """Descriptors that can be read once these have ended: to wait for one takes no time of the
    processors."""
    ends: list[int] = []
    for one in running:
        with contextlib.suppress(ProcessLookupError):
            ends.append(os.pidfd_open(one.pid))
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def reuse(repetitions: int) -> None:
    """(f): an edit of one target, and one of none."""
    source = (FIXTURES / "encoder.py").read_text()
    head, probe, body = source.partition("# fullgraph:")
    classes = [
        f"{probe}{body}".replace("class Encoder(", f"class Encoder{number}(")
        for number in range(TARGETS)
    ]
    text = head + "\n\n".join(classes)
    taken: dict[str, list[float]] = {name: [] for name in ("last", "end", "rested", "alone")}
    comments: list[float] = []
    warm: list[float] = []
    with warm_traces(FIXTURES / "encoder.py", "Encoder", "4x32x128") as trace:
        with editor_of(text, "") as editor:
            for number in range(repetitions):
                noted = f"# note {number}\n{editor.path.read_text()}"
                comments.append(1000 * editor.publish(noted))
                taken["end"].append(editor.retrace(2 * number))
                time.sleep(PAUSE)
                taken["rested"].append(editor.retrace(2 * number + 1))
                editor.become(*_in_the_middle(text, f'print("{number}")'))
                taken["last"].append(editor.last)
        with editor_of(text, WITHOUT_PATHS) as editor:
            editor.retrace(-1)
            for number in range(repetitions):
                taken["alone"].append(editor.retrace(number))
                time.sleep(PAUSE)  # processes are made for the next edit
                warm.append(trace()[0])
    print(f"\n{TARGETS} encoders in a file")
    row("comment to diagnostics", comments, "ms")
    print("    (aim: at most 20)")
    row("break in one to its finding", taken["last"], "s")
    row("edit of one to its trace's end", taken["alone"], "s")
    row("to the end of other paths too", taken["end"], "s")
    row(f"the same {PAUSE:g} s after another", taken["rested"], "s")
    row("warm trace of one", warm, "s")
    middle = statistics.median(warm)
    for name, aim in (("last", "aim: at most 1.2"), ("alone", "aim: at most 1.2"), ("end", "")):
        ratio(f"{name} / warm trace", statistics.median(taken[name]) / middle, aim)


@contextlib.contextmanager
def editor_of(text: str, settings: str) -> Iterator[Editor]:
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as other:
        source = Path(other) / "twenty.py"
        source.write_text(text)
        (Path(name) / "pyproject.toml").write_text(settings)
        editor = Editor(source, Path(name))
        yield editor
        editor.client.close()


def _in_the_middle(text: str, statement: str) -> tuple[str, int]:
    """A text whose middle target begins with a statement, and the line of that, from 0."""
    head = "def forward(self, x):\n"
    parts = text.split(head)
    before = head.join(parts[: TARGETS // 2]) + head
    rest = head.join(parts[TARGETS // 2 :])
    return f"{before}        {statement}\n{rest}", before.count("\n")


def kept(trees: list[Path]) -> None:
    """(g): checks of what was checked before."""
    for tree in (FIXTURES / "encoder.py", *trees):
        with tempfile.TemporaryDirectory() as cache:
            seconds = []
            for _ in range(2):
                started = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-m", "fullgraph", "check", "--quiet", str(tree)],
                    env={**ENVIRONMENT, "XDG_CACHE_HOME": cache},
                    stdout=subprocess.DEVNULL,
                    check=False,
                )
                seconds.append(time.perf_counter() - started)
        first, second = seconds
        print(f"\ncheck of {tree.name}")
        print(f"  first {first:.2f} s, second {second:.2f} s")
        ratio("first / second", first / second, "aim: 10 for a file, 50 for a tree")


def percentiles(name: str, values: list[float]) -> None:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    print(
        f"  {name:<30}p50 {cuts[49]:6.2f} ms   p99 {cuts[98]:6.2f} ms   "
        f"(at most {max(values):.2f}, {len(values)} times)"
    )


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
        client = Client(SERVER, Path.cwd(), ENVIRONMENT)
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


def checks(repetitions: int) -> None:
    names = ("first check", "second", "third", "without a kept engine")
    values: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="fg-") as runtime:
        environment = {**ENVIRONMENT, "XDG_RUNTIME_DIR": runtime}

        def call(*arguments: str, keep: str = "10") -> float:
            started = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "fullgraph", *arguments],
                env={**environment, "FULLGRAPH_ENGINE_KEEP": keep},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            return time.perf_counter() - started

        check = ("check", "--no-cache", "--python", sys.executable, str(FIXTURES / CASES[0][0]))
        try:
            for _ in range(repetitions):
                for name in names:
                    values[name].append(call(*check, keep="0" if name == names[-1] else "10"))
                call("engine", "stop")
        finally:
            call("engine", "stop")
    print(f"\ncheck of {CASES[0][0]}")
    for name in names:
        row(name, values[name], "s")
    middle = {name: statistics.median(values[name]) for name in names}
    ratio("without / second", middle[names[-1]] / middle["second"], "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=12)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--only-requests", action="store_true")
    parser.add_argument("--only-reuse", action="store_true")
    parser.add_argument("--tree", type=Path, action="append", default=[], help="checked twice")
    parser.add_argument("--only-checks", action="store_true")
    parser.add_argument("--library", action="append", help="that a file is to import")
    parser.add_argument("--models", type=Path, nargs="+", help="files; alone, or with --only-reuse")
    options = parser.parse_args()
    # A run that is stopped has printed what it had measured.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if options.models:
        models(options.models, options.repetitions)
        if not options.only_reuse:
            return
    if options.only_checks:
        checks(options.repetitions)
        return
    if not options.only_requests:
        reuse(options.repetitions)
        superseded(options.repetitions)
        files_open()
        for name in options.library or ["lsprotocol.types"]:
            library(name, options.repetitions)
        kept(options.tree)
    if options.only_reuse:
        return
    if not options.only_requests:
        initialize(options.repetitions)
    requests(options.requests)
    if options.only_requests:
        return
    for name, model, shape in CASES:
        case(name, model, shape, options.repetitions)
    checks(options.repetitions)
    rounds = str(max(12, options.repetitions))
    subprocess.run([sys.executable, HERE / "recording.py", "--rounds", rounds], check=True)


if __name__ == "__main__":
    main()
