"""Record traces of the sample programs in ``docs/samples/`` for the page "Try it" of the site.

``python scripts/record_samples.py FILE`` opens each sample in a real language server, requests what
the trace view of an editor requests, and writes all answers to FILE, a script for browsers. It
applies each fix and records the trace of the result too, so that readers of the page can click it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygments.lexers import PythonLexer
from pygments.token import STANDARD_TYPES

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "samples"
SAMPLES = ("print", "item", "branch", "sizes", "training", "clean")
"""Names of the sample programs, in the order of the page."""

PATIENCE = 300.0
"""Seconds after which a trace, or the search for its fixes, counts as stuck."""

PAUSE = 0.2
"""Seconds between two questions whether the search for fixes has ended."""

NO_TORCH = (
    "The step of `make docs` that records the samples (scripts/record_samples.py) needs torch, "
    "which {python} does not have: run `{python} -m pip install torch`."
)

Json = dict[str, Any]
"""An answer of the language server, which this script writes to the file without reading much."""

Tokens = list[tuple[str, str]]
"""The syntax tokens of a line: the CSS class by which Pygments names the kind, and the text."""


@dataclass
class Document:
    """A text about a traced function, which the view opens: its graph code or its guards."""

    target: str
    kind: str
    lines: list[Tokens]


@dataclass
class Recording:
    """Everything that the page shows about one text."""

    lines: list[Tokens]
    traces: list[Json]
    """Answers to ``fullgraph/trace``, one for each function and each set of its inputs."""
    documents: list[Document]


@dataclass
class DiffLine:
    """A line of the difference between two texts; ``change`` is ``" "``, ``"-"`` or ``"+"``."""

    change: str
    tokens: Tokens


@dataclass
class AppliedFix:
    """A fix, the difference between the texts before and after it, and the later text's traces."""

    fix: Json
    diff: list[DiffLine]
    after: Recording


@dataclass
class Sample:
    """A sample program: the recording of its text, and its fixes."""

    name: str
    title: str
    before: Recording
    fixes: list[AppliedFix] = field(default_factory=list)


class Recorder:
    """A client of a language server that opens samples and collects the answers about them."""

    def __init__(self, client: LanguageClient) -> None:
        self._client = client

    async def initialize(self, folder: Path) -> None:
        """Start the session for a workspace folder whose code may be executed."""
        parameters = types.InitializeParams(
            capabilities=types.ClientCapabilities(),
            process_id=os.getpid(),
            workspace_folders=[types.WorkspaceFolder(folder.as_uri(), "samples")],
            initialization_options={"trusted": True, "interpreter": sys.executable},
        )
        await self._client.initialize_async(parameters)
        self._client.initialized(types.InitializedParams())

    async def record(self, file: Path) -> Sample:
        """Record a sample, and its text after each fix that the trace view offers."""
        uri, text = file.as_uri(), file.read_text(encoding="utf-8")
        item = types.TextDocumentItem(uri, "python", 1, text)
        self._client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        await self._trace_again(uri)
        await self._wait_for_fixes(uri)
        title = text.split('"""')[1].strip().removesuffix(".")
        sample = Sample(file.name, title, await self._record_text(uri, text))
        for version, fix in enumerate(fixes_in(sample.before.traces), 2):
            fixed = apply_edits(text, fix["edits"])
            self._replace_text(uri, version, fixed)
            await self._trace_again(uri)
            after = await self._record_text(uri, fixed)
            remove_fixes(after.traces)
            sample.fixes.append(AppliedFix(fix, diff_lines(text, fixed), after))
        identifier = types.TextDocumentIdentifier(uri)
        self._client.text_document_did_close(types.DidCloseTextDocumentParams(identifier))
        return sample

    def _replace_text(self, uri: str, version: int, text: str) -> None:
        change = types.TextDocumentContentChangeWholeDocument(text)
        identifier = types.VersionedTextDocumentIdentifier(version, uri)
        parameters = types.DidChangeTextDocumentParams(identifier, [change])
        self._client.text_document_did_change(parameters)

    async def _trace_again(self, uri: str) -> None:
        ending = await self._command("fullgraph.server.analyze", {"uri": uri})
        if not ending["completed"]:
            raise RuntimeError(f"The trace of {uri} was not completed: {ending['reason']}")

    async def _wait_for_fixes(self, uri: str) -> None:
        """Wait until the search for fixes of graph breaks, if there are any, has ended."""
        for _ in range(int(PATIENCE / PAUSE)):
            summary = await self._request("fullgraph/file", uri=uri)
            is_over = summary["fixes"] not in ("", "looking for fixes")
            if is_over or not summary["problems"]:
                return
            await asyncio.sleep(PAUSE)
        raise TimeoutError(f"The search for fixes of {uri} did not end in {PATIENCE:.0f} s.")

    async def _record_text(self, uri: str, text: str) -> Recording:
        recording = Recording(highlight(text), [], [])
        targets = (await self._request("fullgraph/trace", uri=uri))["targets"]
        for target in targets:
            trace = await self._request("fullgraph/trace", uri=uri, target=target)
            recording.traces.append(trace)
            for run in range(1, len(trace["runs"])):
                which = {"target": target, "run": run}
                recording.traces.append(await self._request("fullgraph/trace", uri=uri, **which))
            for kind, command in (("graph", "showGraph"), ("guards", "showGuards")):
                place = {"uri": uri, "target": target}
                shown = await self._command(f"fullgraph.server.{command}", place)
                lines = highlight(shown["text"]) if kind == "graph" else plain_lines(shown["text"])
                recording.documents.append(Document(target, kind, lines))
        return recording

    async def _command(self, name: str, argument: Json) -> Any:
        parameters = types.ExecuteCommandParams(name, [argument])
        answer = self._client.workspace_execute_command_async(parameters)
        return as_plain(await asyncio.wait_for(answer, PATIENCE))

    async def _request(self, method: str, **parameters: Any) -> Any:
        answer = self._client.protocol.send_request_async(method, parameters)
        return as_plain(await asyncio.wait_for(answer, PATIENCE))


