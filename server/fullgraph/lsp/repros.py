"""Makes repros for a client: opens them, says what is to be said of them, writes issues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from fullgraph.domain.findings import FileFinding
from fullgraph.domain.repro import ReductionState
from fullgraph.engines import sentences
from fullgraph.lsp.connection import Connection
from fullgraph.lsp.places import range_in
from fullgraph.lsp.progress import JobBar, Progress
from fullgraph.lsp.server_capabilities import COPY_ISSUE
from fullgraph.render.repro import issue_text, outcome_words, reduction_words
from fullgraph.session.analysis_unit import Unit
from fullgraph.session.repro import on_line, ranked, reproducible, wanted_of_target
from fullgraph.session.repro_files import Unwritable, keep
from fullgraph.session.repro_jobs import Bar, Made, ReproJobs
from fullgraph.session.session import MessageLevel, Session
from fullgraph_engine.protocol import Reproduce, TargetInfo, Wanted
from fullgraph_engine.protocol.repro import Backend

BACKENDS: tuple[Backend, ...] = ("eager", "aot_eager", "inductor")


class Repros:
    """The commands that make a repro or the text of an issue for one client."""

    def __init__(self, connection: Connection, session: Session, progress: Progress) -> None:
        self._connection = connection
        self._session = session
        self._progress = progress
        self.jobs = ReproJobs(session, self._shown)

    async def emit(self, unit: Unit, argument: Mapping[str, Any]) -> dict[str, Any]:
        """Make a script and open it; the answer has its text where nothing else can be done."""
        wanted, item = meant(unit, argument)

        async def work() -> dict[str, Any]:
            return await self._emit(await self.jobs.made(unit, wanted, item))

        return await self._lasting(work())

    async def issue(self, uri: str, argument: Mapping[str, Any]) -> dict[str, Any]:
        """The text of an issue, for the clipboard of a client that can reach it, else as a file.

        It is about a finding, or about a script that was made of one.
        """
        unit = self._session.units.get(uri)
        made = self.jobs.at(unit.document.path) if unit is not None else None
        if made is not None and "line" not in argument:
            return await self._issue(made)
        if unit is None:
            raise JsonRpcInvalidParams("Name the file by its URI; it must be open and in Python.")
        wanted, item = meant(unit, argument)

        async def work() -> dict[str, Any]:
            return await self._issue(await self.jobs.made(unit, wanted, item))

        return await self._lasting(work())

    async def _lasting(self, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """The answer. A client that withdraws its request still gets what there is by then."""
        task = asyncio.create_task(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # Not its end: it goes on with the best so far.
            task.cancel()
            self._connection.in_background(_ended(task))
            raise

    async def _emit(self, made: Made) -> dict[str, Any]:
        outcome, kept = made.outcome, made.kept
        answer: dict[str, Any] = {
            "verified": outcome.verified,
            "lines": outcome.found.lines if outcome.found is not None else None,
            "reason": made.reason,
        }
        if outcome.found is None:
            self._connection.show_message(
                MessageLevel.WARNING, sentences("There is no repro", made.reason)
            )
            return answer
        words = sentences(outcome_words(outcome), made.reason)
        if kept is not None and self._session.client.message_buttons:
            self._connection.in_background(self._offer(kept.path, words, calm=not made.reason))
            return {**answer, "uri": kept.path.as_uri(), "shown": False}
        if kept is not None:
            uri: str | None = kept.path.as_uri()
            shown = await self._show(kept.path.as_uri())
        else:
            uri = await self._unsaved(f"{made.name}.py", outcome.found.script)
            shown = uri is not None
            answer["text"] = outcome.found.script
        place = "" if shown or kept is None else f"It is in {kept.path}."
        words = sentences(outcome_words(outcome), place, made.reason)
        quiet = shown and not made.reason
        if quiet:
            self._connection.log(f"{uri}: {words}")
        else:
            self._connection.show_message(
                MessageLevel.WARNING if made.reason else MessageLevel.INFORMATION, words
            )
        return {**answer, "uri": uri, "shown": shown}

    async def _issue(self, made: Made) -> dict[str, Any]:
        if made.outcome.found is None:
            self._connection.show_message(
                MessageLevel.WARNING, sentences("There is no repro", made.reason)
            )
            return {"reason": made.reason}
        text = issue_text(made.outcome)
        answer: dict[str, Any] = {"text": text, "reason": made.reason}
        if COPY_ISSUE in self._session.client.commands:
            return answer
        folder = made.kept.path.parent if made.kept is not None else made.folder
        name = made.kept.path.stem if made.kept is not None else made.name
        try:
            kept = keep(folder, name, ".md", text)
        except Unwritable as error:
            uri = await self._unsaved(f"{name}.md", text)
            self._connection.show_message(MessageLevel.WARNING, str(error))
            return {**answer, "uri": uri, "shown": uri is not None}
        shown = await self._show(kept.path.as_uri())
        if kept.remark or not shown:
            words = kept.remark or f"The text of the issue is in {kept.path}."
            self._connection.show_message(MessageLevel.INFORMATION, words)
        return {**answer, "uri": kept.path.as_uri(), "shown": shown}

    async def _offer(self, path: Path, words: str, *, calm: bool) -> None:
        """Say that a script is there; it opens when the user wants it to."""
        level = MessageLevel.INFORMATION if calm else MessageLevel.WARNING
        chosen = await self._connection.offer(level, f"{path.name}: {words}", "Open")
        if chosen:
            client = self._session.client
            await self._connection.show_document(path.as_uri(), client, focus=True)

    async def _show(self, uri: str) -> bool:
        """Beside what the user does meanwhile: making it took a while."""
        return await self._connection.show_document(uri, self._session.client, focus=False)

    async def _unsaved(self, name: str, text: str) -> str | None:
        """A document that is only in the editor, with this text; None if it makes none."""
        if not self._session.client.apply_edit:
            return None
        uri = f"untitled:{name}"
        start = types.Position(0, 0)
        insertion = types.TextEdit(types.Range(start, start), text)
        edit = types.WorkspaceEdit(changes={uri: [insertion]})
        params = types.ApplyWorkspaceEditParams(edit, label="Minified repro")
        try:
            result = await self._connection.request(types.WORKSPACE_APPLY_EDIT, params)
        except JsonRpcException:
            return None
        if not getattr(result, "applied", False):
            return None
        await self._show(uri)
        return uri

    def _shown(self, request: Reproduce, cancel: Callable[[], None]) -> Bar:
        wanted = request.wanted
        what = wanted.backend or wanted.code.rpartition("/")[2]
        bar = self._progress.job(f"Reducing {what} of {wanted.target}", cancel, kind="repro")
        return _ReductionBar(bar)


class _ReductionBar:
    def __init__(self, bar: JobBar) -> None:
        self._bar = bar

    def advance(self, state: ReductionState, seconds: float) -> None:
        spent = state.last.seconds if state.last is not None else 0.0
        self._bar.say(reduction_words(state), min(99, int(100 * spent / seconds)))

    def end(self) -> None:
        self._bar.end()


async def _ended(task: asyncio.Task[Any]) -> None:
    await asyncio.wait({task})


# -- what a command is about -------------------------------------------------------------------


def argument_of(unit: Unit, item: FileFinding) -> dict[str, Any]:
    """A finding as the argument of a command; places are in the units of the client."""
    start = range_in(unit.document, item.finding.range).start
    return {
        "uri": unit.document.uri,
        "code": item.finding.code,
        "line": start.line,
        "character": start.character,
        "message": item.finding.message,
    }


def meant(unit: Unit, argument: Mapping[str, Any]) -> tuple[Wanted, FileFinding | None]:
    """The finding, or the target with a backend, that the argument of a command means.

    Only a line has to be given; whatever else is given narrows it down.
    """
    if argument.get("backend"):
        return _target(unit, argument), None
    line, code = argument.get("line"), argument.get("code")
    if not isinstance(line, int):
        raise JsonRpcInvalidParams("Name the line of a finding, from zero, or a target's backend.")
    there = [
        item
        for item in unit.found()
        if item.finding.code == code or (not code and reproducible(item.finding.code))
    ]
    there = list(on_line(there, line))
    for key, value in (
        ("message", lambda item: item.finding.message),
        ("character", lambda item: range_in(unit.document, item.finding.range).start.character),
    ):
        narrower = [item for item in there if value(item) == argument.get(key)]
        there = narrower or there
    if not there:
        raise JsonRpcInvalidParams(
            f"There is no such finding on line {line + 1} any more; choose it again."
        )
    item = ranked(there)[0]
    return item.finding.to_wanted(), item


def _target(unit: Unit, argument: Mapping[str, Any]) -> Wanted:
    reports = {shown.report.name: shown.report for shown in unit.reports()}
    report = reports.get(str(argument.get("target", "")))
    if report is None:
        known = ", ".join(reports) or "none is known yet"
        raise JsonRpcInvalidParams(f"Name the target that is meant: {known}.")
    for backend in BACKENDS:
        if backend == argument["backend"]:
            target = TargetInfo(report.name, report.kind, report.range)
            accuracy = argument.get("accuracy") is True
            return wanted_of_target(target, backend, accuracy=accuracy)
    raise JsonRpcInvalidParams(f"The backend is one of {', '.join(BACKENDS)}.")
