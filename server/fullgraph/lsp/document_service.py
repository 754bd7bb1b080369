"""Documents about targets, which the engine writes when a reader opens them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fullgraph.render.documents import Draft, document_request
from fullgraph.session.analysis_unit import Unit
from fullgraph.session.session import Session
from fullgraph_engine.protocol import TargetDone
from fullgraph_engine.protocol.documents import DocumentKind

_MOST_KEPT = 8
"""Maximum number of documents that are cached after their readers have gone."""


@dataclass(frozen=True)
class DocumentKey:
    """Identifies a document about a target of an open file."""

    uri: str
    kind: DocumentKind
    target: str


Shown = Callable[[DocumentKey, Callable[[], None]], Callable[[], None]]
"""Callback that shows progress while a document is written.

It gets a function that cancels the writing, and returns a function that removes the progress.
"""


@dataclass
class _Written:
    """A document that is being written or was written, and how many requests wait for it."""

    basis: object
    task: asyncio.Task[Draft | str]
    readers: int = 0


class DocumentService:
    """Writes documents in engine runs of their own, one at a time, and caches them."""

    def __init__(self, session: Session, shown: Shown) -> None:
        self._session = session
        self._shown = shown
        self._written: dict[DocumentKey, _Written] = {}
        self._turn = asyncio.Lock()

    async def text(
        self, unit: Unit, kind: DocumentKind, target: str, probe: int | None = None
    ) -> str:
        """Return a document about the current text; if the text changes meanwhile, about the new
        text.

        ``probe`` selects the run with that probe; without it the document has all runs. Cancelling
        the last waiting request cancels the engine run.
        """
        await self._session.configured()
        found: Draft | str | None = _known_guards(unit, target) if kind == "guards" else None
        if found is None:
            found = await self._read(unit, DocumentKey(unit.document.uri, kind, target))
        if isinstance(found, str):
            return found
        return (found if probe is None else found.of(probe)).text(short_name(unit))

    async def _read(self, unit: Unit, wish: DocumentKey) -> Draft | str:
        """Return a document, or a sentence that explains why there is none."""
        while True:
            written = self._begun(unit, wish)
            written.readers += 1
            try:
                return await asyncio.shield(written.task)
            except asyncio.CancelledError:
                # Either this request was cancelled, or the document that it waits for was: the text
                # was edited, or closed and possibly opened again.
                is_open = self._session.units.get(unit.document.uri) is unit
                superseded = is_open and self._written.get(wish, written) is not written
                if not (superseded and written.task.cancelled()):
                    if written.readers == 1 and not written.task.done():
                        written.task.cancel()
                        self._forget(wish, written)
                    raise
            finally:
                written.readers -= 1

    def changed(self, uri: str) -> None:
        """Discard the finished documents of a file because a new run of it has ended."""
        for wish, written in list(self._written.items()):
            if wish.uri == uri and written.task.done():
                del self._written[wish]

    def closed(self, uri: str) -> None:
        for wish, written in list(self._written.items()):
            if wish.uri == uri:
                written.task.cancel()
                self._forget(wish, written)

    def _begun(self, unit: Unit, wish: DocumentKey) -> _Written:
        basis = self._basis(unit)
        known = self._written.get(wish)
        if known is not None and known.basis == basis and not _lost(known.task):
            return known
        written = _Written(basis, asyncio.create_task(self._write(unit, wish)))
        # Store the new document first: requests that wait for the old one look it up.
        self._written.pop(wish, None)
        self._written[wish] = written
        if known is not None:
            known.task.cancel()
        done = [old for old, one in self._written.items() if one.task.done()]
        for old in done[: max(0, len(self._written) - _MOST_KEPT)]:
            del self._written[old]
        return written

    def _basis(self, unit: Unit) -> object:
        return unit.document.hash, self._session.settings(unit).tracing()

    def _forget(self, wish: DocumentKey, written: _Written) -> None:
        if self._written.get(wish) is written:
            del self._written[wish]

    async def _write(self, unit: Unit, wish: DocumentKey) -> Draft | str:
        async with self._turn:
            engine = self._session.engine_on_demand(unit)
            if isinstance(engine, str):
                return f"{engine}\n"
            request = self._session.request(unit, (wish.target,))
            draft = Draft(wish.kind, wish.target, request.text)
            request = document_request(request, wish.kind)
            analysis = engine.analyze(dataclasses.replace(request, jobs=1))
            with self._bar(wish, analysis.cancel):
                try:
                    async for event in analysis:
                        draft.apply(event)
                finally:
                    analysis.cancel()
        return draft

    @contextlib.contextmanager
    def _bar(self, wish: DocumentKey, cancel: Callable[[], None]) -> Iterator[None]:
        end = self._shown(wish, cancel)
        try:
            yield
        finally:
            end()


def _known_guards(unit: Unit, target: str) -> Draft | None:
    """Return the guards that the last run reported, or None if they may be incomplete or
    outdated."""
    shown = [one for one in unit.reports() if one.report.name == target]
    guards = unit.results.told(target).guards
    # Without one report for each probe, guards cannot be assigned to their probes.
    traced = all(one.current and one.report.status == "traced" for one in shown)
    if guards is None or not traced or len(shown) != len(guards.told):
        return None
    draft = Draft("guards", target, unit.document.text)
    for one, told in zip(shown, guards.told, strict=True):
        draft.apply(told)
        draft.apply(TargetDone(0, one.report))
    return draft


def short_name(unit: Unit) -> str:
    """Return the file's name as documents show it."""
    return unit.document.name.rsplit("/", 1)[-1]


def _lost(task: asyncio.Task[Draft | str]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
