"""Build a document about one traced function (its graphs, guards, events or bytecode) from the
events of its runs."""

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
    "guards": "Guards of `{target}`: conditions that are checked before compiled code is used "
    "again",
    "events": "Shape events of `{target}`: assumptions about symbolic sizes, in this order",
    "bytecode": "Bytecode of `{target}`, function by function, before and after Dynamo",
}

_NOTHING: dict[DocumentKind, str] = {
    "graph": "No graph was captured.",
    "guards": "There are no guards.",
    "events": "No size was symbolic. Write one with a letter in the probe, as in `f32[b, 16]`.",
    "bytecode": "Dynamo compiled no function.",
}

OFF_COMMENT = "# fullgraph: off"
"""First line of documents in Python, which prevents that fullgraph traces the document when an
editor opens it.
"""


def document_request(request: Analyze, kind: DocumentKind) -> Analyze:
    """Convert a request to find problems in a file to a request for a document of one kind."""
    # Phase "second" of a trace makes the first dimensions dynamic. Only the document with shape
    # events shows this.
    wanted: tuple[Part, ...] = ("first", "second") if kind == "events" else ("first",)
    parts = tuple(part for part in wanted if part in request.parts)
    return dataclasses.replace(request, documents=(kind,), parts=parts)


@dataclass
class _RunParts:
    """Pieces of a document that one run wrote. If the run was repeated, only the pieces of the last
    repetition are kept.
    """

    attempt: str = ""
    parts: list[DocumentPart] = field(default_factory=list)


