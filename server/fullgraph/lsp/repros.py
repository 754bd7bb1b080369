"""Make repros (small scripts that reproduce a finding) for a client: open scripts, report outcomes,
write issues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from fullgraph.domain.findings import FileFinding, find_by_id
from fullgraph.domain.repro import ReductionState
from fullgraph.engines import sentences
from fullgraph.lsp.connection import ClientConnection
from fullgraph.lsp.places import range_in
from fullgraph.lsp.progress import ClientProgress, JobBar
from fullgraph.lsp.server_capabilities import COPY_ISSUE
from fullgraph.render.repro import issue_text, outcome_words, reduction_words
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.listener import MessageLevel
from fullgraph.session.repro import (
    findings_on_line,
    is_reproducible,
    rank_by_severity,
    wanted_of_target,
)
from fullgraph.session.repro_files import ReproUnwritable, write_repro
from fullgraph.session.repro_jobs import Bar, MadeRepro, ReproJobs
from fullgraph.session.session import Session
from fullgraph_engine.protocol import Reproduce, TargetInfo, Wanted
from fullgraph_engine.protocol.repro import Backend

BACKENDS: tuple[Backend, ...] = ("eager", "aot_eager", "inductor")


class Repros:
    """Commands of one client that make a repro script or the text of an issue."""

    def __init__(
        self, connection: ClientConnection, session: Session, progress: ClientProgress
    ) -> None:
        self._connection = connection
        self._session = session
        self._progress = progress
        self.jobs = ReproJobs(session, self._create_bar)

    async def emit_script(self, unit: AnalysisUnit, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Make the script that an argument of a command describes, and open it. The answer contains
        the text if the client cannot open documents."""
        wanted, item = find_wanted(unit, argument)

        async def make_script() -> dict[str, Any]:
            return await self._show_script(await self.jobs.make_repro(unit, wanted, item))

        return await self._await_result(make_script())

    async def emit_issue(self, uri: str, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Return or save the text of an issue about a finding, or about the open repro script with
        the URI ``uri``.

        ``argument`` describes the finding. Clients with a clipboard command get the text; for other
        clients it is saved as a file.
        """
        unit = self._session.files.units.get(uri)
        repro = self.jobs.find_at_path(unit.document.path) if unit is not None else None
        if repro is not None and "line" not in argument:
            return await self._show_issue(repro)
        if unit is None:
            raise JsonRpcInvalidParams("Name the file by its URI; it must be open and in Python.")
        wanted, item = find_wanted(unit, argument)

        async def make_issue() -> dict[str, Any]:
            return await self._show_issue(await self.jobs.make_repro(unit, wanted, item))

        return await self._await_result(make_issue())

    async def _await_result(self, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Return the result of ``work``. If the client cancels its request, the reduction ends with
        its best script so far."""
        task = asyncio.create_task(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # Cancelling the task ends the reduction; the task still delivers the best script.
            task.cancel()
            self._connection.run_in_background(_wait_for_end(task))
            raise

    async def _show_script(self, repro: MadeRepro) -> dict[str, Any]:
        outcome, kept = repro.outcome, repro.kept
        answer: dict[str, Any] = {
            "verified": outcome.verified,
            "lines": outcome.found.lines if outcome.found is not None else None,
            "reason": repro.reason,
        }
        if outcome.found is None:
            self._connection.show_message(
                MessageLevel.WARNING, sentences("There is no repro", repro.reason)
            )
            return answer
        words = sentences(outcome_words(outcome), repro.reason)
        if kept is not None:
            uri: str | None = kept.path.as_uri()
            shown = await self._show_unfocused(kept.path.as_uri())
        else:
            uri = await self._open_unsaved(f"{repro.name}.py", outcome.found.script)
            shown = uri is not None
            answer["text"] = outcome.found.script
        place = "" if shown or kept is None else f"The script is in {kept.path}."
        words = sentences(outcome_words(outcome), place, repro.reason)
        quiet = shown and not repro.reason
        if quiet:
            self._connection.log(f"{uri}: {words}")
        else:
            self._connection.show_message(
                MessageLevel.WARNING if repro.reason else MessageLevel.INFORMATION, words
            )
        return {**answer, "uri": uri, "shown": shown}

    async def _show_issue(self, repro: MadeRepro) -> dict[str, Any]:
        if repro.outcome.found is None:
            self._connection.show_message(
                MessageLevel.WARNING, sentences("There is no repro", repro.reason)
            )
            return {"reason": repro.reason}
        text = issue_text(repro.outcome)
        answer: dict[str, Any] = {"text": text, "reason": repro.reason}
        if COPY_ISSUE in self._session.client.commands:
            return answer
        folder = repro.kept.path.parent if repro.kept is not None else repro.folder
        name = repro.kept.path.stem if repro.kept is not None else repro.name
        try:
            kept = write_repro(folder, name, ".md", text, unversioned=True)
        except ReproUnwritable as error:
            uri = await self._open_unsaved(f"{name}.md", text)
            self._connection.show_message(MessageLevel.WARNING, str(error))
            return {**answer, "uri": uri, "shown": uri is not None}
        shown = await self._show_unfocused(kept.path.as_uri())
        if kept.remark or not shown:
            words = kept.remark or f"The text of the issue is in {kept.path}."
            self._connection.show_message(MessageLevel.INFORMATION, words)
        return {**answer, "uri": kept.path.as_uri(), "shown": shown}

    async def _show_unfocused(self, uri: str) -> bool:
        """Open a document without moving the focus to it, because the user may be editing another
        text."""
        return await self._connection.show_document(uri, self._session.client, focus=False)

    async def _open_unsaved(self, name: str, text: str) -> str | None:
        """Open a new unsaved document; return its URI, or None if the client cannot create one."""
        if not self._session.client.apply_edit:
            return None
        uri = f"untitled:{name}"
        start = types.Position(0, 0)
        insertion = types.TextEdit(types.Range(start, start), text)
        edit = types.WorkspaceEdit(changes={uri: [insertion]})
        params = types.ApplyWorkspaceEditParams(edit, label="Minimal repro")
        try:
            result = await self._connection.request(types.WORKSPACE_APPLY_EDIT, params)
        except JsonRpcException:
            return None
        if not getattr(result, "applied", False):
            return None
        await self._show_unfocused(uri)
        return uri

    def _create_bar(self, request: Reproduce, cancel: Callable[[], None]) -> Bar:
        wanted = request.wanted
        what = wanted.backend or wanted.code.rpartition("/")[2]
        bar = self._progress.start_job(f"Reducing {what} of {wanted.target}", cancel, kind="repro")
        return _ReductionBar(bar)


class _ReductionBar:
    def __init__(self, bar: JobBar) -> None:
        self._bar = bar

    def advance(self, state: ReductionState, seconds: float) -> None:
        spent = state.last.seconds if state.last is not None else 0.0
        self._bar.report(reduction_words(state), min(99, int(100 * spent / seconds)))

    def end(self) -> None:
        self._bar.end()


async def _wait_for_end(task: asyncio.Task[Any]) -> None:
    await asyncio.wait({task})


# -- what a command is about -------------------------------------------------------------------


def command_argument(unit: AnalysisUnit, item: FileFinding) -> dict[str, Any]:
    """Return the argument of a repro command for a finding, with positions in the client's
    encoding."""
    line = range_in(unit.document, item.finding.range).start.line
    return {"uri": unit.document.uri, "id": item.id, "code": item.finding.code, "line": line}


def find_wanted(
    unit: AnalysisUnit, argument: Mapping[str, Any]
) -> tuple[Wanted, FileFinding | None]:
    """Find what the argument of a command describes: a finding, or a function with a backend.

    A finding is described by its id, or by its line and, if there are several, its code.

    Raises:
        JsonRpcInvalidParams: No finding or target matches.
    """
    if argument.get("backend"):
        return _find_target(unit, argument), None
    known = find_by_id(unit.view.all_findings(), argument.get("id"))
    if known is not None:
        return known.finding.to_wanted(), known
    line, code = argument.get("line"), argument.get("code")
    if not isinstance(line, int):
        if "id" in argument:
            raise JsonRpcInvalidParams("This finding does not exist any more; choose another one.")
        raise JsonRpcInvalidParams(
            "Pass the line of a finding, counted from zero, or the backend of a target."
        )
    candidates = [
        item
        for item in unit.view.all_findings()
        if item.finding.code == code or (not code and is_reproducible(item.finding.code))
    ]
    found = rank_by_severity(findings_on_line(candidates, line))
    if not found:
        raise JsonRpcInvalidParams(
            f"Line {line + 1} does not have such a finding any more; choose another one."
        )
    return found[0].finding.to_wanted(), found[0]


def _find_target(unit: AnalysisUnit, argument: Mapping[str, Any]) -> Wanted:
    reports = {shown.report.name: shown.report for shown in unit.view.reports()}
    report = reports.get(str(argument.get("target", "")))
    if report is None:
        known = ", ".join(reports) or "none is known yet"
        raise JsonRpcInvalidParams(f"Name one target: {known}.")
    for backend in BACKENDS:
        if backend == argument["backend"]:
            target = TargetInfo(report.name, report.kind, report.range)
            accuracy = argument.get("accuracy") is True
            return wanted_of_target(target, backend, accuracy=accuracy)
    raise JsonRpcInvalidParams(f"The backend is one of {', '.join(BACKENDS)}.")
