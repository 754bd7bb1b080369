"""``fullgraph repro``: reduce one finding to a small script and save it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullgraph.cli import sources
from fullgraph.cli.check import EngineUnusable, failure_words, running_engine
from fullgraph.cli.show import ChosenPlace
from fullgraph.cli.sources import SourceFile
from fullgraph.domain import codes
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.phrases import listing
from fullgraph.domain.positions import text_hash
from fullgraph.domain.repro import ReductionState, ReproOutcome
from fullgraph.engines import AnalysisRequest, AnyEngine, ReproductionRequest
from fullgraph.render.json import VERSION, dump_json
from fullgraph.render.repro import issue_text, outcome_json, reduction_words
from fullgraph.results import Results
from fullgraph.session.findings import merge_findings
from fullgraph.session.repro import (
    findings_on_line,
    follow_reproduction,
    is_reproducible,
    rank_by_severity,
    reproduce_request,
    wanted_of_target,
)
from fullgraph.session.repro_files import name_of
from fullgraph.session.request import analyze_request
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import (
    Finding,
    FindingFound,
    ForecastFound,
    Importing,
    TargetDone,
    TargetInfo,
    TargetsFound,
    TargetStarted,
    Wanted,
)
from fullgraph_engine.protocol.repro import Backend

_MOST_LINES = 6
"""Maximum number of lines with findings that an error message lists."""
_LEAST = 0.5
"""Minimum fraction of the time budget for the reduction, however long the search for the finding
took."""


class NothingToReproduce(Exception):
    """Raised if the requested finding or target does not exist; the message says what exists, or
    how to list it."""


@dataclass(frozen=True)
class ReproRequest:
    """A request to make a small script that reproduces a finding, or the failure of a backend."""

    place: ChosenPlace
    """File, and line or target, of the finding."""
    code: str = ""
    """Code of the finding; empty for the most severe one."""
    target: str = ""
    """Traced function or class that reaches the finding; empty for any."""
    backend: Backend = ""
    """Backend of ``torch.compile`` whose failure is reproduced; empty for a finding."""
    accuracy: bool = False
    """True to reproduce wrong results of the backend instead of an error."""

    @property
    def where(self) -> str:
        """File and line of the requested finding, in words."""
        return (
            f"line {self.place.line} of {self.place.file}" if self.place.line else self.place.file
        )


@dataclass(frozen=True)
class ReproResult:
    """The result of ``fullgraph repro``.

    ``item`` is the reproduced finding, None for the failure of a backend. ``others`` are further
    findings that match the request. ``torch`` and ``python`` are versions.
    """

    request: ReproRequest
    outcome: ReproOutcome
    path: str
    """Absolute path of the traced file."""
    item: FileFinding | None = None
    others: tuple[FileFinding, ...] = ()
    torch: str = ""
    python: str = ""

    @property
    def name(self) -> str:
        """File name for the script, without suffix."""
        return name_of(self.outcome.wanted, self.item, self.path)

    def format_json(self, path: str, remark: str, *, issue: bool) -> str:
        """Format the result as JSON.

        ``path`` is where the script was saved, empty if it was not. ``issue`` adds the Markdown
        text of a bug report.
        """
        document: dict[str, Any] = {
            "version": VERSION,
            "torch": self.torch or None,
            "python": self.python or None,
            "finding": _finding_json(self.item) if self.item is not None else None,
            "others": [_finding_json(item) for item in self.others],
            "target": self.outcome.wanted.target,
            "backend": self.outcome.wanted.backend or None,
            **outcome_json(self.outcome, path),
        }
        if remark:
            document["remark"] = remark
        if issue:
            document["issue"] = issue_text(self.outcome)
        return dump_json(document)


async def reproduce_finding(
    repro_request: ReproRequest,
    *,
    settings: Settings,
    project: Path,
    engine: Callable[[], AnyEngine],
    show_progress: Callable[[str], None],
    folder: str = "",
) -> ReproResult:
    """Trace a file until the requested finding appears, and reduce the code to a small script.

    Data files of the script are written to ``folder``. If the coroutine is cancelled during the
    reduction, it returns the smallest script so far. A second cancellation ends it immediately.

    Raises:
        UnreadableFile: The file cannot be read.
        EngineUnusable: The engine cannot trace files, for example without torch.
        NothingToReproduce: The finding or the target does not exist.
    """
    source = SourceFile(repro_request.place.file, Path.cwd() / repro_request.place.file, named=True)
    text = sources.read_source(source)
    if repro_request.code:
        settings = dataclasses.replace(settings, select=(repro_request.code,), ignore=())
    request = analyze_request(
        name=str(source.absolute),
        text=text,
        generation=text_hash(text),
        settings=settings,
        project=project,
        focus=max(0, repro_request.place.line - 1),
        only=(repro_request.target,) if repro_request.target else (),
        forecast=settings.forecast or codes.matches_selector(repro_request.code, "recompile"),
    )
    show_progress("Importing torch")
    running, clock = engine(), asyncio.get_running_loop().time
    async with running_engine(running) as status:
        search, since = (
            _FindingSearch(repro_request, settings, show_progress, str(project)),
            clock(),
        )
        found = await search.run(running.analyze(request))
        reproduction_request = reproduce_request(request, found.wanted, settings)
        seconds = max(
            reproduction_request.seconds - (clock() - since), reproduction_request.seconds * _LEAST
        )
        reproduction_request = dataclasses.replace(
            reproduction_request, folder=folder, seconds=seconds
        )
        reproduction = running.reproduce(reproduction_request)
        outcome = await _await_best(reproduction, repro_request, show_progress)
    return ReproResult(
        repro_request,
        outcome,
        str(source.absolute),
        found.item,
        found.others,
        torch=status.torch,
        python=status.python,
    )


async def _await_best(
    reproduction: ReproductionRequest, request: ReproRequest, show_progress: Callable[[str], None]
) -> ReproOutcome:
    show_progress(f"Reducing {request.where}")

    def report_reduction(state: ReductionState) -> None:
        show_progress(f"Reducing {request.where}: {reduction_words(state)}")

    following = asyncio.ensure_future(follow_reproduction(reproduction, report_reduction))
    try:
        return await asyncio.shield(following)
    except asyncio.CancelledError:
        show_progress("Stopping with the smallest script so far")
        reproduction.cancel()
    try:
        return await asyncio.shield(following)
    except asyncio.CancelledError:
        reproduction.abandon()
        return await following


@dataclass(frozen=True)
class _WantedFinding:
    wanted: Wanted
    item: FileFinding | None = None
    others: tuple[FileFinding, ...] = ()


class _FindingSearch:
    """A search for the requested finding or target among the events that the engine sends while it
    traces a file."""

    def __init__(
        self,
        request: ReproRequest,
        settings: Settings,
        show_progress: Callable[[str], None],
        folder: str,
    ) -> None:
        self._folder = folder
        self._request = request
        self._settings = settings
        self._show_progress = show_progress
        self._results = Results()
        self._results.begin_run()

    async def run(self, analysis: AnalysisRequest) -> _WantedFinding:
        async for event in analysis:
            self._results.apply_event(event)
            if isinstance(event, TargetsFound):
                if self._request.backend:
                    analysis.cancel()
                    return _WantedFinding(self._wanted_of_target(event.targets))
                self._check_target()
            elif isinstance(event, Importing):
                self._show_progress(f"Importing {event.module}")
            elif isinstance(event, TargetStarted):
                self._show_progress(f"Tracing {event.name}")
            elif isinstance(event, (FindingFound, ForecastFound)):
                if self._request.code and (found := self._choose_finding(certain=True)):
                    # Only this finding is needed, so other targets of the file are not traced.
                    analysis.cancel()
                    return found
            elif (
                isinstance(event, TargetDone)
                and self._has_finding_on_line(event.report.name)
                and (found := self._choose_finding())
            ):
                # Tracing other targets, execution paths and sizes may take long, and would show the
                # same finding.
                analysis.cancel()
                return found
        words = failure_words(self._request.place.file, self._results)
        if words:
            raise NothingToReproduce(words) if self._results.unparsed else EngineUnusable(words)
        found = self._choose_finding()
        if found is None:
            raise NothingToReproduce(self._missing_finding_message())
        return found

    def _has_finding_on_line(self, target: str) -> bool:
        """Whether tracing ``target`` has so far reported a finding on the requested line.

        Returns False if the request does not have a line.
        """
        found = any(item.finding.target == target for item in self._findings_on_line())
        return bool(self._request.place.line) and found

    def _is_requested(self, finding: Finding) -> bool:
        target = self._request.target
        return not target or finding.target in (target, "")

    def _check_target(self) -> None:
        if self._request.target and self._request.target not in self._results.names:
            raise NothingToReproduce(self._missing_target_message(self._results.names))

    def _wanted_of_target(self, targets: Sequence[TargetInfo]) -> Wanted:
        request, line = self._request, self._request.place.line - 1
        named = [target for target in targets if target.name == request.target]
        # Choose the last target that begins above the line; without a line, the only target.
        above = [target for target in targets if target.range.start.line <= line]
        if not request.target:
            named = above[-1:] if request.place.line else list(targets) if len(targets) == 1 else []
        if not named:
            raise NothingToReproduce(
                self._missing_target_message([target.name for target in targets])
            )
        return wanted_of_target(named[0], request.backend, accuracy=request.accuracy)

    def _missing_target_message(self, names: Sequence[str]) -> str:
        request = self._request
        if not names:
            return (
                f"{request.place.file} has no function or class to trace; `fullgraph check "
                f"{request.place.file}` shows why."
            )
        if request.target:
            problem = f"There is no target `{request.target}` in {request.place.file}"
        elif request.place.line:
            problem = f"No target begins at or above {request.where}"
        else:
            problem = f"{request.where} has several targets"
        known = listing([f"`{name}`" for name in dict.fromkeys(names)])
        return f"{problem}; choose one with --target: {known}."

    def _choose_finding(self, *, certain: bool = False) -> _WantedFinding | None:
        candidates = [
            item for item in self._findings_on_line() if certain or self._is_reproducible(item)
        ]
        if not candidates:
            return None
        first, *others = rank_by_severity(candidates)
        return _WantedFinding(first.finding.to_wanted(), first, tuple(others))

    def _is_reproducible(self, item: FileFinding) -> bool:
        # If the user names a code, try every finding with this code.
        return bool(self._request.code) or is_reproducible(item.finding.code)

    def _findings_on_line(self) -> Iterable[FileFinding]:
        line = self._request.place.line
        return (
            findings_on_line(self._merged_findings(), line - 1) if line else self._merged_findings()
        )

    def _merged_findings(self) -> tuple[FileFinding, ...]:
        found = filter(self._is_requested, self._results.findings())
        return merge_findings(found, self._settings, self._results.names, self._folder)

    def _missing_finding_message(self) -> str:
        request, file = self._request, self._request.place.file
        look = f"`fullgraph check {file}` lists all findings"
        codes_on_line = sorted({item.finding.code for item in self._findings_on_line()})
        if codes_on_line:
            names = listing([f"`{code}`" for code in codes_on_line])
            return f"{names} on {request.where} cannot be reproduced in a separate script; {look}."
        what = f"`{request.code}`" if request.code else "finding"
        reproducible_findings = filter(self._is_reproducible, self._merged_findings())
        lines = sorted({item.finding.range.start.line + 1 for item in reproducible_findings})
        if not lines or not request.place.line:
            return f"There is no {what} in {file}; {look}."
        numbers = [str(line) for line in lines[:_MOST_LINES]]
        more = f" and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
        known = f"{', '.join(numbers)}{more}" if more else listing(numbers)
        word = "line" if len(lines) == 1 else "lines"
        return f"There is no {what} on {request.where}, only on {word} {known}; {look}."


def _finding_json(item: FileFinding) -> dict[str, Any]:
    return {
        "id": item.id,
        "code": item.finding.code,
        "severity": item.severity.value,
        "message": item.finding.message,
        "line": item.finding.range.start.line,
        "targets": list(item.targets),
    }
