"""Engines with torch in them, for tests of what they say besides their answers."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.engine.hosts import Engine, children_of

from fullgraph_engine import protocol
from fullgraph_engine.protocol import (
    Analyzed,
    Event,
    IndexWritten,
    Ready,
    Starting,
)
from fullgraph_engine.protocol.operators import Entry, IndexHeader, decode_index

BOOT = Path(__file__).resolve().parents[2] / "engine" / "fullgraph_engine" / "boot.py"
PATIENCE = 150.0

Heard = Callable[[list[Event]], bool]


@contextlib.contextmanager
def listening(
    requests: list[protocol.Request], env: dict[str, str], options: tuple[str, ...]
) -> Iterator[Callable[[Heard], list[Event]]]:
    """An engine; what is given waits until enough was said, and returns all of it so far."""
    theirs, write = os.pipe()
    read, answers = os.pipe()
    command = [sys.executable, str(BOOT), "--read", str(theirs), "--write", str(answers)]
    command += options
    process = subprocess.Popen(
        command, pass_fds=(theirs, answers), env={**os.environ, **env}, stdin=subprocess.DEVNULL
    )
    os.close(theirs)
    os.close(answers)
    for request in requests:
        os.write(write, protocol.encode(request))
    events: list[Event] = []
    buffer = b""

    def until(enough: Heard) -> list[Event]:
        nonlocal buffer
        while not enough(events):
            assert select.select([read], [], [], PATIENCE)[0], events
            data = os.read(read, 1 << 16)
            assert data, events
            *lines, buffer = (buffer + data).split(b"\n")
            events.extend(protocol.decode(line) for line in lines)  # type: ignore[misc]
        return events

    try:
        yield until
    finally:
        os.close(write)
        process.wait(PATIENCE)
        os.close(read)


@pytest.fixture(scope="session")
def engine_says() -> Callable[..., list[Event]]:
    """Start an engine and return what it says until that is enough."""

    def says(
        enough: Heard,
        *requests: protocol.Request,
        env: dict[str, str] | None = None,
        options: tuple[str, ...] = (),
    ) -> list[Event]:
        with listening(list(requests), env or {}, options) as until:
            return until(enough)

    return says


@pytest.fixture(scope="session")
def warm_tracer() -> None:
    import torch

    from fullgraph_engine import tracing

    torch.set_num_threads(1)
    tracing.warm_up()


@pytest.fixture
def fresh_tracer(warm_tracer: None) -> Iterator[None]:
    """For tests that trace in this process: Dynamo knows nothing of the tests around them."""
    import torch

    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def written(events: list[Event]) -> IndexWritten | None:
    """The complete index that was announced."""
    return next((e for e in events if isinstance(e, IndexWritten) and e.complete), None)


@pytest.fixture(scope="session")
def complete_index(
    cache: None, engine_says: Callable[..., list[Event]]
) -> tuple[IndexHeader, dict[str, Entry]]:
    """The index of the torch that runs the tests."""
    pytest.importorskip("torch")
    event = written(engine_says(lambda events: written(events) is not None))
    assert event is not None
    header, entries = decode_index(Path(event.path).read_bytes())
    return header, {entry.key: entry for entry in entries}


# -- engines with a stand-in for torch ------------------------------------------------------------


@pytest.fixture(scope="module", params=["fork", "spawn"])
def processes(request: pytest.FixtureRequest) -> str:
    """How the engine of a test starts its processes."""
    return str(request.param)


@pytest.fixture(scope="module")
def shared(processes: str) -> Iterator[Engine]:
    started = Engine(processes=processes)
    assert isinstance(started.event(), Starting)
    assert isinstance(started.event(), Ready)
    yield started
    assert started.close() == 0


@pytest.fixture
def engine(shared: Engine) -> Iterator[Engine]:
    """The engine that all tests share: every one leaves it fit for the next."""
    yield shared
    after = shared.analyze("def ok():  # target\n    return 1\n", parts=("first",))
    assert after.value("ok") == "1"
    assert isinstance(after.end, Analyzed)
    # Preambles stay, but not what was forked off them; and the first process of the namespace.
    for _ in range(500):
        left = [pid for kept in children_of(shared.process.pid) for pid in children_of(kept)]
        if not left and len(children_of(shared.process.pid)) <= 11:
            return
        time.sleep(0.01)
    pytest.fail("processes are left")


@pytest.fixture
def reimports(processes: str) -> int:
    """How often an edit below the imports executes them again.

    A process that has executed them is kept as a preamble only where it can be forked: a spare
    executes everything itself.
    """
    return {"fork": 0, "spawn": 1}[processes]
