"""Measure targets for a client: in eager mode, compiled, and compiled with the fixes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fullgraph import fixes
from fullgraph.lsp.connection import Connection
from fullgraph.lsp.document_service import short_name
from fullgraph.lsp.progress import Progress
from fullgraph.lsp.virtual_documents import VirtualDocuments
from fullgraph.session.analysis_unit import Unit
from fullgraph.session.session import MessageLevel, Session

if TYPE_CHECKING:
    from fullgraph.fixes.measuring import Timed


class Measures:
    """Runs the measurements of one client one at a time, because they would slow each other
    down."""

    def __init__(
        self,
        connection: Connection,
        session: Session,
        progress: Progress,
        documents: VirtualDocuments,
    ) -> None:
        self._connection = connection
        self._session = session
        self._progress = progress
        self._documents = documents
        self._one = asyncio.Lock()
        self._tasks: dict[asyncio.Task[tuple[Timed, ...]], str] = {}
        """Measurements that are running or waiting, with the URI of their file."""

    async def show(self, unit: Unit, target: str) -> dict[str, Any]:
        """Measure targets and open a document with the results, which takes minutes.

        Without a name it measures the targets of the file that no other target calls. Cancelling
        the request or its progress ends the measurement.
        """
        reports = [shown.report for shown in unit.reports() if target in ("", shown.report.name)]
        if not any(report.status == "traced" for report in reports):
            why = f"`{target}` was not" if target else f"no target of {short_name(unit)} was"
            return self._refused(f"There is nothing to measure: {why} traced.")
        engine = self._session.engine_on_demand(unit)
        if isinstance(engine, str):
            return self._refused(engine)
        request = self._session.request(unit, (target,) if target else ())

        async def work() -> tuple[Timed, ...]:
            async with self._one:
                await fixes.load()
                from fullgraph.fixes.measuring import measured

                return await measured(engine, request, reports, lambda name: bar.say(name, 0))

        def end() -> None:
            task.cancel()

        bar = self._progress.job(f"Measuring {target or short_name(unit)}", end)
        task = asyncio.create_task(work())
        self._tasks[task] = unit.document.uri
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            del self._tasks[task]
            bar.end()
        if task.cancelled():
            return {"shown": False, "reason": "Cancelled."}
        return await self._documents.show_measured(unit, request.text, task.result())

    def cancel(self, uri: str) -> None:
        """Cancel the measurements of a file, or all measurements if ``uri`` is empty."""
        for task, of in self._tasks.items():
            if uri in ("", of):
                task.cancel()

    def _refused(self, reason: str) -> dict[str, Any]:
        self._connection.show_message(MessageLevel.WARNING, reason)
        return {"shown": False, "reason": reason}
