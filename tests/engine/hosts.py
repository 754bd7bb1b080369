"""An engine whose pipeline is a stand-in for everything that needs torch."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from fullgraph_engine import protocol
from fullgraph_engine.protocol import (
    Allowed,
    Analyze,
    Analyzed,
    Event,
    Failed,
    Finding,
    FindingFound,
    Limits,
    Log,
    Position,
    Range,
    Reproduce,
    Reproduced,
    ReproFound,
    Starting,
    TargetDone,
    TargetReport,
    Wanted,
    to_plain,
)

ROOT = Path(__file__).resolve().parents[2]
BOOT = ROOT / "engine" / "fullgraph_engine" / "boot.py"
STUB = f"{ROOT / 'tests' / 'fixtures' / 'host' / 'pipeline.py'}:Pipeline"
PATIENCE = 60.0


class Engine:
    """An engine process and both ends of its pipe."""

    def __init__(
        self,
        *,
        pipeline: str = STUB,
        processes: str = "auto",
        python: str = sys.executable,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        descriptors: int = 0,
        allowed: Allowed | None = None,
    ) -> None:
        def limit() -> None:
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        theirs, self.write = os.pipe()
        self.read, answers = os.pipe()
        command = [python, str(BOOT), "--read", str(theirs), "--write", str(answers)]
        command += ["--processes", processes]
        if allowed is not None:
            command += ["--allowed", json.dumps(to_plain(allowed))]
        self.process = subprocess.Popen(
            [*command, "--pipeline", pipeline] if pipeline else command,
            pass_fds=(theirs, answers),
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            preexec_fn=limit,
        )
        os.close(theirs)
        os.close(answers)
        self.requests = 0
        # A spare takes longer to start than a test takes with it: none is started in vain.
        self.jobs = 1 if processes == "spawn" else 2
        self._buffer = b""

    def send(self, request: protocol.Request) -> None:
        os.write(self.write, protocol.encode(request))

    def event(self) -> Event | None:
        """The next event; None when the engine has closed its side."""
        while b"\n" not in self._buffer:
            if not select.select([self.read], [], [], PATIENCE)[0]:
                raise TimeoutError("the engine says nothing")
            data = os.read(self.read, 1 << 16)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return protocol.decode(line)  # type: ignore[return-value]

    def begin(self, text: str, **options: Any) -> int:
        self.requests += 1
        options = {
            "path": "/nowhere/x.py",
            "limits": Limits(seconds=20.0),
            "jobs": self.jobs,
            **options,
        }
        self.send(
            Analyze(self.requests, f"v{self.requests}", text=textwrap.dedent(text), **options)
        )
        return self.requests

    def until_end(self, request: int) -> Result:
        events: list[Event] = []
        while True:
            event = self.event()
            assert event is not None, "the engine died"
            events.append(event)
            if isinstance(event, (Analyzed, Reproduced, Failed)) and event.request == request:
                return Result(events)

    def analyze(self, text: str, **options: Any) -> Result:
        return self.until_end(self.begin(text, **options))

    def begin_repro(self, order: str, seconds: float = 30.0, **options: Any) -> int:
        """Reproduce a finding of a target whose body is ``order``."""
        self.requests += 1
        text = f"def f():  # target\n    {order}\n"
        options = {"path": "/nowhere/x.py", "limits": Limits(seconds=20.0), **options}
        analyze = Analyze(0, f"v{self.requests}", text=text, **options)
        wanted = Wanted("stub/code", Range(Position(0, 4), Position(0, 5)), "f")
        self.send(Reproduce(self.requests, analyze, wanted, seconds))
        return self.requests

    def reproduce(self, order: str, **options: Any) -> Result:
        return self.until_end(self.begin_repro(order, **options))

    def scratch_folders(self) -> set[Path]:
        """Where what it does now may write."""
        (own,) = Path(tempfile.gettempdir()).glob(f"fullgraph-engine-{self.process.pid}-*")
        return set(own.iterdir())

    def close(self) -> int:
        with contextlib.suppress(OSError):
            os.close(self.write)
        status = self.process.wait(PATIENCE)
        os.close(self.read)
        return status


class Result:
    def __init__(self, events: list[Event]) -> None:
        self.events = events

    @property
    def findings(self) -> list[Finding]:
        return [event.finding for event in self.events if isinstance(event, FindingFound)]

    @property
    def troubles(self) -> list[tuple[str, int]]:
        return [(f.code, f.range.start.line) for f in self.findings if f.code[:6] == "trace/"]

    @property
    def all_reports(self) -> list[TargetReport]:
        """Of each probe the last."""
        done = [event.report for event in self.events if isinstance(event, TargetDone)]
        return list({(report.name, report.probe_number): report for report in done}.values())

    @property
    def reports(self) -> dict[str, TargetReport]:
        return {e.report.name: e.report for e in self.events if isinstance(e, TargetDone)}

    def trouble(self) -> Finding:
        found = [finding for finding in self.findings if finding.code.startswith("trace/")]
        assert len(found) == 1, found
        return found[0]

    def status(self, name: str) -> str:
        return self.reports[name].status

    def log(self, stream: str) -> str:
        return "".join(e.text for e in self.events if isinstance(e, Log) and e.stream == stream)

    def value(self, name: str) -> str:
        """What the target returned, as the stub reports it."""
        values = [f.message for f in self.findings if f.code == "stub/value" and f.target == name]
        assert len(values) == 1, values
        return values[0].partition(" gave ")[2]

    @property
    def scripts(self) -> list[str]:
        return [event.script for event in self.events if isinstance(event, ReproFound)]

    @property
    def end(self) -> Event:
        return self.events[-1]


def children_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(entry.name) and int(stat[1]) == parent:
                found.append(int(entry.name))
    return found


def named(name: str) -> list[int]:
    """The processes that have given themselves this name."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if (entry / "comm").read_text().strip() == name:
                found.append(int(entry.name))
    return found


def spot(line: int, byte: int, end: int) -> Range:
    return Range(Position(line, byte), Position(line, end))


class AnyFloat(float):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, float)

    __hash__ = float.__hash__


def inside(middle: str = "") -> str:
    """Three targets that a function calls, which has these lines before it calls the last one."""
    return f"""\
import ctypes, os, threading, time
state = ["nothing"]
def whole(call):
    os.write(1, b"whole\\n")
    state[:] = ["a"]
    call("early")
    state.append("b")
    call("twice")
    state.append("c")
    call("twice")
    {middle}
    call("late")
def early():  # target inside
    return state
def twice():  # target inside 3
    return state
def late():  # target inside
    return state
def other():  # target
    return state
"""


def landlock_version() -> int:
    """Of the kernel; less than 1 if it has none."""
    import ctypes

    return int(ctypes.CDLL(None).syscall(444, None, 0, 1))


def has_landlock() -> bool:
    return landlock_version() > 0


def started_engine(processes: str = "auto", **options: Any) -> tuple[Engine, list[Event]]:
    engine = Engine(processes=processes, **options)
    events: list[Event] = []
    while not events or isinstance(events[-1], Starting):
        event = engine.event()
        assert event is not None
        events.append(event)
    return engine, events
