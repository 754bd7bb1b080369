"""How many breaks of real code a verified fix ends, and what it takes.

    .venv/bin/python tests/benchmarks/fixes.py [--python PYTHON] [--every N] [--safe] PATHS…

Each file is traced, and fixes are applied one after the other, as ``fullgraph fix --unsafe`` does;
nothing is written. Breaks of targets that raise in eager mode as well, which no fix can end, are
counted apart. ``--safe``: only safe ones. ``--forecast`` and ``--export`` also take what is
found so. ``--again`` executes original and fix of each safe one, applied or not, on 50 further
inputs made at random, in eager mode. Prints a line for each file, then the counts by kind and
grade, and the times from the beginning of a search to its best fix.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from fullgraph.engines import Engine
from fullgraph.fixes.fixing import Fixed, fixed
from fullgraph.fixes.tracing import events
from fullgraph.fixes.verification import Fix, Grade
from fullgraph.session.request import analyze_request
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Analyze, Compare, Compared, Finding
from fullgraph_engine.protocol.evidence import BreakEvidence

MOST_SECONDS = 300.0
"""For one file."""


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


async def run(options: argparse.Namespace) -> None:
    files: list[Path] = []
    for given in options.paths:
        files += sorted(given.rglob("*.py")) if given.is_dir() else [given]
    files = files[:: options.every]
    engine = Engine(options.python, on_status=lambda _: None, on_log=lambda _: None)
    await engine.start()
    await engine.ready()
    ended: Counter[str] = Counter()
    left: Counter[str] = Counter()
    failing: Counter[str] = Counter()
    grades: Counter[str] = Counter()
    seconds: list[float] = []
    clean = broken = 0
    again = Again()
    for path in files:
        began = time.monotonic()
        try:
            result = await one(engine, path, options)
        except (TimeoutError, asyncio.TimeoutError, UnicodeDecodeError) as error:
            print(f"{path.name}: {type(error).__name__}", flush=True)
            continue
        took = time.monotonic() - began
        if options.again:
            await again.all_of(engine, request_of(path, options), result)
        for fix in result.applied:
            grades[fix.grade] += 1
            seconds.append(fix.seconds)
            ended[kind(fix.findings[0])] += 1
        last = replace(request_of(path, options), text=result.text)
        targets = {one.finding.target for one in result.left}
        fails = {one for one in targets if await fails_anyway(engine, last, one)}
        for offered in result.left:
            (failing if offered.finding.target in fails else left)[kind(offered.finding)] += 1
        if result.applied or result.left:
            broken += 1
            clean += all(one.finding.target in fails for one in result.left)
            counts = f"{len(result.applied)} applied, {len(result.left)} left"
            print(f"{path.name}: {counts}, {took:.1f} s", flush=True)
            for offered in result.left if options.verbose else ():
                line = offered.finding.range.start.line + 1
                also = ", fails in eager mode as well" if offered.finding.target in fails else ""
                print(f"  {line}: {kind(offered.finding)}{also}")
                for fix in offered.search.fixes:
                    print(f"    {fix.grade}: {fix.candidate.title}: {fix.doubt}")
                for refused in offered.search.refused:
                    print(f"    {refused.candidate.title}: {refused.why}")
    await engine.close()
    if options.again:
        print(f"\n{again.fixes} safe fixes on {again.inputs} further inputs: ", end="")
        print(f"{len(again.differing)} differ", *again.differing, sep="\n  ")
    if failing:
        print(f"{sum(failing.values())} breaks of calls that fail in eager mode as well, left out")
    total = sum(ended.values()) + sum(left.values())
    print(f"\n{len(files)} files, {broken} with breaks, {clean} without any in the end")
    if not total:
        return
    share = 100 * sum(ended.values()) / total
    print(f"{sum(ended.values())} of {total} breaks ended ({share:.0f} %): {dict(grades)}")
    for name in sorted({*ended, *left}, key=lambda one: -(ended[one] + left[one])):
        print(f"  {ended[name]:4} of {ended[name] + left[name]:4}  {name}")
    if seconds:
        ordered = sorted(seconds)
        print(
            f"seconds to a fix: median {statistics.median(seconds):.2f}, "
            f"90 % {ordered[int(0.9 * (len(ordered) - 1))]:.2f}, most {ordered[-1]:.2f}"
        )


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
