"""``fullgraph repro``: a small script that shows one finding, written beside the project."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullgraph.cli import sources
from fullgraph.cli.check import Unusable, working
from fullgraph.cli.show import Chosen
from fullgraph.cli.sources import SourceFile
from fullgraph.domain import codes
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.phrases import listing
from fullgraph.domain.positions import text_hash
from fullgraph.domain.repro import ReductionState, ReproOutcome
from fullgraph.engines import Analysis, AnyEngine, Reproduction, sentences
from fullgraph.render.json import VERSION, dump
from fullgraph.render.repro import issue_text, outcome_json, reduction_words
from fullgraph.session.findings import merge
from fullgraph.session.repro import (
    followed,
    on_line,
    ranked,
    reproduce_request,
    reproducible,
    wanted_of_target,
)
from fullgraph.session.repro_files import name_of
from fullgraph.session.request import analyze_request
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import (
    Failed,
    Finding,
    FindingFound,
    ForecastFound,
    Importing,
    Restarted,
    TargetDone,
    TargetInfo,
    TargetsFound,
    TargetStarted,
    Wanted,
)
from fullgraph_engine.protocol.repro import Backend

_SYNTAX = "trace/syntax-error"
_MOST_LINES = 6
_LEAST = 0.5
"""The part of the time budget that is left for a repro however long its finding was looked for."""


class Nothing(Exception):
    """There is nothing that could be reproduced. One sentence, and the next step."""


@dataclass(frozen=True)
class Wish:
    """What is to be shown: a finding at a place, or with a backend what it does to a target."""

    place: Chosen
    code: str = ""
    target: str = ""
    backend: Backend = ""
    accuracy: bool = False

    @property
    def where(self) -> str:
        return (
            f"line {self.place.line} of {self.place.file}" if self.place.line else self.place.file
        )


@dataclass(frozen=True)
class Reproduced:
    """What came of a wish. ``item`` is the finding, if there is one; ``others`` were there too."""

    wish: Wish
    outcome: ReproOutcome
    path: str
    """What the engine calls the file."""
    item: FileFinding | None = None
    others: tuple[FileFinding, ...] = ()
    torch: str = ""
    python: str = ""

    @property
    def name(self) -> str:
        return name_of(self.outcome.wanted, self.item, self.path)

    def json(self, path: str, remark: str, *, issue: bool) -> str:
        document: dict[str, Any] = {
            "version": VERSION,
            "torch": self.torch or None,
            "python": self.python or None,
            "finding": _json(self.item) if self.item is not None else None,
            "others": [_json(item) for item in self.others],
            "target": self.outcome.wanted.target,
            "backend": self.outcome.wanted.backend or None,
            **outcome_json(self.outcome, path),
        }
        if remark:
            document["remark"] = remark
        if issue:
            document["issue"] = issue_text(self.outcome)
        return dump(document)


async def reproduced(
    wish: Wish,
    *,
    settings: Settings,
    project: Path,
    engine: Callable[[], AnyEngine],
    tell: Callable[[str], None],
    folder: str = "",
) -> Reproduced:
    """Find what is meant as a check would, and have it reduced. Data comes into ``folder``.

    Cancelled while it is being reduced, it returns the best that there is; cancelled once more, it
    does so at once.

    Raises:
        Unreadable: the file cannot be read.
        Unusable: the engine cannot work.
        Nothing: there is no such finding or target.
    """
    source = SourceFile(wish.place.file, Path.cwd() / wish.place.file, named=True)
    text = sources.read(source)
    if wish.code:
        settings = dataclasses.replace(settings, select=(wish.code,), ignore=())
    request = analyze_request(
        name=str(source.absolute),
        text=text,
        generation=text_hash(text),
        settings=settings,
        project=project,
        focus=max(0, wish.place.line - 1),
        only=(wish.target,) if wish.target else (),
        forecast=settings.forecast or codes.fits(wish.code, "recompile"),
    )
    tell("Importing torch")
    running, clock = engine(), asyncio.get_running_loop().time
    async with working(running) as status:
        search, since = _Search(wish, settings, tell, str(project)), clock()
        found = await search.run(running.analyze(request))
        asked = reproduce_request(request, found.wanted, settings)
        seconds = max(asked.seconds - (clock() - since), asked.seconds * _LEAST)
        asked = dataclasses.replace(asked, folder=folder, seconds=seconds)
        reproduction = running.reproduce(asked)
        outcome = await _kept_when_cancelled(reproduction, wish, tell)
    return Reproduced(
        wish,
        outcome,
        str(source.absolute),
        found.item,
        found.others,
        torch=status.torch,
        python=status.python,
    )


async def _kept_when_cancelled(
    reproduction: Reproduction, wish: Wish, tell: Callable[[str], None]
) -> ReproOutcome:
    tell(f"Reducing {wish.where}")

    def advanced(state: ReductionState) -> None:
        tell(f"Reducing {wish.where}: {reduction_words(state)}")

    following = asyncio.ensure_future(followed(reproduction, advanced))
    try:
        return await asyncio.shield(following)
    except asyncio.CancelledError:
        tell("Ending it with the best so far")
        reproduction.cancel()
    try:
        return await asyncio.shield(following)
    except asyncio.CancelledError:
        reproduction.abandon()
        return await following


@dataclass(frozen=True)
class _Found:
    wanted: Wanted
    item: FileFinding | None = None
    others: tuple[FileFinding, ...] = ()


class _Search:
    """Looks for what is meant in the events of an analysis."""

    def __init__(
        self, wish: Wish, settings: Settings, tell: Callable[[str], None], folder: str
    ) -> None:
        self._folder = folder
        self._wish = wish
        self._settings = settings
        self._tell = tell
        self._findings: list[Finding] = []
        self._names: list[str] = []

    async def run(self, analysis: Analysis) -> _Found:
        failure: Failed | None = None
        async for event in analysis:
            if isinstance(event, TargetsFound):
                if self._wish.backend:
                    analysis.cancel()
                    return _Found(self._of_target(event.targets))
                self._names = [target.name for target in event.targets]
                self._check_target()
            elif isinstance(event, Importing):
                self._tell(f"Importing {event.module}")
            elif isinstance(event, TargetStarted):
                self._tell(f"Tracing {event.name}")
            elif isinstance(event, (FindingFound, ForecastFound)):
                told = event.findings if isinstance(event, ForecastFound) else (event.finding,)
                self._findings += filter(self._of_wish, told)
                if self._wish.code and (found := self._chosen(certain=True)):
                    # Only this one is wanted: the rest of the file need not be traced.
                    analysis.cancel()
                    return found
            elif isinstance(event, TargetDone):
                if self._traced(event.report.name) and (found := self._chosen()):
                    # Other targets, and other paths and sizes, may take long and show the same.
                    analysis.cancel()
                    return found
            elif isinstance(event, Restarted):
                self._findings.clear()
            elif isinstance(event, Failed):
                failure = event
        if failure is not None:
            untraced = f"{self._wish.place.file} could not be traced"
            words = sentences(untraced, failure.reason, failure.next_step)
            raise Nothing(words) if self._unparsed else Unusable(words)
        found = self._chosen()
        if found is None:
            raise Nothing(self._none())
        return found

    @property
    def _unparsed(self) -> bool:
        return any(finding.code == _SYNTAX for finding in self._findings)

    def _traced(self, target: str) -> bool:
        """All is known that a first run of a target finds on the line."""
        found = any(item.finding.target == target for item in self._there())
        return bool(self._wish.place.line) and found

    def _of_wish(self, finding: Finding) -> bool:
        target = self._wish.target
        return not target or finding.target in (target, "")

    def _check_target(self) -> None:
        if self._wish.target and self._wish.target not in self._names:
            raise Nothing(self._no_target(self._names))

    def _of_target(self, targets: Sequence[TargetInfo]) -> Wanted:
        wish, line = self._wish, self._wish.place.line - 1
        named = [target for target in targets if target.name == wish.target]
        # Of those that begin above the line the nearest; a file may have only one.
        above = [target for target in targets if target.range.start.line <= line]
        if not wish.target:
            named = above[-1:] if wish.place.line else list(targets) if len(targets) == 1 else []
        if not named:
            raise Nothing(self._no_target([target.name for target in targets]))
        return wanted_of_target(named[0], wish.backend, accuracy=wish.accuracy)

    def _no_target(self, names: Sequence[str]) -> str:
        wish = self._wish
        if not names:
            return f"{wish.place.file} has no target; `fullgraph check` says what could be one."
        missing = f"target `{wish.target}` in {wish.place.file}" if wish.target else ""
        missing = missing or f"one target that is meant by {wish.where}"
        known = listing([f"`{name}`" for name in dict.fromkeys(names)])
        return f"There is no {missing}; choose one with --target: {known}."

    def _chosen(self, *, certain: bool = False) -> _Found | None:
        there = [item for item in self._there() if certain or self._may_be(item)]
        if not there:
            return None
        first, *others = ranked(there)
        return _Found(first.finding.to_wanted(), first, tuple(others))

    def _may_be(self, item: FileFinding) -> bool:
        # Whoever names a code is taken by their word.
        return bool(self._wish.code) or reproducible(item.finding.code)

    def _there(self) -> Iterable[FileFinding]:
        line = self._wish.place.line
        return on_line(self._merged(), line - 1) if line else self._merged()

    def _merged(self) -> tuple[FileFinding, ...]:
        return merge(self._findings, self._settings, self._names, self._folder)

    def _none(self) -> str:
        wish, file = self._wish, self._wish.place.file
        look = f"`fullgraph check {file}` shows what there is"
        there = sorted({item.finding.code for item in self._there()})
        if there:
            names = listing([f"`{code}`" for code in there])
            return f"A script of its own could not show {names} on {wish.where}; {look}."
        what = f"`{wish.code}`" if wish.code else "finding"
        some = filter(self._may_be, self._merged())
        lines = sorted({item.finding.range.start.line + 1 for item in some})
        if not lines or not wish.place.line:
            return f"There is no {what} in {file}; {look}."
        shown = [str(line) for line in lines[:_MOST_LINES]]
        more = f" and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
        known = f"{', '.join(shown)}{more}" if more else listing(shown)
        word = "line" if len(lines) == 1 else "lines"
        return f"There is no {what} on {wish.where}, but on {word} {known}; {look}."


def _json(item: FileFinding) -> dict[str, Any]:
    return {
        "code": item.finding.code,
        "severity": item.severity.value,
        "message": item.finding.message,
        "line": item.finding.range.start.line,
        "targets": list(item.targets),
    }
