"""Trace files with one engine process and collect the results, without printing them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Protocol

from fullgraph.cli import sources
from fullgraph.cli.sources import SourceFile, UnreadableFile
from fullgraph.domain.causes import group_by_cause
from fullgraph.domain.positions import TextPositions, text_hash
from fullgraph.engines import EngineState, EngineStatus, sentences
from fullgraph.fixes.tracing import Asked
from fullgraph.render.checked import CheckedFile, CheckResults
from fullgraph.results import Results
from fullgraph.session.findings import merge_findings
from fullgraph.session.ignores import remove_ignored
from fullgraph.session.probe_runs import place_probe_findings
from fullgraph.session.programs import WorkspacePrograms, with_programs
from fullgraph.session.request import analyze_request, may_have_targets
from fullgraph.session.settings import Settings
from fullgraph.session.unseen import hidden_facts, hidden_warning
from fullgraph.store.disk import ResultFile
from fullgraph.store.runs import StoredRun, TraceBasis, begin_run
from fullgraph.store.store import ResultStore
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    Compare,
    Event,
    Importing,
    TargetStarted,
)


class CheckEngine(Protocol):
    """Interface of the engine that a check uses, implemented by
    :class:`fullgraph.engines.Engine`.
    """

    async def start(self) -> None: ...

    async def ready(self) -> EngineStatus: ...

    def analyze(self, request: Analyze) -> Asked: ...

    def compare(self, request: Compare) -> Asked: ...

    async def close(self) -> None: ...

    def kill(self) -> None: ...


class CheckListener(Protocol):
    """Interface of an object that shows the progress of a check."""

    def on_engine_start(self) -> None:
        """Called when the engine process starts, which takes seconds."""

    def on_target(self, path: str, target: str) -> None: ...

    def on_import(self, path: str, module: str) -> None:
        """Called when a file is importing ``module``, which may take seconds."""

    def on_measure(self, path: str, target: str) -> None:
        """Called when the time of a traced function or class is measured, which compiles it."""

    def on_file_done(self, file: CheckedFile) -> None:
        """Called with the results of each file, in the order in which the files were given."""


class EngineUnusable(Exception):
    """Raised if the engine process cannot trace files; the message says why and what to do."""


@contextlib.asynccontextmanager
async def running_engine(engine: CheckEngine) -> AsyncIterator[EngineStatus]:
    """Start an engine process and yield its status; stop the process at the end of the block.

    Raises:
        EngineUnusable: The engine cannot trace files, for example without torch.
    """
    try:
        await engine.start()
        status = await engine.ready()
        require_usable(status)
        yield status
    finally:
        # Killing is safe: the engine does not have unsaved state.
        engine.kill()
        await engine.close()


def require_usable(status: EngineStatus) -> None:
    """Raise an error unless the status says that the engine process is ready.

    Raises:
        EngineUnusable: The engine cannot trace files, for example without torch.
    """
    if status.state is not EngineState.READY:
        raise EngineUnusable(sentences(status.message, status.next_step))


class FileCheck:
    """A check of files with one engine process, which starts when a file is not in the cache.

    ``engine`` creates the engine. ``texts`` replace the contents of files, by path. ``forecast``
    also predicts recompilations, ``measure`` also takes run times.
    """

    def __init__(
        self,
        files: Sequence[SourceFile],
        *,
        settings: Settings,
        project: Path,
        engine: Callable[[], CheckEngine],
        listener: CheckListener,
        texts: dict[str, str] | None = None,
        forecast: bool = False,
        measure: bool = False,
        timings: bool = False,
        hide_known: Callable[[CheckedFile], CheckedFile] = lambda file: file,
        result_file: Callable[[Analyze], ResultFile | None] = lambda request: None,
    ) -> None:
        self._files = files
        self._settings = settings
        self._project = project
        self._folder = str(project or Path.cwd())
        self._make_engine = engine
        self._listener = listener
        self._forecast = forecast
        self._measure = measure
        self._timings = timings
        self._hide_known = hide_known
        """Function that removes the findings of a baseline from a checked file."""
        self._result_file = result_file
        """Function that returns a file on disk with earlier results of a request; None if the
        request must be traced again.
        """
        self._status_before: EngineStatus | None = None
        """Status of the engine that computed the cached results; None if none were used."""
        self._texts = texts or {}
        """Texts by path that replace the contents of files on disk."""
        self._programs = WorkspacePrograms(list_once=True)
        self._shown = frozenset(str(file.absolute) for file in files)
        self._engine: CheckEngine | None = None
        self._status: EngineStatus | None = None
        self._starting = asyncio.Lock()
        # Tracing other files at the same time would distort measured run times.
        self._parallel = 1 if measure else min(settings.parallel, max(1, len(files)))

    async def run(self) -> CheckResults:
        """Check all files and return their results. Cancelling this call kills the engine."""
        began = time.monotonic()
        room = asyncio.Semaphore(self._parallel)

        async def check_source(source: SourceFile) -> CheckedFile:
            async with room:
                return await self._check_file(source)

        tasks = [asyncio.create_task(check_source(source)) for source in self._files]
        done: list[CheckedFile] = []
        problems: list[str] = []
        try:
            for task in tasks:
                done.append(await task)
                self._listener.on_file_done(done[-1])
        except EngineUnusable as error:
            problems.append(str(error))
        except asyncio.CancelledError:
            if self._engine is not None:
                self._engine.kill()
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._engine is not None:
                await self._engine.close()
        status = self._status or self._status_before
        if status is not None and not problems:
            hidden = hidden_warning(status, hidden_facts(status, self._settings))
            problems += [hidden] if hidden else []
        return CheckResults(
            tuple(done),
            torch=status.torch if status is not None else "",
            python=status.python if status is not None else "",
            seconds=time.monotonic() - began,
            problems=tuple(problems),
        )

    async def _check_file(self, source: SourceFile) -> CheckedFile:
        absolute = str(source.absolute)
        try:
            text = self._texts.get(source.path)
            if text is None:
                text = sources.read_source(source)
        except UnreadableFile as error:
            return CheckedFile(source.path, absolute, TextPositions(""), problem=str(error))
        file = CheckedFile(source.path, absolute, TextPositions(text))
        if not text.strip():
            return _add_note(file, source, "The file is empty: there is nothing to trace.")
        if not source.named and not may_have_targets(text):
            return file
        traced = await self._trace_file(file, text)
        if traced.targets or traced.findings or traced.problem or traced.notes:
            return traced
        return _add_note(
            traced,
            source,
            "Nothing to trace: there is no module class, and no function with a probe.",
        )

    async def _ready_engine(self) -> CheckEngine:
        async with self._starting:
            if self._engine is None:
                self._listener.on_engine_start()
                self._engine = self._make_engine()
                await self._engine.start()
            if self._status is None:
                self._status = await self._engine.ready()
            require_usable(self._status)
        return self._engine

    async def _find_results(self, request: Analyze, watch: Callable[[Event], None]) -> Results:
        """Return the results for a request: earlier results of targets (functions and classes)
        where valid, else new traces.

        ``watch`` is called with each event of the engine.
        """
        file, basis = self._result_file(request), TraceBasis(request.text, (), (), ())
        store = ResultStore(request.path)
        stored = file.read() if file is not None else None
        if stored is not None and stored.is_complete:
            store.add(stored)
            self._status_before = stored.status
        known, results = store.find(basis), Results()
        if known is not None and known.is_complete:
            return known.results
        tracer = await self._ready_engine()
        request, files = begin_run(results, request, known)
        completed = False
        async for event in tracer.analyze(request):
            files.record_event(event)
            results.apply_event(event)
            watch(event)
            completed = isinstance(event, Analyzed) and not event.cancelled
        results.complete_run()
        if completed and file is not None and self._status is not None:
            file.write(StoredRun(basis, results, files, self._status))
        return results

    async def _trace_file(self, file: CheckedFile, text: str) -> CheckedFile:
        began = time.monotonic()
        request = analyze_request(
            name=file.absolute,
            text=text,
            generation=text_hash(text),
            settings=self._settings,
            project=self._project,
            forecast=self._forecast,
        )
        request = with_programs(
            request, self._programs, self._project, self._settings.program_files, self._shown
        )
        # Divide the jobs among all files that run at the same time.
        jobs = max(1, self._settings.parallel // self._parallel)
        request = dataclasses.replace(request, jobs=jobs, timings=self._timings)

        def watch(event: Event) -> None:
            if isinstance(event, Importing):
                self._listener.on_import(file.path, event.module)
            elif isinstance(event, TargetStarted):
                self._listener.on_target(file.path, event.name)

        results = await self._find_results(request, watch)
        placed = place_probe_findings(
            results.findings(), results.reports(), file.text, file.absolute
        )
        reports = [shown.report for shown in results.reports()]
        traced = dataclasses.replace(
            file,
            targets=tuple(reports),
            forecasts=results.forecasts.list_events(),
            timings=tuple(results.timings),
            findings=remove_ignored(
                merge_findings(placed, self._settings, results.names, self._folder), file.text
            ),
            notes=(results.note,) if results.note else (),
            seconds=time.monotonic() - began,
            problem="" if results.unparsed else failure_words(file.path, results),
        )
        if self._measure:
            from fullgraph.fixes.measuring import measured

            timed = await measured(
                await self._ready_engine(),
                request,
                reports,
                lambda name: self._listener.on_measure(file.path, name),
            )
            traced = dataclasses.replace(traced, timed=timed)
        settled = self._hide_known(traced)
        return dataclasses.replace(settled, findings=group_by_cause(settled.findings))


def failure_words(path: str, results: Results) -> str:
    """Return sentences on why the file ``path`` could not be traced; empty if it was traced."""
    failure = results.failure
    if failure is None:
        return ""
    return sentences(f"{path} could not be traced", failure.reason, failure.next_step)


def _add_note(file: CheckedFile, source: SourceFile, note: str) -> CheckedFile:
    """Add a note to the results of a file that the user named, but not of files found in
    folders."""
    return dataclasses.replace(file, notes=(*file.notes, note)) if source.named else file
