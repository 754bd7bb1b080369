"""Trace files with one engine process and collect the results, without printing them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import math
import time
import traceback
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from fullgraph.cli import sources
from fullgraph.cli.defects import ASK_FOR_REPORT
from fullgraph.cli.file_settings import FileSettings, FindSettings
from fullgraph.cli.shared_imports import choose_shared_imports
from fullgraph.cli.sources import SourceFile, UnreadableFile
from fullgraph.domain.causes import group_by_cause
from fullgraph.domain.phrases import amount
from fullgraph.domain.positions import TextPositions, text_hash
from fullgraph.engines import EngineState, EngineStatus, sentences
from fullgraph.fixes.tracing import Asked
from fullgraph.render.checked import CheckedFile, CheckResults, LeftOut
from fullgraph.results import Results
from fullgraph.session.effort import wants_forecast
from fullgraph.session.findings import merge_findings, sort_findings
from fullgraph.session.ignores import has_ignore_comments, remove_ignored, unused_ignores
from fullgraph.session.probe_runs import place_probe_findings
from fullgraph.session.programs import WorkspacePrograms, with_programs
from fullgraph.session.request import analyze_request, may_have_targets
from fullgraph.session.settings import Settings
from fullgraph.session.trace_extent import TraceExtent
from fullgraph.session.unseen import hidden_facts, hidden_warning
from fullgraph.store.disk import ResultFile
from fullgraph.store.runs import Reused, StoredRun, TraceBasis, begin_run
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    Compare,
    Degraded,
    Event,
    Importing,
    SharedImports,
    TargetReport,
    TargetStarted,
)

if TYPE_CHECKING:
    from fullgraph.fixes.numerics import FileNumerics


BUSY_STRETCH = 4.0
"""Maximum factor by which time limits grow while other programs keep the machine busy."""
MOST_KEPT = 10
"""Maximum number of files in a check for which the engine keeps one process per file. Such a
process has executed the file's imports, and traces later versions of the file faster."""


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

    def on_numerics(self, path: str, target: str) -> None:
        """Called when a target is about to be compiled, to compare its results with float64."""

    def on_measure(self, path: str, target: str) -> None:
        """Called when the time of a traced function or class is measured, which compiles it."""

    def on_file_checked(self, file: CheckedFile) -> None:
        """Called with the results of each file when they are complete, in any order."""

    def on_file_done(self, file: CheckedFile) -> None:
        """Called with the results of each file, in the order in which the files were given."""


class EngineUnusable(Exception):
    """Raised if the engine process cannot trace files; the message says why and what to do."""


