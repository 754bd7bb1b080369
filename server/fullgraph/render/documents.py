"""A document about one target as text: what a run wrote down, and how it ended."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fullgraph.domain.phrases import SEPARATOR, amount
from fullgraph.engines import sentences
from fullgraph.render.guards import guards_text
from fullgraph.render.summary import probe_words
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    DocumentsWritten,
    Event,
    Failed,
    GuardsFound,
    Part,
    Restarted,
    RunId,
    TargetDone,
    TargetReport,
    TargetsFound,
)
from fullgraph_engine.protocol.documents import MOST_TEXT, DocumentKind, DocumentPart, SavedEvents

EXTENSIONS: dict[DocumentKind, str] = {
    "graph": "graph.py",
    "guards": "guards.txt",
    "events": "events.txt",
    "bytecode": "bytecode.txt",
}

TITLES: dict[DocumentKind, str] = {
    "graph": "graph code",
    "guards": "guards",
    "events": "shape events",
    "bytecode": "bytecode",
}

_ABOUT: dict[DocumentKind, str] = {
    "graph": "Graphs of `{target}`: what torch.compile captured, in this order",
    "guards": "Guards of `{target}`: what is checked before what was compiled is used again",
    "events": "Shape events of `{target}`: what was assumed of symbolic sizes, in this order",
    "bytecode": "Bytecode of `{target}`, function by function, before and after Dynamo",
}

_NOTHING: dict[DocumentKind, str] = {
    "graph": "No graph was captured.",
    "guards": "There are no guards.",
    "events": "No size was symbolic. Write one with a letter in the probe, as in `f32[b, 16]`.",
    "bytecode": "Dynamo compiled no function.",
}

OFF = "# fullgraph: off"
"""First line of what is Python: an editor that opens it must not trace it in turn."""


def document_request(request: Analyze, kind: DocumentKind) -> Analyze:
    """The request for a document, of one like those for findings."""
    # Only for sizes it matters what a second run, with first dimensions dynamic, does.
    wanted: tuple[Part, ...] = ("first", "second") if kind == "events" else ("first",)
    parts = tuple(part for part in wanted if part in request.parts)
    return dataclasses.replace(request, documents=(kind,), parts=parts)


@dataclass
class _Run:
    """What the last attempt of a run wrote."""

    attempt: str = ""
    parts: list[DocumentPart] = field(default_factory=list)


class Draft:
    """Takes the events of an analysis, and gives the document at any time."""

    def __init__(self, kind: DocumentKind, target: str, text: str = "") -> None:
        self.kind: DocumentKind = kind
        self.target = target
        self._text = text
        """The analyzed text, for the lines that guards come from."""
        self._guards: list[GuardsFound] = []
        self._runs: dict[RunId, _Run] = {}
        self._reports: list[TargetReport] = []
        self._known: tuple[str, ...] | None = None
        self._problem = ""
        self._ended = False

    def apply(self, event: Event) -> None:
        if isinstance(event, DocumentsWritten) and event.target == self.target:
            run = self._runs.setdefault(event.run, _Run())
            if run.attempt != event.attempt:
                run.attempt, run.parts = event.attempt, []
            run.parts += (part for part in event.documents if part.kind == self.kind)
        elif isinstance(event, GuardsFound) and event.target == self.target:
            self._guards.append(event)
        elif isinstance(event, TargetDone) and event.report.name == self.target:
            self._reports.append(event.report)
        elif isinstance(event, Restarted):
            self._guards, self._runs, self._reports = [], {}, []
        elif isinstance(event, TargetsFound):
            self._known = tuple(target.name for target in event.targets)
        elif isinstance(event, Failed):
            self._problem = sentences(event.reason, event.next_step)
        elif isinstance(event, Analyzed):
            self._ended = True
            if event.cancelled:
                self._problem = "It was cancelled before it was complete."

    @property
    def saved(self) -> tuple[SavedEvents, ...]:
        """Events that a later run can be compared with."""
        return tuple(
            SavedEvents(id_, part.number, part.archive)
            for id_ in sorted(self._runs)
            for part in self._runs[id_].parts
            if part.archive
        )

    @property
    def differs(self) -> bool:
        """Whether events are not those that they were compared with."""
        return any(part.differs for run in self._runs.values() for part in run.parts)

    @property
    def found(self) -> bool:
        """The text has such a target, as far as is known."""
        return self._known is None or self.target in self._known

    @property
    def written(self) -> bool:
        if self.kind == "guards":
            return bool(self._guards)
        return any(run.parts for run in self._runs.values())

    @property
    def complete(self) -> bool:
        """All that there is to say is said."""
        return not self.problem and not self._problem and not any(_trouble(self._reports))

    @property
    def problem(self) -> str:
        """Why there is nothing, in a sentence; empty if there is something, or all went well."""
        if self.written:
            return ""
        if self._problem:
            return self._problem
        if not self.found:
            return f"There is no target `{self.target}` in this file."
        return " ".join(_trouble(self._reports))

    def of(self, probe: int) -> Draft:
        """What there is of the run with one probe; of all, where there is none with it."""
        reports = [report for report in self._reports if report.probe_number == probe]
        if not reports:
            return self
        draft = Draft(self.kind, self.target, self._text)
        draft._guards = [found for found in self._guards if found.probe_number == probe]
        draft._runs = {id_: run for id_, run in self._runs.items() if id_.probe == probe}
        draft._reports = reports
        draft._known, draft._problem, draft._ended = self._known, self._problem, self._ended
        return draft

    def text(self, name: str) -> str:
        """The document; ``name`` is what the file is called in it."""
        lines: list[str] = []
        about = _ABOUT[self.kind].format(target=self.target)
        header = [f"{about}. From {name}."]
        header += (_facts(report) for report in self._reports if report.status != "no-probe")
        if self.kind == "graph":
            lines += [OFF, "", *(f"# {line}" for line in header)]
        else:
            lines += header
        size = 0
        for number, (label, part) in enumerate(self._parts()):
            if size > MOST_TEXT:
                lines += ["", self._comment(f"Only the first {number} parts are shown.")]
                break
            lines += ["", *label, *self._part(part)]
            size += len(part.text)
        if not self.written and not self.problem:
            lines += ["", self._comment(_NOTHING[self.kind])]
        for trouble in [self._problem] if self._problem else self._troubles():
            lines += ["", self._comment(trouble)]
        return "\n".join(lines) + "\n"

    def _troubles(self) -> list[str]:
        if not self.found:
            return [self.problem]
        return list(_trouble(self._reports, written=self.written))

    def _parts(self) -> Iterator[tuple[list[str], DocumentPart]]:
        """All parts, the first of each run with a line that tells it from others."""
        if self.kind == "guards":
            yield from self._guard_parts()
            return
        runs = [(id_, self._runs[id_]) for id_ in sorted(self._runs) if self._runs[id_].parts]
        for id_, run in runs:
            label = []
            if id_.part == "second":
                label = ["Tried again with first dimensions dynamic:", ""]
            elif len(runs) > 1 and runs[1][0].part != "second":
                label = [f"With probe {id_.probe + 1}:", ""]
            for part in run.parts:
                yield [self._comment(line) if line else "" for line in label], part
                label = []

    def _guard_parts(self) -> Iterator[tuple[list[str], DocumentPart]]:
        lines = re.split(r"\r\n|\r|\n", self._text)

        def line_of(line: int) -> str:
            return lines[line] if line < len(lines) else ""

        for number, found in enumerate(self._guards, 1):
            label = [f"With probe {number}:", ""] if len(self._guards) > 1 else []
            text = guards_text(found.unpack_frames(), found.note, line_of)
            yield label, DocumentPart("guards", "", _capped(text))

    def _part(self, part: DocumentPart) -> list[str]:
        body = part.text.rstrip("\n").split("\n")
        if self.kind == "graph":
            return ["", *body]
        if not part.title:
            return body
        return [part.title, "=" * min(100, len(part.title)), *body]

    def _comment(self, line: str) -> str:
        return f"# {line}" if self.kind == "graph" and line else line


def _capped(text: str) -> str:
    """Up to the end of the last line that there is room for."""
    if len(text) <= MOST_TEXT:
        return text
    kept = text[: text.rfind("\n", 0, MOST_TEXT) + 1]
    return f"{kept}\nOnly the first {MOST_TEXT:,} characters are shown.\n"


def _facts(report: TargetReport) -> str:
    facts = [probe_words(report.probe)] if report.probe is not None else []
    facts += [amount(report.graphs, "graph"), amount(report.ops, "op")]
    facts += [amount(report.breaks, "break"), f"{report.mode} tensors"]
    return SEPARATOR.join(facts)


def _trouble(reports: list[TargetReport], *, written: bool = False) -> Iterator[str]:
    """How runs ended that did not end well, each in a sentence."""
    for report in reports:
        if report.status == "no-probe":
            yield (
                f"`{report.name}` is not traced, no inputs are known: "
                "write a probe comment above it, as in `# fullgraph: f32[4, 16]`."
            )
        elif report.status != "traced":
            error = (report.error or report.status).strip().split("\n", 1)[0].rstrip(".")
            before = "The run did not end well, so something may be missing" if written else ""
            yield f"{before}: {error}." if before else f"The run did not end well: {error}."
