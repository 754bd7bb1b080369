"""Check texts and trace targets for the tools, with engines that stay alive between calls."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from fullgraph.cli.check import CheckEngine, EngineUnusable, FileCheck, require_usable
from fullgraph.cli.check_command import CheckJob
from fullgraph.cli.file_settings import FileSettings
from fullgraph.domain.findings import FileFinding
from fullgraph.engines import EngineStatus
from fullgraph.mcp.answers import Refused
from fullgraph.mcp.engines import RETRACED, EnginePool, LentEngine
from fullgraph.mcp.jobs import Jobs, ShowProgress
from fullgraph.mcp.subjects import Subject, read_subject
from fullgraph.render.checked import CheckedFile, CheckResults
from fullgraph_engine.protocol import Analyze, Status

_T = TypeVar("_T")
_ENDED_EARLY: tuple[Status, ...] = ("failed", "timeout", "crashed", "skipped")
"""Outcomes of a trace that may lack findings of an earlier trace."""


@dataclass(frozen=True)
class Checked:
    """The results of checking a text, as ``fullgraph check`` computes them.

    ``request`` is the trace request, from which requests for fixes, repros and documents are made.
    ``notes`` are sentences for the caller.
    """

    subject: Subject
    results: CheckResults
    request: Analyze
    notes: tuple[str, ...] = ()

    @property
    def file(self) -> CheckedFile:
        return self.results.files[0]

    def find(self, name: str) -> FileFinding:
        """Return the finding with the id ``name``, or the first finding with the code ``name``.

        Raises:
            Refused: The text does not have such a finding.
        """
        found = [item for item in self.file.findings if item.id == name]
        coded = [
            item for item in self.file.findings if name in (item.finding.code, _last_part(item))
        ]
        if not found and not coded:
            missed = (one for one in self.file.targets if one.status in _ENDED_EARLY)
            reasons = [f" This trace of {one.name} ended early: {one.status}." for one in missed]
            raise Refused(
                f"{self.subject.path} has no finding `{name}`; `check` lists the ids of its "
                f"findings.{''.join(reasons[:1])}"
            )
        return (found or coded)[0]


def _last_part(item: FileFinding) -> str:
    return item.finding.code.rpartition("/")[2]


class Analyzer:
    """Checks texts for all tool calls of a server.

    At most as many texts as the machine has processors are analyzed at the same time; further calls
    wait. ``flags`` are the settings on the command line, by name.
    """

    def __init__(self, flags: Mapping[str, Any]) -> None:
        self.flags = flags
        self.pool = EnginePool()
        self._room = asyncio.Semaphore(max(2, min(8, os.cpu_count() or 1)))
        self.jobs = Jobs()
        self._ending: set[asyncio.Task[Any]] = set()
        """Cancelled tasks still in progress."""

    async def read(self, file: str, text: str | None, version: str) -> Subject:
        """Return the subject for the arguments of a tool call.

        ``text`` is the unsaved text; None to read the file. ``version`` is the hash that the text
        must have; empty for any.

        Raises:
            Refused: The user does not trust the folder, the file cannot be read, or the text has
                another hash.
        """
        return await asyncio.to_thread(read_subject, file, text, version, self.flags)

    async def check(
        self,
        subject: Subject,
        show_progress: ShowProgress,
        *,
        target: str = "",
        forecast: bool | None = None,
        engine_settings: FileSettings | None = None,
        adapt_request: Callable[[Analyze], Analyze] = lambda request: request,
    ) -> Checked:
        """Check a text as ``fullgraph check`` does, and return the results.

        ``target`` restricts the trace to one function or class. ``forecast`` says whether to
        predict recompiles; None: if the setting ``effort`` of the project is thorough.
        ``engine_settings`` select the engine; by default, the settings of the file do.
        ``adapt_request`` changes the usual request before it is sent.

        Raises:
            Refused: The engine cannot trace files, or the text could not be traced.
        """
        lent: list[LentEngine] = []
        requests: list[Analyze] = []

        def lend_engine(own: FileSettings) -> CheckEngine:
            lent.append(self.pool.lend(engine_settings or own))
            return lent[-1]

        def finish_request(request: Analyze) -> Analyze:
            only = (target,) if target else ()
            requests.append(dataclasses.replace(adapt_request(request), only=only))
            return requests[-1]

        check = FileCheck(
            [subject.source],
            find_settings=lambda path: subject.own,
            make_engine=lend_engine,
            listener=_CheckProgress(show_progress),
            texts={subject.path: subject.text},
            forecast=forecast,
            # Results on disk always cover all targets of a file.
            result_file=CheckJob(()).result_file if not target else lambda request, own: None,
            adapt_request=finish_request,
        )
        async with self._room:
            results = await self.run_cancellable(check.run())
        if not results.files:
            raise Refused(" ".join(results.problems))
        file = results.files[0]
        if file.problem and not file.targets and not file.findings:
            raise Refused(file.problem)
        notes = [*subject.notes, *results.problems, *filter(None, [file.problem]), *file.notes]
        if any(engine.restarted for engine in lent):
            notes.append(RETRACED)
        return Checked(
            subject, results, requests[0] if requests else _no_request(subject), tuple(notes)
        )

    @asynccontextmanager
    async def engine(
        self, own: FileSettings, show_progress: ShowProgress
    ) -> AsyncIterator[tuple[LentEngine, EngineStatus]]:
        """Yield the engine for the settings of a file, ready to trace, and its status.

        At the end of the ``with`` block, unfinished requests are cancelled.

        Raises:
            Refused: The engine cannot trace files.
        """
        async with self._room:
            try:
                engine = self.pool.lend(own)
                show_progress("Importing torch")
                await engine.start()
                status = await engine.ready()
                require_usable(status)
            except EngineUnusable as error:
                raise Refused(str(error)) from error
            try:
                yield engine, status
            finally:
                engine.kill()

    async def run_cancellable(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Await work in a task of its own; if the call is cancelled, cancel the work as well.

        The work needs its own task, because a cancelled call of the SDK cannot await anything,
        not even the end of the engine's requests.
        """
        task = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
            raise

    async def close(self) -> None:
        """Stop the engines and wait for cancelled work."""
        ending = {*self.jobs.cancel(), *self._ending}
        await self.pool.close()
        if ending:
            await asyncio.wait(ending, timeout=5)


def _no_request(subject: Subject) -> Analyze:
    """Return the request for a text in which nothing can be traced."""
    return Analyze(0, subject.hash, str(subject.absolute), subject.text)


class _CheckProgress:
    """Sends the progress of a check to the client; implements ``CheckListener``."""

    def __init__(self, show: ShowProgress) -> None:
        self._show = show

    def on_engine_start(self) -> None:
        self._show("Importing torch")

    def on_target(self, path: str, target: str) -> None:
        self._show(f"Tracing {target}")

    def on_import(self, path: str, module: str) -> None:
        self._show(f"Importing {module}")

    def on_numerics(self, path: str, target: str) -> None:
        self._show(f"Comparing compiled results of {target}")

    def on_measure(self, path: str, target: str) -> None:
        self._show(f"Measuring {target}")

    def on_file_checked(self, file: CheckedFile) -> None:
        """Do nothing: the results are the answer."""

    def on_file_done(self, file: CheckedFile) -> None:
        """Do nothing: the results are the answer."""