class CheckEnded(Exception):
    """Raised by an engine if no further file can be checked; the message is a clause that says why.

    The results of files that were checked before stay valid.
    """


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
    """A check of files, with an engine process that starts when a file is not in the cache.

    ``find_settings`` returns the settings of a file, and ``make_engine`` an engine for them; files
    with the same ``engine_key`` share one. At most ``parallel`` files are checked at the same time.
    After ``time_limit`` seconds (0: never) the check ends; the rest is missing from the results.

    ``texts`` maps the paths of files to texts that replace their contents. ``forecast`` says
    whether to predict recompilations; None: if the setting ``effort`` is thorough. ``measure`` also
    measures run times. ``shown`` are the paths of all files in the report, if ``files`` are only a
    part of them.
    """

    def __init__(
        self,
        files: Sequence[SourceFile],
        *,
        find_settings: FindSettings,
        make_engine: Callable[[FileSettings], CheckEngine],
        listener: CheckListener,
        engine_key: Callable[[FileSettings], Hashable] = lambda own: None,
        parallel: int = 1,
        time_limit: float = 0.0,
        texts: dict[str, str] | None = None,
        forecast: bool | None = False,
        measure: bool = False,
        numerics: bool = False,
        timings: bool = False,
        shown: Iterable[Path] = (),
        hide_known: Callable[[CheckedFile], CheckedFile] = lambda file: file,
        result_file: Callable[[Analyze, FileSettings], ResultFile | None] = lambda request, own: (
            None
        ),
        adapt_request: Callable[[Analyze], Analyze] = lambda request: request,
    ) -> None:
        self._files = files
        self._find_settings = find_settings
        self._engines = _Engines(make_engine, engine_key, listener)
        self._listener = listener
        self._time_limit = time_limit
        self._forecast = forecast
        self._measure = measure
        self._numerics = numerics
        self._timings = timings
        self._hide_known = hide_known
        """Function that removes the accepted findings of a baseline from the results of a file."""
        self._result_file = result_file
        """Function that returns the file on disk with cached results of a request; None if the
        request must be traced again."""
        self._adapt_request = adapt_request
        """Function that changes the usual request for a file before it is sent."""
        self._texts = texts or {}
        """Texts by path that replace the contents of files on disk."""
        self._programs = WorkspacePrograms(list_once=True)
        self._shown = frozenset(map(str, shown or (file.absolute for file in files)))
        # Tracing other files at the same time would distort measured run times.
        self._parallel = 1 if measure else max(1, min(parallel, len(files)))
        self._began = time.monotonic()
        self._done: dict[int, CheckedFile] = {}
        """Results by the index of the file in the order of the report."""
        self._published = 0
        """Number of files whose results the listener has received."""
        self._skipped: set[int] = set()
        """Indices of the files whose engine cannot trace."""
        self._stopping = False
        """True if the check ends before its last file."""
        self._problems: dict[str, None] = {}

    async def run(self) -> CheckResults:
        """Check all files and return their results.

        Cancelling this call kills the engines; ``results`` then returns the finished files.
        """
        self._began = time.monotonic()
        pending = iter(enumerate(self._files))

        async def check_pending() -> None:
            # All workers take files from the same iterator.
            for number, source in pending:
                await self._check_source(number, source)
                # A file from the cache does not wait for anything: yield, so that signals and the
                # time limit can end the check.
                await asyncio.sleep(0)
                if self._stopping:
                    return

        workers = [asyncio.create_task(check_pending()) for _ in range(self._parallel)]
        ended = ""
        try:
            done, late = await asyncio.wait(
                workers, timeout=self._time_limit or None, return_when=asyncio.FIRST_EXCEPTION
            )
            errors = [error for one in done if (error := one.exception())]
            ended = next((str(error) for error in errors if isinstance(error, CheckEnded)), "")
            if late and not errors:
                ended = f"The time limit of {self._time_limit:g} s was reached"
        except asyncio.CancelledError:
            self._engines.kill()
            raise
        finally:
            self._stopping = True
            for worker in workers:
                worker.cancel()
            ends = await asyncio.gather(*workers, return_exceptions=True)
            await self._engines.close(kill=bool(ended))
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, CheckEnded):
                raise end
        return self.results(ended)

    def results(self, ended: str = "") -> CheckResults:
        """Give the listener all results so far, and return them.

        ``ended`` is a clause that says why the check ended before the last file; empty if it did
        not.
        """
        for number in sorted(self._done):
            if number >= self._published:
                self._listener.on_file_done(self._done[number])
        self._published = len(self._files)
        missing = tuple(
            source.path for number, source in enumerate(self._files) if number not in self._done
        )
        problems = dict(self._problems)
        unfinished = len(missing) + sum(file.unfinished for file in self._done.values())
        if ended and unfinished:
            count = f"{unfinished:,} of {amount(len(self._files), 'file')}"
            verb = "was" if unfinished == 1 else "were"
            partly = "" if unfinished == len(missing) else f", or {verb} analyzed only in part"
            problems[
                f"{ended}: {count} {verb} not analyzed{partly}. "
                "Run the same command again to continue."
            ] = None
        return CheckResults(
            tuple(self._done[number] for number in sorted(self._done)),
            torch=self._engines.versions("torch"),
            python=self._engines.versions("python"),
            seconds=time.monotonic() - self._began,
            problems=(*problems, *self._engines.hidden_warnings()),
            missing=missing,
        )

    async def _check_source(self, number: int, source: SourceFile) -> None:
        """Check one file and store its results, or the problem that prevented the check."""
        try:
            own = self._find_settings(source.absolute)
            checked = await self._check_file(source, own)
            checked = dataclasses.replace(checked, exit_severity=own.settings.exit_severity)
        except EngineUnusable as error:
            self._problems[str(error)] = None
            self._skipped.add(number)
            self._publish()
            return
        except CheckEnded:
            raise
        except Exception:
            problem = (
                f"{source.path} was not analyzed because of a defect of fullgraph. {ASK_FOR_REPORT}"
            )
            checked = CheckedFile(
                source.path,
                str(source.absolute),
                TextPositions(""),
                problem=problem,
                defect=traceback.format_exc(),
            )
        self._done[number] = checked
        self._listener.on_file_checked(checked)
        self._publish()

    def _publish(self) -> None:
        """Give the listener all results up to the first unfinished file."""
        while self._published in self._done or self._published in self._skipped:
            if self._published in self._done:
                self._listener.on_file_done(self._done[self._published])
            self._published += 1

    async def _check_file(self, source: SourceFile, own: FileSettings) -> CheckedFile:
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
        traced = await self._trace_file(file, text, own)
        if traced.targets or traced.findings or traced.problem or traced.notes:
            return traced
        return _add_note(
            traced,
            source,
            "Nothing to trace: the file has no nn.Module class, and no function with example "
            "inputs.",
        )

    @functools.cached_property
    def _shared_imports(self) -> dict[Path, SharedImports]:
        """Modules to import once for several files, by the path of each file."""
        texts = dict[Path, str]()
        for source in self._files:
            with contextlib.suppress(UnreadableFile):
                texts[source.absolute] = self._texts.get(source.path) or sources.read_source(source)
        return choose_shared_imports(
            {path: text for path, text in texts.items() if may_have_targets(text)}
        )

    async def _find_results(
        self, request: Analyze, own: FileSettings, watch: Callable[[Event], None]
    ) -> Results:
        """Return the results for a request: valid earlier results of targets (functions and
        classes), and new traces of the other targets.

        ``watch`` is called with each event of the engine.

        Raises:
            _Unfinished: The check was cancelled after some targets were traced.
        """
        file, basis = self._result_file(request, own), TraceBasis(request.text, (), (), ())
        time_limit = request.limits.file_seconds or math.inf
        stored = file.read(time_limit=time_limit) if file is not None else None
        known = _reusable_results(stored, basis, request.path)
        if stored is not None and known is not None:
            self._engines.add_status(stored.status, own)
        if known is not None and known.is_complete:
            return known.results
        engine, status = await self._engines.find_ready(own)
        results = Results()
        if not request.keep:
            shared = self._shared_imports.get(Path(request.path), SharedImports())
            request = dataclasses.replace(request, shared_imports=shared)
        request, files = begin_run(results, request, known)
        completed = False
        try:
            async for event in engine.analyze(request):
                files.record_event(event)
                results.apply_event(event)
                watch(event)
                completed = isinstance(event, Analyzed) and not event.cancelled
        except asyncio.CancelledError:
            if results.reports() or results.findings():
                raise _Unfinished(results) from None
            raise
        results.complete_run()
        if completed and file is not None:
            lasting = results.without_unsettled(keep_over_limit=True)
            whole = lasting.placed == results.placed
            limit = 0.0 if lasting.is_settled else time_limit
            file.write(
                StoredRun(basis, lasting, files, status, is_complete=whole, time_limit=limit)
            )
        return results

    def _make_request(self, file: CheckedFile, text: str, own: FileSettings) -> Analyze:
        settings, root = own.settings, own.project.root
        request = analyze_request(
            name=file.absolute,
            text=text,
            generation=text_hash(text),
            settings=settings,
            project=root,
            forecast=wants_forecast(settings, self._forecast),
        )
        request = with_programs(request, self._programs, root, settings.program_files, self._shown)
        # Divide the parallel processes among all files checked at the same time.
        jobs = max(1, settings.parallel // self._parallel)
        limits = dataclasses.replace(
            request.limits, file_seconds=settings.file_timeout, stretch=BUSY_STRETCH
        )
        keep = len(self._files) <= MOST_KEPT
        request = dataclasses.replace(
            request, jobs=jobs, keep=keep, timings=self._timings, limits=limits
        )
        return self._adapt_request(request)

    async def _trace_file(self, file: CheckedFile, text: str, own: FileSettings) -> CheckedFile:
        began = time.monotonic()
        request = self._make_request(file, text, own)

        def watch(event: Event) -> None:
            if isinstance(event, Importing):
                self._listener.on_import(file.path, event.module)
            elif isinstance(event, TargetStarted):
                self._listener.on_target(file.path, event.name)

        unfinished = False
        try:
            results = await self._find_results(request, own, watch)
        except _Unfinished as error:
            results, unfinished = error.results, True
        reports = [shown.report for shown in results.reports()]
        judged = await self._judge_numerics(file, request, reports, own, unfinished=unfinished)
        placed = place_probe_findings(
            (*results.findings(), *judged.findings), results.reports(), file.text, file.absolute
        )
        folder = str(own.project.root or Path.cwd())
        found = merge_findings(placed, own.settings, results.names, folder)
        extent = TraceExtent.of_results(
            results,
            file.text,
            own.settings,
            self._engines.degraded_facts(),
            with_lines=has_ignore_comments(file.text),
        )
        unused = merge_findings(unused_ignores(found, file.text, extent), own.settings)
        traced = dataclasses.replace(
            file,
            targets=tuple(reports),
            forecasts=results.forecasts.list_events(),
            timings=tuple(results.timings),
            numerics=judged.targets,
            findings=sort_findings((*remove_ignored(found, file.text), *unused)),
            conclusive=extent.codes,
            notes=(results.note,) if results.note else (),
            seconds=time.monotonic() - began,
            problem="" if results.unparsed else failure_words(file.path, results),
            unfinished=unfinished,
            left_out=_left_out(own.settings),
        )
        if unfinished:
            traced = dataclasses.replace(traced, problem=_unfinished_words(file.path, results))
        elif self._measure:
            from fullgraph.fixes.measuring import measured

            engine, _ = await self._engines.find_ready(own)
            timed = await measured(
                engine,
                request,
                reports,
                lambda name: self._listener.on_measure(file.path, name),
            )
            traced = dataclasses.replace(traced, timed=timed)
        settled = self._hide_known(traced)
        return dataclasses.replace(settled, findings=group_by_cause(settled.findings))

    async def _judge_numerics(
        self,
        file: CheckedFile,
        request: Analyze,
        reports: Sequence[TargetReport],
        own: FileSettings,
        *,
        unfinished: bool,
    ) -> FileNumerics:
        """Compare compiled and eager results of a file's functions if the user asked for it."""
        from fullgraph.fixes.numerics import FileNumerics, judge_numerics

        if unfinished or not self._numerics:
            return FileNumerics()
        engine, _ = await self._engines.find_ready(own)
        return await judge_numerics(
            engine, request, reports, lambda name: self._listener.on_numerics(file.path, name)
        )


class _Unfinished(Exception):
    """Raised if a check ends while a file is traced; ``results`` has its results so far."""

    def __init__(self, results: Results) -> None:
        super().__init__("The check ended while a file was traced.")
        self.results = results


class _Engines:
    """The engine processes of a check; files whose settings have the same engine key share one."""

    def __init__(
        self,
        make_engine: Callable[[FileSettings], CheckEngine],
        key: Callable[[FileSettings], Hashable],
        listener: CheckListener,
    ) -> None:
        self._make_engine = make_engine
        self._key = key
        self._listener = listener
        self._engines: dict[Hashable, CheckEngine] = {}
        self._statuses: dict[Hashable, EngineStatus] = {}
        self._seen: dict[EngineStatus, Settings] = {}
        """Status of each engine, including earlier ones, that computed results, with the settings
        of a file that the engine traced."""
        self._starting = asyncio.Lock()

    async def find_ready(self, own: FileSettings) -> tuple[CheckEngine, EngineStatus]:
        """Return the engine for the settings of a file, after it has started, and its status.

        Raises:
            EngineUnusable: The engine cannot trace files, for example without torch.
        """
        async with self._starting:
            key = self._key(own)
            if key not in self._engines:
                self._listener.on_engine_start()
                engine = self._make_engine(own)
                self._engines[key] = engine
                await engine.start()
            if key not in self._statuses:
                self._statuses[key] = await self._engines[key].ready()
            status = self._statuses[key]
            require_usable(status)
        self.add_status(status, own)
        return self._engines[key], status

    def add_status(self, status: EngineStatus, own: FileSettings) -> None:
        """Record that an engine with this status computed results of the check."""
        self._seen.setdefault(dataclasses.replace(status, pid=0), own.settings)

    def versions(self, name: Literal["torch", "python"]) -> str:
        """Return the versions of torch or Python (``name``) of all engines that computed results,
        separated by commas. Without results, the text is empty."""
        return ", ".join(sorted({getattr(status, name) for status in self._seen} - {""}))

    def degraded_facts(self) -> frozenset[Degraded]:
        """Return the facts about traces, such as their graphs, that at least one engine's torch
        does not show completely."""
        return frozenset(fact for status in self._seen for fact in status.degraded)

    def hidden_warnings(self) -> tuple[str, ...]:
        """Return warnings about findings that cannot be detected with the torch of an engine."""
        warnings = (
            hidden_warning(status, hidden_facts(status, settings))
            for status, settings in self._seen.items()
        )
        return tuple(sorted(set(filter(None, warnings))))

    def kill(self) -> None:
        """Kill all engines; they do not have unsaved state."""
        for engine in self._engines.values():
            engine.kill()

    async def close(self, *, kill: bool = False) -> None:
        """Stop all engines; with ``kill``, do not wait for their requests."""
        if kill:
            self.kill()
        for engine in self._engines.values():
            await engine.close()


def _reusable_results(stored: StoredRun | None, basis: TraceBasis, path: str) -> Reused | None:
    """Return the valid results of a stored run for a new trace with the inputs ``basis``; None
    without valid results."""
    if stored is None or stored.is_interrupted:
        return None
    results = stored.find_all(basis, path) if stored.is_complete else None
    if results is not None:
        return Reused(results, results.placed, (), True, ())
    known = stored.find_unaffected(basis, path)
    if known is None or stored.is_complete:
        return known
    return dataclasses.replace(known, is_complete=False)


def _unfinished_words(path: str, results: Results) -> str:
    """Return a sentence about a file of which only some targets were traced."""
    traced = len({shown.report.name for shown in results.reports()})
    total = traced + len(results.unreported)
    return f"{path} was analyzed only in part: {traced} of {amount(total, 'target')} traced."


def _left_out(settings: Settings) -> tuple[LeftOut, ...]:
    wanted: dict[LeftOut, bool] = {
        "dynamic sizes": settings.try_dynamic,
        "other paths": settings.try_paths,
    }
    return tuple(kind for kind, is_wanted in wanted.items() if not is_wanted)


def failure_words(path: str, results: Results) -> str:
    """Return sentences on why the file ``path`` could not be traced; empty if it was traced."""
    failure = results.failure
    if failure is None:
        return ""
    return sentences(f"{path} could not be traced", failure.reason, failure.next_step)


def _add_note(file: CheckedFile, source: SourceFile, note: str) -> CheckedFile:
    """Add a note to the results of a file if the user named the file itself, and not only its
    folder."""
    return dataclasses.replace(file, notes=(*file.notes, note)) if source.named else file
