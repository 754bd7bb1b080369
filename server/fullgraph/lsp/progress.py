"""Progress bars of long traces and other jobs in the client."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from fullgraph.lsp.connection import ClientConnection
from fullgraph.render.documents import TITLES
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.session import Session
from fullgraph_engine.protocol import Event, Importing, TargetDone, TargetsFound, TargetStarted
from fullgraph_engine.protocol.documents import DocumentKind

PATIENCE = 0.3
"""Delay in seconds before the progress of a trace or job is shown; most end sooner."""

_PAUSE = 0.1
"""Minimum seconds between two reports of a progress bar. Of reports in quick succession, only the
last is sent, after this time."""

BEAT = 2.0
"""Seconds without a report after which a progress bar shows how long its current step has taken, so
that slow work does not look stuck."""


class ClientProgress:
    """Shows progress bars for traces and other jobs in one client.

    Each bar has an LSP progress token, which is created with the bar and dropped at its end.
    """

    def __init__(self, connection: ClientConnection, session: Session) -> None:
        self._connection = connection
        self._session = session
        self._tokens = itertools.count(1)
        self._bars: dict[AnalysisUnit, _ProgressBar] = {}
        self._jobs: dict[JobBar, Callable[[], None]] = {}

    def start_run(self, unit: AnalysisUnit, *, cancellable: bool) -> None:
        """Show the progress of a new trace of a file.

        ``cancellable`` is true if the user requested the trace. Other traces have a bar without a
        cancel button, because clients show that button over the text.
        """
        if not self._session.client.work_done_progress:
            return
        name = unit.document.name.rsplit("/", 1)[-1]
        self._bars[unit] = self._create_bar(f"Tracing {name}", cancellable=cancellable)

    def make_cancellable(self, unit: AnalysisUnit) -> None:
        """Replace the progress bar of a file's trace by a bar with a cancel button, because the
        user has requested the trace."""
        if (bar := self._bars.get(unit)) is not None and not bar.cancellable:
            bar.end()
            self._bars[unit] = bar.copy_cancellable(self._create_token())

    def advance_run(self, unit: AnalysisUnit, event: Event) -> None:
        if (bar := self._bars.get(unit)) is not None:
            bar.advance(event)

    def end_run(self, unit: AnalysisUnit) -> None:
        if (bar := self._bars.pop(unit, None)) is not None:
            bar.end()

    def start_document(
        self, target: str, kind: DocumentKind, cancel: Callable[[], None]
    ) -> Callable[[], None]:
        """Show that a document is being written; return a function that removes the progress."""
        return self.start_job(f"Writing {TITLES[kind]} of {target}", cancel).end

    def start_fixes(self, name: str) -> JobBar:
        """Show that fixes for a file are verified; return the progress bar. It does not have a
        cancel button, because clients would show the button over the text."""
        bar: _ProgressBar | None = None
        if self._session.client.work_done_progress:
            bar = self._create_bar(f"Looking for fixes in {name}", cancellable=False)
        return JobBar(bar, lambda: None)

    def start_job(self, title: str, cancel: Callable[[], None], kind: str = "") -> JobBar:
        """Show the progress of a job, such as a reduction; return its progress bar.

        ``cancel`` is called when the user cancels the job. ``kind`` becomes a part of the progress
        token.
        """
        bar: _ProgressBar | None = None
        if self._session.client.work_done_progress:
            bar = self._create_bar(title, kind)
        job = JobBar(bar, lambda: self._jobs.pop(job, None))
        self._jobs[job] = cancel
        return job

    def _create_bar(self, title: str, kind: str = "", *, cancellable: bool = True) -> _ProgressBar:
        return _ProgressBar(
            self._connection, self._session, title, self._create_token(kind), cancellable
        )

    def _create_token(self, kind: str = "") -> str:
        return "/".join(filter(None, ("fullgraph", kind, str(next(self._tokens)))))

    def cancel(self, token: int | str) -> None:
        """Cancel the trace or job whose progress bar has this token, because the user pressed its
        button."""
        for unit, bar in list(self._bars.items()):
            if bar.token == token:
                unit.cancel()
        for job, end in list(self._jobs.items()):
            if job.token == token:
                end()


class JobBar:
    """The progress bar of a job. Its methods do nothing if the client does not show progress."""

    def __init__(self, bar: _ProgressBar | None, on_end: Callable[[], object]) -> None:
        self._bar = bar
        self._on_end = on_end

    @property
    def token(self) -> str | None:
        return self._bar.token if self._bar is not None else None

    def report(self, words: str, percentage: int) -> None:
        if self._bar is not None:
            self._bar.report(words, percentage)

    def end(self, words: str = "") -> None:
        """Remove the bar; clients may show the outcome ``words`` for a moment."""
        self._on_end()
        if self._bar is not None:
            self._bar.end(words)


class _ProgressBar:
    def __init__(
        self,
        connection: ClientConnection,
        session: Session,
        title: str,
        token: str,
        cancellable: bool,
    ) -> None:
        self.token = token
        self.cancellable = cancellable
        self._connection = connection
        self._session = session
        self._title = title
        self._targets = 0
        self._done: set[str] = set()
        self._shown = False
        self._last_report: tuple[str, int] | None = None
        self._last_sent = 0.0
        self._step, self._step_began = "", 0.0
        """The step that was shown last, and the time at which it was shown first."""
        self._delayed_report: asyncio.TimerHandle | None = None
        self._task = asyncio.create_task(self._show_when_slow())

    def copy_cancellable(self, token: str) -> _ProgressBar:
        """Return a bar with the same progress, a new token, and a cancel button."""
        bar = _ProgressBar(self._connection, self._session, self._title, token, True)
        bar._targets, bar._done, bar._last_report = self._targets, self._done, self._last_report
        return bar

    async def _show_when_slow(self) -> None:
        await asyncio.sleep(PATIENCE)
        params = types.WorkDoneProgressCreateParams(token=self.token)
        try:
            await self._connection.request(types.WINDOW_WORK_DONE_PROGRESS_CREATE, params)
        except JsonRpcException:
            return
        self._shown = True
        words, percentage = self._current_step()
        self._note_sent(words)
        self._send_progress(
            types.WorkDoneProgressBegin(
                title=self._title,
                cancellable=self.cancellable,
                message=words or None,
                percentage=percentage,
            )
        )
        while True:
            await asyncio.sleep(BEAT / 2)
            self._report_duration()

    def _current_step(self) -> tuple[str, int]:
        """Return the description of the work's current step, and the percentage of work done."""
        words, percentage = self._last_report or ("", self._percentage())
        waiting = self._session.engines.status.state.value == "starting"
        return ("importing torch" if waiting else words), percentage

    def _report_duration(self) -> None:
        """Show how long the current step has taken, if nothing else was shown for a while."""
        now = asyncio.get_running_loop().time()
        if now - self._last_sent < BEAT:
            return
        step, percentage = self._current_step()
        self._note_sent(step)
        took = self._last_sent - self._step_began
        words = ", ".join(filter(None, (step, f"{took:.0f} s" if took else "")))
        self._send_progress(types.WorkDoneProgressReport(message=words, percentage=percentage))

    def _note_sent(self, step: str) -> None:
        self._last_sent = now = asyncio.get_running_loop().time()
        if step != self._step or not self._step_began:
            self._step, self._step_began = step, now

    def advance(self, event: Event) -> None:
        if isinstance(event, TargetsFound):
            self._targets = len(event.targets)
        elif isinstance(event, TargetDone):
            self._done.add(event.report.name)
        elif isinstance(event, Importing):
            self.report(f"importing {event.module}", self._percentage())
        elif isinstance(event, TargetStarted):
            self.report(event.name, self._percentage())

    def report(self, words: str, percentage: int) -> None:
        self._last_report = words, percentage
        if not self._shown or self._delayed_report is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._last_sent + _PAUSE - loop.time()
        if wait > 0:
            self._delayed_report = loop.call_later(wait, self._send_last_report)
        else:
            self._send_last_report()

    def _send_last_report(self) -> None:
        self._delayed_report = None
        assert self._last_report is not None
        words, percentage = self._last_report
        self._note_sent(words)
        self._send_progress(types.WorkDoneProgressReport(message=words, percentage=percentage))

    def end(self, words: str = "") -> None:
        self._task.cancel()
        if self._delayed_report is not None:
            self._delayed_report.cancel()
        if self._shown:
            self._send_progress(types.WorkDoneProgressEnd(message=words or None))

    def _percentage(self) -> int:
        return min(99, 100 * len(self._done) // self._targets) if self._targets else 0

    def _send_progress(
        self,
        value: types.WorkDoneProgressBegin
        | types.WorkDoneProgressReport
        | types.WorkDoneProgressEnd,
    ) -> None:
        self._connection.notify(types.PROGRESS, types.ProgressParams(token=self.token, value=value))
