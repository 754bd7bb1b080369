"""Documents that somebody reads: asked of the engine when they are opened, and not before."""

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
"""Documents that are kept for being opened again."""


@dataclass(frozen=True)
class DocumentKey:
    """A document about a target of a text that is open."""

    uri: str
    kind: DocumentKind
    target: str


Shown = Callable[[DocumentKey, Callable[[], None]], Callable[[], None]]
"""Shows that a document is being written; given a way to cancel, it returns one to end that."""


@dataclass
class _Written:
    """A document that is being written, or was."""

    basis: object
    task: asyncio.Task[Draft | str]
    readers: int = 0


class DocumentService:
    """Documents by wish. Runs of their own, one at a time, beside those that find findings."""

    def __init__(self, session: Session, shown: Shown) -> None:
        self._session = session
        self._shown = shown
        self._written: dict[DocumentKey, _Written] = {}
        self._turn = asyncio.Lock()

    async def text(
        self, unit: Unit, kind: DocumentKind, target: str, probe: int | None = None
    ) -> str:
        """The document of the text as it is now. If the text changes meanwhile, of the new one.

        About the run with one probe, by its number, or about all of them. Cancelling the last
        reader ends the run.
        """
        await self._session.configured()
        found: Draft | str | None = _known_guards(unit, target) if kind == "guards" else None
        if found is None:
            found = await self._read(unit, DocumentKey(unit.document.uri, kind, target))
        if isinstance(found, str):
            return found
        return (found if probe is None else found.of(probe)).text(short_name(unit))

    async def _read(self, unit: Unit, wish: DocumentKey) -> Draft | str:
        """A document, or why there is none."""
        while True:
            written = self._begun(unit, wish)
            written.readers += 1
            try:
                return await asyncio.shield(written.task)
            except asyncio.CancelledError:
                # Either this reader was cancelled, or the text that it reads of is gone: edited, or
                # closed, though one of its name may have been opened since.
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
        """A run of the text has ended: what it depends on may be other than it was."""
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
        # First the new one: whoever waits for the old one looks for it.
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
    """The guards as the last run has told them, if that was of the text as it is now, and went
    through: else they may be of the run before."""
    shown = [one for one in unit.reports() if one.report.name == target]
    guards = unit.results.told(target).guards
    # One telling for each probe: otherwise it is not sure which belongs to which.
    traced = all(one.current and one.report.status == "traced" for one in shown)
    if guards is None or not traced or len(shown) != len(guards.told):
        return None
    draft = Draft("guards", target, unit.document.text)
    for one, told in zip(shown, guards.told, strict=True):
        draft.apply(told)
        draft.apply(TargetDone(0, one.report))
    return draft


def short_name(unit: Unit) -> str:
    """What a document calls the file that it is about."""
    return unit.document.name.rsplit("/", 1)[-1]


def _lost(task: asyncio.Task[Draft | str]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
