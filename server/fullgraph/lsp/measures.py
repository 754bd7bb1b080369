"""Measure functions for a client: in eager mode, compiled, and compiled with the fixes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from fullgraph import fixes
from fullgraph.fixes.candidate import edits_between
from fullgraph.lsp.connection import ClientConnection
from fullgraph.lsp.document_service import short_name
from fullgraph.lsp.places import workspace_edit
from fullgraph.lsp.progress import ClientProgress
from fullgraph.lsp.virtual_documents import VirtualDocuments
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.fix_jobs import FixJobs
from fullgraph.session.listener import MessageLevel
from fullgraph.session.session import Session
from fullgraph.session.unit_events import Reason

if TYPE_CHECKING:
    from fullgraph.fixes.fixing import Fixed
    from fullgraph.fixes.measuring import Timed


class _TextEdited(Exception):
    """Raised if the text was edited during the search for its fixes, so that they cannot be
    applied."""


class Measures:
    """Runs the measurements that one client requests, one at a time, because they would slow each
    other down."""

    def __init__(
        self,
        connection: ClientConnection,
        session: Session,
        progress: ClientProgress,
        documents: VirtualDocuments,
        fixes: FixJobs,
    ) -> None:
        self._connection = connection
        self._session = session
        self._progress = progress
        self._documents = documents
        self._fixes = fixes
        self._lock = asyncio.Lock()
        self._tasks: dict[asyncio.Task[tuple[Timed, ...]], str] = {}
        """Tasks of running and waiting measurements, with the URI of the measured file."""

    async def show_measurements(self, unit: AnalysisUnit, target: str) -> dict[str, Any]:
        """Measure a function and open a document with the results, which takes minutes.

        If ``target`` is empty, it measures all traced functions of the file that no other traced
        function calls. Cancelling the request or its progress bar ends the measurement.
        """
        reports = [
            shown.report for shown in unit.view.reports() if target in ("", shown.report.name)
        ]
        if refusal := self._session.permission.explain_refusal(unit, Reason.ASKED):
            return self._refuse(refusal)
        traced = [report for report in reports if report.status == "traced"]
        if not traced:
            why = f"`{target}` was not" if target else f"no target of {short_name(unit)} was"
            return self._refuse(f"There is nothing to measure: {why} traced.")
        reports = [report for report in traced if not report.needs_program]
        if not reports:
            return self._refuse(
                f"Cannot measure {target or short_name(unit)}: only programs run this code, and "
                "measuring does not run programs. Move the code to the top level of the file, with "
                "a probe comment above it."
            )
        engine = self._session.engines.engine_on_demand(unit)
        if isinstance(engine, str):
            return self._refuse(engine)
        request = self._session.files.build_request(unit, (target,) if target else ())

        def report_progress(words: str) -> None:
            progress_bar.report(words, 0)

        async def find_fixes() -> Fixed:
            from fullgraph.fixes.fixing import fixed_with

            names = [report.name for report in reports]
            found = await self._fixes.wait_for_fixes(unit, names, report_progress)
            if found is None or unit.document.text != request.text:
                raise _TextEdited
            return await fixed_with(engine, request, found.findings, found.fixes, report_progress)

        async def run_measurement() -> tuple[Timed, ...]:
            async with self._lock:
                with self._fixes.reserve(unit):
                    await fixes.load()
                    from fullgraph.fixes.measuring import measured

                    return await measured(engine, request, reports, report_progress, find_fixes)

        def cancel_task() -> None:
            task.cancel()

        progress_bar = self._progress.start_job(
            f"Measuring {target or short_name(unit)}", cancel_task
        )
        task = asyncio.create_task(run_measurement())
        self._tasks[task] = unit.document.uri
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            del self._tasks[task]
            progress_bar.end()
        if task.cancelled():
            return {"shown": False, "reason": "Cancelled."}
        if isinstance(task.exception(), _TextEdited):
            return self._refuse("The text was edited meanwhile. Measure it again.")
        shown = await self._documents.show_measured(unit, request.text, task.result())
        if self._session.client.code_lens_refresh:
            self._connection.request_in_background(types.WORKSPACE_CODE_LENS_REFRESH, None)
        return shown

    async def apply_fixes(self, unit: AnalysisUnit, target: str) -> dict[str, Any]:
        """Apply the fixes with which a function was measured, as one edit that one undo reverts.

        Refuse it with a message if the text was edited since, or the client cannot apply edits.
        """
        improved = [one for one in self._documents.find_measurements(unit, target) if one.fixes]
        if not improved:
            return self._refuse("The text was edited after it was measured. Measure it again.")
        if not self._session.client.apply_edit:
            return self._refuse("This editor cannot apply edits of a language server.")
        edits = edits_between(unit.document.text, improved[0].changed)
        params = types.ApplyWorkspaceEditParams(
            workspace_edit(self._session.client, unit.document, edits),
            label=f"Apply fixes to {target or short_name(unit)}",
        )
        try:
            result = await self._connection.request(types.WORKSPACE_APPLY_EDIT, params)
        except JsonRpcException as error:
            return self._refuse(f"The fixes were not applied: {error.message}.")
        return {"applied": bool(getattr(result, "applied", False))}

    def cancel(self, uri: str) -> None:
        """Cancel the measurements of a file, or all measurements if ``uri`` is empty."""
        for task, file_uri in self._tasks.items():
            if uri in ("", file_uri):
                task.cancel()

    def _refuse(self, reason: str) -> dict[str, Any]:
        self._connection.show_message(MessageLevel.WARNING, reason)
        return {"shown": False, "reason": reason}