def steps_and_remarks(traces: Iterable[Json]) -> Iterable[Json]:
    """Yield the parts of traces that may have fixes."""
    for trace in traces:
        yield from (*trace["steps"], *trace["remarks"])


def fixes_in(traces: Iterable[Json]) -> list[Json]:
    """Return the fixes that traces offer, each once."""
    found: list[Json] = []
    for item in steps_and_remarks(traces):
        found += [fix for fix in item.get("fixes", ()) if fix not in found]
    return found


def remove_fixes(traces: Iterable[Json]) -> None:
    """Remove the fixes that traces offer: the page applies only one fix at a time."""
    for item in steps_and_remarks(traces):
        if "fixes" in item:
            item["fixes"] = []


def apply_edits(text: str, edits: list[dict[str, Any]]) -> str:
    """Return the text after edits in the JSON form of LSP. Positions count UTF-16 units, which are
    characters here, because the samples are in ASCII."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def offset(position: dict[str, int]) -> int:
        return starts[position["line"]] + position["character"]

    for edit in sorted(edits, key=lambda one: -offset(one["range"]["start"])):
        start, end = (offset(edit["range"][name]) for name in ("start", "end"))
        text = text[:start] + edit["newText"] + text[end:]
    return text


def highlight(text: str) -> list[Tokens]:
    """Return the syntax tokens of each line of a Python text."""
    lines: list[Tokens] = [[]]
    for kind, value in PythonLexer(stripnl=False).get_tokens(text.rstrip("\n")):
        first, *rest = value.split("\n")
        for number, part in enumerate((first, *rest)):
            if number:
                lines.append([])
            if part:
                lines[-1].append((STANDARD_TYPES.get(kind, ""), part))
    return lines[:-1] if not lines[-1] else lines


def plain_lines(text: str) -> list[Tokens]:
    """Return the lines of a text in the form of :func:`highlight`, without a syntax."""
    return [[("", line)] for line in text.rstrip("\n").split("\n")]


def diff_lines(before: str, after: str) -> list[DiffLine]:
    """Return all lines of two texts, with a mark at those that only one of them has."""
    old, new = highlight(before), highlight(after)
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines())
    lines: list[DiffLine] = []
    for tag, first, last, new_first, new_last in matcher.get_opcodes():
        if tag == "equal":
            lines += [DiffLine(" ", tokens) for tokens in old[first:last]]
        else:
            lines += [DiffLine("-", tokens) for tokens in old[first:last]]
            lines += [DiffLine("+", tokens) for tokens in new[new_first:new_last]]
    return lines


def as_plain(value: Any) -> Any:
    """Convert an answer of the server, which pygls returns as named tuples, to JSON data."""
    if hasattr(value, "_asdict"):
        return {key: as_plain(item) for key, item in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: as_plain(item) for key, item in value.items()}
    return value


async def record_samples() -> list[Sample]:
    """Record all samples in one server, which works on copies of them in a temporary folder."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "server"), str(ROOT / "engine")]),
        "FULLGRAPH_ENGINE_KEEP": "0",
    }
    # The server sends notifications for editors, which this client does not need.
    logging.getLogger("pygls").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        environment["XDG_CACHE_HOME"] = environment["XDG_CONFIG_HOME"] = folder
        client = LanguageClient("fullgraph-docs", "1")
        await client.start_io(sys.executable, "-m", "fullgraph", "server", env=environment)
        project = Path(folder, "samples")
        project.mkdir()
        recorder = Recorder(client)
        await recorder.initialize(project)
        samples: list[Sample] = []
        for name in SAMPLES:
            print(f"Recording {name}.py")
            file = project / f"{name}.py"
            file.write_bytes((FOLDER / file.name).read_bytes())
            samples.append(await recorder.record(file))
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()
        return samples


def without_folders(samples: list[Sample], text: str) -> str:
    """Return a text without the names of folders of this machine."""
    uris = {trace["uri"] for sample in samples for trace in sample.before.traces}
    torch = find_spec("torch")
    assert torch is not None and torch.origin is not None
    library = Path(torch.origin).parent.parent
    for name in (*{uri.rpartition("/")[0] for uri in uris}, library.as_posix()):
        text = text.replace(f"{name}/", "")
    return text


if __name__ == "__main__":
    if find_spec("torch") is None:
        sys.exit(NO_TORCH.format(python=sys.executable))
    recorded = asyncio.run(record_samples())
    data = json.dumps([dataclasses.asdict(sample) for sample in recorded], separators=(",", ":"))
    script = f"const fullgraphSamples = {without_folders(recorded, data)};\n"
    Path(sys.argv[1]).write_text(script, encoding="utf-8")
