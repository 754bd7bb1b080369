"""Jobs that make repros (short scripts that show a finding) for an editor: two at a time, one job
per finding.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from fullgraph.domain.findings import FileFinding
from fullgraph.domain.repro import ReductionState, ReproOutcome
from fullgraph.engines import ReproductionRequest, sentences
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.repro import follow_reproduction, reproduce_request
from fullgraph.session.repro_files import (
    ReproData,
    ReproUnwritable,
    WrittenRepro,
    folder_of,
    name_of,
    temporary_data_folder,
    write_repro,
)
from fullgraph.session.session import Session
from fullgraph_engine.protocol import Reproduce, Wanted

MOST_AT_ONCE = 2

_SAVE_SECONDS = 5.0
"""Maximum seconds to wait, during the shutdown of the server, until repros are saved."""

_MOST_KEPT = 8
"""Maximum number of finished repros whose results stay available."""


class Bar(Protocol):
    """A progress bar in the editor for one repro job."""

    def advance(self, state: ReductionState, seconds: float) -> None:
        """Show the state of the repro job; ``seconds`` is its time limit."""

    def end(self) -> None: ...


Shown = Callable[[Reproduce, Callable[[], None]], Bar]
"""Function that shows a repro job as a progress bar, given its request and a function that cancels
it.
"""


@dataclass(frozen=True)
class MadeRepro:
    """The outcome of a repro job and the written script; ``lost`` is a sentence if the script could
    not be written, else empty.
    """

    outcome: ReproOutcome
    name: str
    folder: Path
    kept: WrittenRepro | None = None
    lost: str = ""

    @property
    def reason(self) -> str:
        """Sentences for the user about problems with the repro; empty if there are none."""
        remark = self.lost or (self.kept.remark if self.kept is not None else "")
        return sentences(self.outcome.reason, remark)

    @property
    def intact(self) -> bool:
        """Whether the written script still exists and is unchanged."""
        found, kept = self.outcome.found, self.kept
        if found is None or kept is None:
            return False
        try:
            is_same = kept.path.read_text(encoding="utf-8") == found.script
            return is_same and ReproData(names=found.data).is_beside(kept.path)
        except (OSError, ValueError):
            return False


class _Job:
    def __init__(
        self, session: Session, unit: AnalysisUnit, wanted: Wanted, item: FileFinding | None
    ) -> None:
        settings = session.workspace.settings(unit.document)
        self.uri = unit.document.uri
        # Build the request now, because the range of the finding refers to the current text.
        analyze = session.files.build_request(unit, (wanted.target,))
        self.request = reproduce_request(analyze, wanted, settings)
        self.name = name_of(wanted, item, unit.document.name)
        self.folder = folder_of(settings, session.workspace.project(unit.document))
        self.unit = unit
        self.key = unit.document.hash, self.uri, self.request.wanted, settings.tracing_key()
        self.waiters = 0
        self.cancelled = False
        self.again = False
        """True if the job is being cancelled only to start again with another time limit."""
        self.reproduction: ReproductionRequest | None = None
        self.task: asyncio.Task[MadeRepro] | None = None

    def cancel(self) -> None:
        """Cancel the repro job; its best script so far becomes the result."""
        self.cancelled = True
        if self.reproduction is not None:
            self.reproduction.cancel()
        elif self.task is not None:
            self.task.cancel()

    def set_time_limit(self, seconds: float) -> None:
        """Change the time limit and restart the repro job, because the engine plans its work for
        the limit.
        """
        if seconds == self.request.seconds:
            return
        self.request = dataclasses.replace(self.request, seconds=seconds)
        if self.reproduction is not None:
            self.again = True
            self.reproduction.cancel()


class ReproJobs:
    """A queue that makes repros, ``MOST_AT_ONCE`` at a time; equal requests share one job and its
    result.
    """

    def __init__(self, session: Session, shown: Shown) -> None:
        self._session = session
        self._shown = shown
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._jobs: dict[object, _Job] = {}
        self._made: dict[object, MadeRepro] = {}

    async def make_repro(
        self, unit: AnalysisUnit, wanted: Wanted, item: FileFinding | None = None
    ) -> MadeRepro:
        """Return the repro of a finding from the cache, a running job or a new job.

        ``wanted`` describes the repro; ``item`` is the finding, None for a backend failure. If the
        last caller that waits for a job is cancelled, the job ends with its best script so far.
        """
        await self._session.permission.configured.wait()
        job = _Job(self._session, unit, wanted, item)
        known = self._made.get(job.key)
        if known is not None and known.outcome.verified and known.intact:
            return known
        job = self._jobs.setdefault(job.key, job)
        if job.task is None:
            job.task = asyncio.create_task(self._run_job(job))
        job.waiters += 1
        try:
            return await asyncio.shield(job.task)
        except asyncio.CancelledError:
            if job.waiters > 1 or job.task.done():
                raise
            job.cancel()
        finally:
            job.waiters -= 1
        return await asyncio.shield(job.task)

    def find_at_path(self, path: Path | None) -> MadeRepro | None:
        """Return the repro whose script was written to ``path``; None for other files."""
        for made in self._made.values():
            if path is not None and made.kept is not None and made.kept.path == path:
                return made
        return None

    def cancel(self, uri: str = "") -> None:
        """Cancel the repro jobs of the file ``uri``, or all if it is empty; their best scripts
        become the results.
        """
        for job in list(self._jobs.values()):
            if uri in ("", job.uri):
                job.cancel()

    async def wait_until_saved(self) -> None:
        """Wait, for at most ``_SAVE_SECONDS``, until the jobs whose engines were closed have saved
        their best scripts."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=_SAVE_SECONDS)

    def settings_changed(self) -> None:
        """Apply a changed time limit to running repro jobs, after the settings have changed."""
        for job in self._jobs.values():
            job.set_time_limit(
                self._session.workspace.settings(job.unit.document).repro_time_budget
            )

    async def _run_job(self, job: _Job) -> MadeRepro:
        try:
            made = await self._make_and_write(job)
        finally:
            del self._jobs[job.key]
        self._made.pop(job.key, None)
        self._made[job.key] = made
        for old in list(self._made)[:-_MOST_KEPT]:
            del self._made[old]
        return made

    async def _make_and_write(self, job: _Job) -> MadeRepro:
        with temporary_data_folder() as folder:
            job.request = dataclasses.replace(job.request, folder=folder)
            try:
                outcome = await self._reproduce_finding(job)
            except asyncio.CancelledError:
                if not job.cancelled:
                    raise
                reason = "Making the repro was cancelled before it began."
                outcome = ReproOutcome(job.request.wanted, reason=reason, cancelled=True)
            return await asyncio.to_thread(_write_outcome, job, outcome)

    async def _reproduce_finding(self, job: _Job) -> ReproOutcome:
        with self._show_progress(job) as bar:
            async with self._room:
                engine = self._session.engines.engine_on_demand(job.unit)
                if isinstance(engine, str):
                    return ReproOutcome(job.request.wanted, reason=engine, failed=True)
                while True:
                    job.again = False
                    job.reproduction = engine.reproduce(job.request)
                    report = partial(bar.advance, seconds=job.request.seconds)
                    outcome = await follow_reproduction(job.reproduction, report)
                    if not job.again or job.cancelled or outcome.verified:
                        return outcome

    @contextlib.contextmanager
    def _show_progress(self, job: _Job) -> Iterator[Bar]:
        bar = self._shown(job.request, job.cancel)
        try:
            yield bar
        finally:
            bar.end()


def _write_outcome(job: _Job, outcome: ReproOutcome) -> MadeRepro:
    made = MadeRepro(outcome, job.name, job.folder)
    if outcome.found is None:
        return made
    data = ReproData(job.request.folder, outcome.found.data)
    try:
        kept = write_repro(
            job.folder, job.name, ".py", outcome.found.script, data, unversioned=True
        )
    except ReproUnwritable as error:
        return dataclasses.replace(made, lost=str(error))
    return dataclasses.replace(made, kept=kept)
