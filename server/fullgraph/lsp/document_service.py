"""Documents about traced functions (graphs, guards, events, bytecode), which the engine writes on
request."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fullgraph.render.documents import DocumentDraft, document_request
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.session import Session
from fullgraph_engine.protocol import GuardsFound, TargetDone
from fullgraph_engine.protocol.documents import DocumentKind

_MOST_KEPT = 8
"""Maximum number of cached documents, which can be opened again without tracing."""


@dataclass(frozen=True)
class DocumentKey:
    """Identifies a document about a function of an open file: the file's URI, the kind of document,
    the function's name."""

    uri: str
    kind: DocumentKind
    target: str


ShowProgress = Callable[[DocumentKey, Callable[[], None]], Callable[[], None]]
"""Callback that shows progress while a document is written.

Its second argument is a function that cancels the writing. It returns a function that removes the
progress.
"""


@dataclass
class _DocumentRun:
    """A trace that writes a document.

    ``inputs`` (text and settings) tell whether the document is still current. ``readers`` counts
    the requests that wait for it.
    """

    inputs: object
    task: asyncio.Task[DocumentDraft | str]
    readers: int = 0


class DocumentService:
    """Writes each document in a trace of its own, one at a time, and caches the documents."""

    def __init__(self, session: Session, show_progress: ShowProgress) -> None:
        self._session = session
        self._show_progress = show_progress
        self._runs: dict[DocumentKey, _DocumentRun] = {}
        self._lock = asyncio.Lock()

    async def read_text(
        self, unit: AnalysisUnit, kind: DocumentKind, target: str, probe: int | None = None
    ) -> str:
        """Return the text of a document about the current text of a file; if the text changes
        meanwhile, about the new text.

        ``probe`` selects the trace with the inputs of this number; without it the document has the
        traces with all inputs. Cancelling the last waiting request cancels the trace.
        """
        await self._session.permission.configured.wait()
        found: DocumentDraft | str | None = (
            _known_guards(unit, target) if kind == "guards" else None
        )
        if found is None:
            found = await self._read_draft(unit, DocumentKey(unit.document.uri, kind, target))
        if isinstance(found, str):
            return found
        return (found if probe is None else found.for_probe(probe)).build_text(short_name(unit))

    async def _read_draft(self, unit: AnalysisUnit, key: DocumentKey) -> DocumentDraft | str:
        """Return the content of a generated document, such as graph code; or a sentence that
        explains why fullgraph could not write it."""
        while True:
            run = self._find_or_start(unit, key)
            run.readers += 1
            try:
                return await asyncio.shield(run.task)
            except asyncio.CancelledError:
                # Try again if a newer run has replaced this one because the text was edited.
                # Otherwise this request was cancelled, or the file was closed.
                is_open = self._session.files.units.get(unit.document.uri) is unit
                superseded = is_open and self._runs.get(key, run) is not run
                if not (superseded and run.task.cancelled()):
                    if run.readers == 1 and not run.task.done():
                        run.task.cancel()
                        self._remove_run(key, run)
                    raise
            finally:
                run.readers -= 1

    def discard_finished(self, uri: str) -> None:
        """Discard the finished documents of a file because a new trace of the file has ended."""
        for key, run in list(self._runs.items()):
            if key.uri == uri and run.task.done():
                del self._runs[key]

    def discard_file(self, uri: str) -> None:
        for key, run in list(self._runs.items()):
            if key.uri == uri:
                run.task.cancel()
                self._remove_run(key, run)

    def _find_or_start(self, unit: AnalysisUnit, key: DocumentKey) -> _DocumentRun:
        inputs = self._current_inputs(unit)
        known = self._runs.get(key)
        if known is not None and known.inputs == inputs and not _has_failed(known.task):
            return known
        run = _DocumentRun(inputs, asyncio.create_task(self._write_draft(unit, key)))
        # Store the new document first: requests that wait for the old document look it up.
        self._runs.pop(key, None)
        self._runs[key] = run
        if known is not None:
            known.task.cancel()
        done = [old for old, other in self._runs.items() if other.task.done()]
        for old in done[: max(0, len(self._runs) - _MOST_KEPT)]:
            del self._runs[old]
        return run

    def _current_inputs(self, unit: AnalysisUnit) -> object:
        return unit.document.hash, self._session.workspace.settings(unit.document).tracing_key()

    def _remove_run(self, key: DocumentKey, run: _DocumentRun) -> None:
        if self._runs.get(key) is run:
            del self._runs[key]

    async def _write_draft(self, unit: AnalysisUnit, key: DocumentKey) -> DocumentDraft | str:
        async with self._lock:
            engine = self._session.engines.engine_on_demand(unit)
            if isinstance(engine, str):
                return f"{engine}\n"
            request = self._session.files.build_request(unit, (key.target,))
            draft = DocumentDraft(key.kind, key.target, request.text)
            request = document_request(request, key.kind)
            analysis = engine.analyze(dataclasses.replace(request, jobs=1))
            with self._progress_bar(key, analysis.cancel):
                try:
                    async for event in analysis:
                        draft.apply_event(event)
                finally:
                    analysis.cancel()
        return draft

    @contextlib.contextmanager
    def _progress_bar(self, key: DocumentKey, cancel: Callable[[], None]) -> Iterator[None]:
        end = self._show_progress(key, cancel)
        try:
            yield
        finally:
            end()


def _known_guards(unit: AnalysisUnit, target: str) -> DocumentDraft | None:
    """Return a document with the guards that the last trace of the file reported; None if they may
    be incomplete or outdated."""
    shown = [
        shown_report for shown_report in unit.view.reports() if shown_report.report.name == target
    ]
    guards = unit.results.target_details(target).guards
    # Without a report for each set of inputs, it is unknown to which inputs a guard belongs.
    traced = all(
        shown_report.current and shown_report.report.status == "traced" for shown_report in shown
    )
    if guards is None or not traced or len(shown) != len(guards.current.runs):
        return None
    draft = DocumentDraft("guards", target, unit.document.text)
    for shown_report, run in zip(shown, guards.current.runs, strict=True):
        draft.apply_event(
            GuardsFound.from_frames(0, target, run.frames, run.note, run.probe_number)
        )
        draft.apply_event(TargetDone(0, shown_report.report))
    return draft


def short_name(unit: AnalysisUnit) -> str:
    """Return the file name that documents display."""
    return unit.document.name.rsplit("/", 1)[-1]


def _has_failed(task: asyncio.Task[DocumentDraft | str]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
