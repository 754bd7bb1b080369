"""An engine host that is asked for findings and for repros of them, one after the other."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ENGINE = Path(__file__).parents[2] / "engine"
if str(ENGINE) not in sys.path:
    sys.path.insert(0, str(ENGINE))

from fullgraph_engine import protocol  # noqa: E402
from fullgraph_engine.protocol import (  # noqa: E402
    Analyze,
    Analyzed,
    Compare,
    Compared,
    Failed,
    Finding,
    FindingFound,
    ForecastFound,
    Log,
    Part,
    Ready,
    Reproduce,
    Reproduced,
    ReproFound,
)

PATIENCE = 240.0
"""Longest silence of a host that is at work."""


class HostLost(RuntimeError):
    """It has died or says nothing any more."""


@dataclass(frozen=True)
class Reproduction:
    """What came of one finding. ``log`` tells what went wrong with programs that were tried."""

    found: ReproFound | None
    tried: int
    seconds: float
    reason: str
    log: str

    @property
    def verified(self) -> bool:
        return self.found is not None and self.found.verified


class Host:
    """One warm engine host, which starts its processes in one of two ways."""

    def __init__(self, processes: str = "auto") -> None:
        theirs, self._write = os.pipe()
        self._read, answers = os.pipe()
        boot = ENGINE / "fullgraph_engine" / "boot.py"
        self._process = subprocess.Popen(
            [
                *(sys.executable, str(boot), "--read", str(theirs), "--write", str(answers)),
                *("--processes", processes),
            ],
            pass_fds=(theirs, answers),
            stdin=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(answers)
        self.pid = self._process.pid
        self._requests = 0
        self._buffer = b""
        while not isinstance(self._event(), Ready):
            pass

    def findings(
        self, path: Path, *targets: str, parts: tuple[Part, ...] = ("first",)
    ) -> list[Finding]:
        """What an analysis of a file finds, of all targets or some; the last word of every run."""
        request = replace(self._analysis(path, targets), parts=parts)
        latest: dict[Any, Finding] = {}
        for event in self.answers(request):
            several: tuple[Finding, ...] = ()
            if isinstance(event, FindingFound):
                several = (event.finding,)
            elif isinstance(event, ForecastFound):
                several = event.findings
            for found in several:
                latest[found.run, found.code, found.identity or len(latest)] = found
        return list(latest.values())

    def reproduce(self, path: Path, finding: Finding, seconds: float = 30.0) -> Reproduction:
        """A script for a finding."""
        wanted = finding.to_wanted()
        analyze = self._analysis(path, (finding.target,))
        last: ReproFound | None = None
        log: list[str] = []
        for event in self.answers(Reproduce(analyze.request, analyze, wanted, seconds)):
            if isinstance(event, ReproFound):
                last = event
            elif isinstance(event, Log):
                log.append(event.text)
            elif isinstance(event, Reproduced):
                return Reproduction(last, event.tried, event.seconds, event.reason, "".join(log))
            elif isinstance(event, Failed):
                return Reproduction(last, 0, 0.0, event.reason, "".join(log))
        raise HostLost("it does not end a reproduction")

    def close(self) -> None:
        os.close(self._write)
        self._process.wait(PATIENCE)
        os.close(self._read)

    def _analysis(self, path: Path, targets: Sequence[str]) -> Analyze:
        self._requests += 1
        folder = path.resolve().parent
        root = folder
        while (root / "__init__.py").exists():
            root = root.parent
        return Analyze(
            self._requests,
            f"{self._requests}",
            str(path.resolve()),
            path.read_text(encoding="utf-8"),
            cwd=str(root),
            roots=(str(root),),
            only=tuple(targets),
        )

    def send(self, request: protocol.Request) -> None:
        os.write(self._write, protocol.encode(request))

    def answers(self, request: Analyze | Reproduce | Compare) -> Iterator[Any]:
        self.send(request)
        yield from self._events(request.request)

    def last(self, number: int) -> Any:
        """The last event of a request that was sent."""
        return list(self._events(number))[-1]

    def _events(self, number: int) -> Iterator[Any]:
        while True:
            event = self._event()
            if getattr(event, "request", None) != number:
                continue
            yield event
            if isinstance(event, (Analyzed, Reproduced, Compared, Failed)):
                return

    def _event(self) -> protocol.Event | None:
        while b"\n" not in self._buffer:
            if not select.select([self._read], [], [], PATIENCE)[0]:
                raise HostLost("it says nothing")
            data = os.read(self._read, 1 << 16)
            if not data:
                raise HostLost("it has ended")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return protocol.decode(line)  # type: ignore[return-value]
