"""How many breaks of real code a verified fix ends, and what it takes.

    .venv/bin/python tests/benchmarks/fixes.py [--python PYTHON] [--every N] [--safe] PATHS…

Each file is traced, and fixes are applied one after the other, as ``fullgraph fix --unsafe`` does;
nothing is written. Breaks of targets that raise in eager mode as well, which no fix can end, are
counted apart. ``--safe``: only safe ones. ``--forecast`` and ``--export`` also take what is
found so. ``--again`` executes original and fix of each safe one, applied or not, on 50 further
inputs made at random, in eager mode. Prints a line for each file with the totals so far, then the
counts by kind and grade, and the times from the beginning of a search to its best fix; also when it
is stopped by SIGINT or SIGTERM. Graph breaks are counted apart from other findings, such as sizes
that are constants; a fix counts for each finding that it ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from fullgraph.engines import Engine
from fullgraph.fixes.fixable import fixable
from fullgraph.fixes.fixing import Fixed, fixed
from fullgraph.fixes.tracing import events
from fullgraph.fixes.verification import Fix, Grade
from fullgraph.session.request import analyze_request
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Analyze, Compare, Compared, Finding
from fullgraph_engine.protocol.evidence import BreakEvidence

MOST_SECONDS = 300.0
"""For one file."""

BREAKS = ("graph-break/", "frame-skipped/")


def kind(finding: Finding) -> str:
    evidence = finding.evidence
    return evidence.title if isinstance(evidence, BreakEvidence) else finding.code


def request_of(path: Path, options: argparse.Namespace) -> Analyze:
    text = path.read_text(encoding="utf-8")
    return analyze_request(
        name=str(path.absolute()),
        text=text,
        generation="1",
        settings=Settings(export=options.export),
        project=path.absolute().parent,
        forecast=options.forecast,
    )


FURTHER = 50
"""Inputs that a safe fix is tried on once more."""


@dataclass
class Again:
    """What became of safe fixes on further inputs."""

    fixes: int = 0
    inputs: int = 0
    differing: list[str] = field(default_factory=list)

    async def compare(self, engine: Engine, request: Analyze, fix: Fix) -> None:
        """Execute both texts of a fix once more. ``request`` is of the text that it is for."""
        self.fixes += 1
        for target in dict.fromkeys(finding.target for finding in fix.findings):
            order = Compare(0, request, target, fix.candidate.text, seconds=30.0, at_random=FURTHER)
            async for event in events(engine.compare(order)):
                if isinstance(event, Compared):
                    self.inputs += len(event.cases)
                    if event.outcome == "differs":
                        self.differing.append(f"{fix.candidate.title}: {event.reason}")

    async def all_of(self, engine: Engine, request: Analyze, result: Fixed) -> None:
        """The safe ones among those that were applied, and among those that were not."""
        for fix in result.applied:
            if fix.grade == "safe":
                await self.compare(engine, request, fix)
            request = replace(request, text=fix.candidate.text)
        for offered in result.left:
            for fix in offered.search.fixes:
                if fix.grade == "safe":
                    await self.compare(engine, request, fix)


async def one(engine: Engine, path: Path, options: argparse.Namespace) -> Fixed:
    request = request_of(path, options)
    grades: tuple[Grade, ...] = ("safe",) if options.safe else ("safe", "unsafe")
    return await asyncio.wait_for(fixed(engine, request, grades=grades), MOST_SECONDS)


async def fails_anyway(engine: Engine, request: Analyze, target: str) -> bool:
    """Whether what the probes call raises in eager mode as well, so that no fix can end it."""
    order = Compare(0, request, target, request.text, seconds=1.0)
    async for event in events(engine.compare(order)):
        if isinstance(event, Compared):
            given = [one for one in event.cases if one.values == "given"]
            return bool(given) and all(one.outcome == "raised" for one in given)
    return False


@dataclass
class Counts:
    """Findings of one sort, by their kind."""

    ended: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        ended, total = self.ended.total(), self.ended.total() + self.left.total()
        return f"{ended} of {total}" + (f" ({100 * ended / total:.0f} %)" if total else "")

    def by_kind(self) -> list[str]:
        both = self.ended + self.left
        return [f"  {self.ended[name]:4} of {many:4}  {name}" for name, many in both.most_common()]


@dataclass
class Totals:
    breaks: Counts = field(default_factory=Counts)
    others: Counts = field(default_factory=Counts)
    grades: Counter[str] = field(default_factory=Counter)
    """Of fixes that end a graph break."""
    failing: Counter[str] = field(default_factory=Counter)
    """Findings of calls that fail in eager mode as well, which are not counted else."""
    seconds: list[float] = field(default_factory=list)
    """Of all fixes, from the beginning of the search to the fix."""
    files: int = 0
    broken: int = 0
    """Files with graph breaks."""
    clean: int = 0
    """Of these, those that have none in the end."""
    without_answer: list[str] = field(default_factory=list)
    again: Again = field(default_factory=Again)

    def _of(self, finding: Finding) -> Counts:
        return self.breaks if finding.code.startswith(BREAKS) else self.others

    def add(self, result: Fixed, failing: set[str]) -> None:
        """``failing``: targets that fail in eager mode as well."""
        breaks = False
        for fix in result.applied:
            self.seconds.append(fix.seconds)
            ended = [one for one in fix.findings if fixable(one)]
            for one in ended:
                self._of(one).ended[kind(one)] += 1
            if any(one.code.startswith(BREAKS) for one in ended):
                self.grades[fix.grade] += 1
                breaks = True
        remaining = [one.finding for one in result.left if one.finding.target not in failing]
        for finding in remaining:
            self._of(finding).left[kind(finding)] += 1
        self.failing.update(
            kind(one.finding) for one in result.left if one.finding.target in failing
        )
        left = any(one.code.startswith(BREAKS) for one in remaining)
        self.broken += breaks or left
        self.clean += breaks and not left

    def show(self) -> None:
        again = self.again
        if again.fixes:
            print(f"\n{again.fixes} safe fixes on {again.inputs} further inputs: ", end="")
            print(f"{len(again.differing)} differ", *again.differing, sep="\n  ")
        print(f"\n{self.files} files, {self.broken} with graph breaks, {self.clean} have none left")
        if self.without_answer:
            print(f"{len(self.without_answer)} without an answer:", *self.without_answer)
        print(f"graph breaks ended: {self.breaks}: {dict(self.grades)}")
        print(*self.breaks.by_kind(), sep="\n")
        if self.failing:
            number = self.failing.total()
            print(f"{number} findings of calls that fail in eager mode as well, left out")
        print(f"other findings ended: {self.others}")
        print(*self.others.by_kind(), sep="\n")
        if self.seconds:
            ordered = sorted(self.seconds)
            print(
                f"seconds to a fix: median {statistics.median(ordered):.2f}, "
                f"90 % {ordered[int(0.9 * (len(ordered) - 1))]:.2f}, most {ordered[-1]:.2f}"
            )


def show_left(result: Fixed, failing: set[str]) -> None:
    for offered in result.left:
        line = offered.finding.range.start.line + 1
        also = ", fails in eager mode as well" if offered.finding.target in failing else ""
        print(f"  {line}: {kind(offered.finding)}{also}")
        for fix in offered.search.fixes:
            print(f"    {fix.grade}: {fix.candidate.title}: {fix.doubt}")
        for refused in offered.search.refused:
            print(f"    {refused.candidate.title}: {refused.why}")


async def measure(engine: Engine, path: Path, options: argparse.Namespace, totals: Totals) -> None:
    began = time.monotonic()
    try:
        result = await one(engine, path, options)
    except (TimeoutError, asyncio.TimeoutError, UnicodeDecodeError) as error:
        print(f"{path.name}: {type(error).__name__}", flush=True)
        totals.without_answer.append(path.name)
        return
    took = time.monotonic() - began
    if options.again:
        await totals.again.all_of(engine, request_of(path, options), result)
    last = replace(request_of(path, options), text=result.text)
    targets = {one.finding.target for one in result.left}
    failing = {one for one in targets if await fails_anyway(engine, last, one)}
    totals.files += 1
    totals.add(result, failing)
    if result.applied or result.left:
        times = ", ".join(f"{fix.seconds:.1f}" for fix in result.applied)
        counts = f"{len(result.applied)} applied ({times} s), {len(result.left)} left"
        print(f"{path.name}: {counts}, {took:.1f} s; graph breaks so far: {totals.breaks}")
        for fix in result.applied if options.verbose else ():
            print(f"  {fix.grade}: {fix.candidate.title}: {fix.doubt}")
        if options.verbose:
            show_left(result, failing)
        sys.stdout.flush()


async def run(options: argparse.Namespace) -> None:
    files: list[Path] = []
    for given in options.paths:
        files += sorted(given.rglob("*.py")) if given.is_dir() else [given]
    files = files[:: options.every]
    engine = Engine(options.python)
    await engine.start()
    await engine.ready()
    totals = Totals()
    this = asyncio.current_task()
    assert this is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, this.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        for path in files:
            await measure(engine, path, options, totals)
    totals.show()
    await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--every", type=int, default=1)
    for flag in ("safe", "forecast", "export", "verbose", "again"):
        parser.add_argument(f"--{flag}", action="store_true")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