class DocumentDraft:
    """A document about one traced function (target), built from the engine's events received so
    far."""

    def __init__(self, kind: DocumentKind, target: str, text: str = "") -> None:
        self.kind: DocumentKind = kind
        self.target = target
        self._text = text
        """Text of the analyzed file, to quote the lines that caused guards."""
        self._guards: list[GuardsFound] = []
        self._runs: dict[RunId, _RunParts] = {}
        self._reports: list[TargetReport] = []
        self._known: tuple[str, ...] | None = None
        self._problem = ""
        self._ended = False

    def apply_event(self, event: Event) -> None:
        if isinstance(event, DocumentsWritten) and event.target == self.target:
            run = self._runs.setdefault(event.run, _RunParts())
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
        """Saved symbolic shape events of the runs, with which the engine can compare the events of
        a later run.
        """
        return tuple(
            SavedEvents(id_, part.number, part.archive)
            for id_ in sorted(self._runs)
            for part in self._runs[id_].parts
            if part.archive
        )

    @property
    def differs(self) -> bool:
        """Whether the shape events of a run differ from saved events of an earlier run, if they
        were compared.
        """
        return any(part.differs for run in self._runs.values() for part in run.parts)

    @property
    def found(self) -> bool:
        """Whether the file has the function that the document is about; True until the engine has
        listed the functions."""
        return self._known is None or self.target in self._known

    @property
    def written(self) -> bool:
        if self.kind == "guards":
            return bool(self._guards)
        return any(run.parts for run in self._runs.values())

    @property
    def complete(self) -> bool:
        """Whether all runs of the function were traced without an error and without being
        cancelled."""
        return not self.problem and not self._problem and not any(_run_troubles(self._reports))

    @property
    def problem(self) -> str:
        """Sentence that explains why the document is empty; an empty string if it has content or no
        error is known.
        """
        if self.written:
            return ""
        if self._problem:
            return self._problem
        if not self.found:
            return f"There is no target `{self.target}` in this file."
        return " ".join(_run_troubles(self._reports))

    def for_probe(self, probe: int) -> DocumentDraft:
        """Return a document that only covers the run with the example inputs number ``probe``,
        counted from 0.

        If no run used these inputs, return the whole document.
        """
        reports = [report for report in self._reports if report.probe_number == probe]
        if not reports:
            return self
        draft = DocumentDraft(self.kind, self.target, self._text)
        draft._guards = [found for found in self._guards if found.probe_number == probe]
        draft._runs = {id_: run for id_, run in self._runs.items() if id_.probe == probe}
        draft._reports = reports
        draft._known, draft._problem, draft._ended = self._known, self._problem, self._ended
        return draft

    def build_text(self, name: str) -> str:
        """Return the text of the document; its header mentions the analyzed file by ``name``."""
        lines: list[str] = []
        about = _ABOUT[self.kind].format(target=self.target)
        header = [f"{about}. From {name}."]
        header += (_report_facts(report) for report in self._reports if report.status != "no-probe")
        if self.kind == "graph":
            lines += [OFF_COMMENT, "", *(f"# {line}" for line in header)]
        else:
            lines += header
        size = 0
        for number, (label, part) in enumerate(self._labeled_parts()):
            if size > MOST_TEXT:
                lines += ["", self._comment_line(f"Only the first {number} parts are shown.")]
                break
            lines += ["", *label, *self._part_lines(part)]
            size += len(part.text)
        if not self.written and not self.problem:
            lines += ["", self._comment_line(_NOTHING[self.kind])]
        for trouble in [self._problem] if self._problem else self._list_troubles():
            lines += ["", self._comment_line(trouble)]
        return "\n".join(lines) + "\n"

    def _list_troubles(self) -> list[str]:
        if not self.found:
            return [self.problem]
        return list(_run_troubles(self._reports, written=self.written))

    def _labeled_parts(self) -> Iterator[tuple[list[str], DocumentPart]]:
        """Yield (label lines, piece) for all pieces of the document. If there are several runs, the
        first piece of each has a label."""
        if self.kind == "guards":
            yield from self._guard_parts()
            return
        runs = [(id_, self._runs[id_]) for id_ in sorted(self._runs) if self._runs[id_].parts]
        for id_, run in runs:
            label = []
            if id_.part == "second":
                label = ["Second trace, with dynamic first dimensions:", ""]
            elif len(runs) > 1 and runs[1][0].part != "second":
                label = [f"With probe {id_.probe + 1}:", ""]
            for part in run.parts:
                yield [self._comment_line(line) if line else "" for line in label], part
                label = []

    def _guard_parts(self) -> Iterator[tuple[list[str], DocumentPart]]:
        lines = re.split(r"\r\n|\r|\n", self._text)

        def line_of(line: int) -> str:
            return lines[line] if line < len(lines) else ""

        for number, found in enumerate(self._guards, 1):
            label = [f"With probe {number}:", ""] if len(self._guards) > 1 else []
            text = guards_text(found.unpack_frames(), found.note, line_of)
            yield label, DocumentPart("guards", "", _cap_text(text))

    def _part_lines(self, part: DocumentPart) -> list[str]:
        body = part.text.rstrip("\n").split("\n")
        if self.kind == "graph":
            return ["", *body]
        if not part.title:
            return body
        return [part.title, "=" * min(100, len(part.title)), *body]

    def _comment_line(self, line: str) -> str:
        return f"# {line}" if self.kind == "graph" and line else line


def _cap_text(text: str) -> str:
    """Cut a text after the last line that fits into ``MOST_TEXT`` characters, and add a note about
    the cut."""
    if len(text) <= MOST_TEXT:
        return text
    beginning = text[: text.rfind("\n", 0, MOST_TEXT) + 1]
    return f"{beginning}\nOnly the first {MOST_TEXT:,} characters are shown.\n"


def _report_facts(report: TargetReport) -> str:
    facts = [probe_words(report.probe)] if report.probe is not None else []
    facts += [amount(report.graphs, "graph"), amount(report.ops, "op")]
    facts += [amount(report.breaks, "break"), f"{report.mode} tensors"]
    return SEPARATOR.join(facts)


def _run_troubles(reports: list[TargetReport], *, written: bool = False) -> Iterator[str]:
    """Yield a sentence for each run that failed or did not have inputs. ``written`` is true if the
    document has content."""
    for report in reports:
        if report.status == "no-probe":
            yield (
                f"`{report.name}` is not traced, fullgraph doesn't know its inputs: "
                "write a probe comment above it, as in `# fullgraph: f32[4, 16]`."
            )
        elif report.status != "traced":
            error = (report.error or report.status).strip().split("\n", 1)[0].rstrip(".")
            before = "The run failed, so something may be missing" if written else ""
            yield f"{before}: {error}." if before else f"The run failed: {error}."
