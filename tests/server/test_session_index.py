"""The operator index of a unit's torch, and what its file adds to it."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fullgraph.operators.index import OperatorIndex
from fullgraph.results.file_results import Results
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph.session.documents import TextChange
from fullgraph.session.indices import Indices
from fullgraph.session.session import Session
from fullgraph_engine.protocol import IndexWritten, OperatorsRegistered
from fullgraph_engine.protocol.operators import (
    Name,
    Operator,
    Overload,
    encode_index,
    entry_of,
)

STUB = Path(__file__).with_name("stub_engine.py")
ROUNDS, PAUSE = 1000, 0.01


class Ears:
    """A listener that keeps what is logged."""

    def __init__(self) -> None:
        self.logged: list[str] = []

    def log(self, text: str) -> None:
        self.logged.append(text)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None


def index_file(path: Path, *names: str, complete: bool = True) -> Path:
    entries = [entry_of(Name(name, "function")) for name in names]
    path.write_bytes(encode_index(entries, torch="2.13.0", complete=complete, overloads=0))
    return path


async def until(ready: Callable[[], Any]) -> None:
    for _ in range(ROUNDS):
        if ready():
            return
        await asyncio.sleep(PAUSE)
    raise AssertionError("it never came")


Started = Callable[..., Session]


@pytest.fixture
async def started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Started, Ears]]:
    """Sessions with the stub engine; its options are given as they are in its environment."""
    ears = Ears()
    sessions: list[Session] = []

    def start(options: str = "", *, trusted: bool = True, **settings: Any) -> Session:
        monkeypatch.setenv("STUB_ENGINE", f"count={tmp_path / 'count'},{options}")
        session = Session(ears, boot=STUB)
        sessions.append(session)
        session.initialize(ClientCapabilities(), {"trusted": trusted}, [tmp_path.as_uri()])
        session.configure({"": {"interpreter": sys.executable, **settings}})
        return session

    yield start, ears
    for session in sessions:
        await session.close()


def starts(tmp_path: Path) -> int:
    count = tmp_path / "count"
    return count.read_text().count("start") if count.exists() else 0


def uri(tmp_path: Path) -> str:
    return (tmp_path / "model.py").as_uri()


async def test_an_index_that_is_announced(started: tuple[Started, Ears], tmp_path: Path) -> None:
    start, _ = started
    session = start(f"index={index_file(tmp_path / 'a.index', 'torch.add')}")
    session.open(uri(tmp_path), "import torch\n", 1, "python")
    unit = session.files.units[uri(tmp_path)]
    assert session.engines.find_index(unit) is None
    await until(lambda: session.engines.find_index(unit))
    index = session.engines.find_index(unit)
    assert index is not None
    assert index.name("torch.add") is not None
    assert session.engines.find_index(unit) is index


async def test_a_later_one_replaces_it(started: tuple[Started, Ears], tmp_path: Path) -> None:
    start, _ = started
    first = index_file(tmp_path / "a.index", "torch.add", complete=False)
    session = start(f"static={first},index={index_file(tmp_path / 'b.index', 'torch.sub')}")
    session.open(uri(tmp_path), "import torch\n", 1, "python")
    unit = session.files.units[uri(tmp_path)]
    await until(lambda: (found := session.engines.find_index(unit)) and found.header.complete)
    index = session.engines.find_index(unit)
    assert index is not None
    assert index.name("torch.add") is None


async def test_one_that_is_announced_again_is_read_only_if_its_file_is_another(
    tmp_path: Path,
) -> None:
    indices, interpreter = Indices(lambda text: None), Path(sys.executable)
    path = index_file(tmp_path / "index", "torch.add")
    announced = IndexWritten(str(path), True)
    await indices.load_index(interpreter, announced)
    first = indices.find_index(interpreter)
    await indices.load_index(interpreter, announced)
    assert indices.find_index(interpreter) is first
    index_file(path, "torch.add", "torch.mul")
    await indices.load_index(interpreter, announced)
    found = indices.find_index(interpreter)
    assert found is not None and found is not first
    assert found.name("torch.mul") is not None


def test_an_index_that_nobody_holds_is_freed_at_once() -> None:
    index = OperatorIndex.from_items([Name("torch.add", "function")])
    assert index.name("torch.add") is not None
    kept = weakref.ref(index)
    gc.disable()
    try:
        del index
        assert kept() is None
    finally:
        gc.enable()


async def test_a_broken_one_is_told_once(started: tuple[Started, Ears], tmp_path: Path) -> None:
    start, ears = started
    good = index_file(tmp_path / "a.index", "torch.add", complete=False)
    bad = tmp_path / "b.index"
    bad.write_bytes(good.read_bytes()[:-3])
    session = start(f"static={good},index={bad}")
    session.open(uri(tmp_path), "import torch\n", 1, "python")
    unit = session.files.units[uri(tmp_path)]
    await until(lambda: any("cannot be read" in line for line in ears.logged))
    assert sum("cannot be read" in line for line in ears.logged) == 1
    session.engines.find_index(unit)
    assert sum("cannot be read" in line for line in ears.logged) == 1


async def test_an_absent_one(started: tuple[Started, Ears], tmp_path: Path) -> None:
    start, ears = started
    session = start(f"index={tmp_path / 'nothing.index'}")
    session.open(uri(tmp_path), "import torch\n", 1, "python")
    await until(lambda: any("cannot be read" in line for line in ears.logged))
    assert session.engines.find_index(session.files.units[uri(tmp_path)]) is None


async def test_what_starts_an_engine(started: tuple[Started, Ears], tmp_path: Path) -> None:
    start, _ = started
    session = start(traceOn="manual", exclude=["model.py"])
    session.open(uri(tmp_path), "x = 1\n", 1, "python")
    unit = session.files.units[uri(tmp_path)]
    assert session.engines.find_index(unit) is None
    assert session.engines.pool.all_statuses() == () and starts(tmp_path) == 0
    session.files.change(uri(tmp_path), [TextChange("import torch\n")], 2)
    session.engines.find_index(unit)
    await until(lambda: starts(tmp_path) == 1)


async def test_nothing_is_started_without_trust(
    started: tuple[Started, Ears], tmp_path: Path
) -> None:
    start, _ = started
    session = start(f"index={index_file(tmp_path / 'a.index', 'torch.add')}", trusted=False)
    session.open(uri(tmp_path), "import torch\n", 1, "python")
    unit = session.files.units[uri(tmp_path)]
    assert session.engines.find_index(unit) is None
    assert session.engines.pool.all_statuses() == () and starts(tmp_path) == 0
    session.trust(True)
    await until(lambda: session.engines.find_index(unit))


async def test_operators_of_the_file_are_part_of_it(
    started: tuple[Started, Ears], tmp_path: Path
) -> None:
    start, _ = started
    session = start(f"index={index_file(tmp_path / 'a.index', 'torch.add')}")
    text = "import torch\n# registers: mine::scale\n"
    session.open(uri(tmp_path), text, 1, "python")
    other = (tmp_path / "other.py").as_uri()
    session.open(other, "import torch\n", 1, "python")
    unit = session.files.units[uri(tmp_path)]

    def scale() -> object:
        found = session.engines.find_index(unit)
        return found and found.operator("mine::scale")

    await until(scale)
    index = session.engines.find_index(unit)
    assert index is not None
    assert index.name("torch.add") is not None
    assert session.engines.find_index(unit) is index
    unrelated = session.engines.find_index(session.files.units[other])
    assert unrelated is not None
    assert unrelated.operator("mine::scale") is None
    session.files.change(uri(tmp_path), [TextChange("import torch\nsize = 1\n")], 2)
    assert scale()
    await until(lambda: not scale())


# -- what is kept of runs -----------------------------------------------------------------------


def registered(name: str) -> OperatorsRegistered:
    return OperatorsRegistered(1, (Operator(name, (Overload("", f"{name}()", "registered"),)),))


def names(results: Results) -> list[str]:
    return [operator.name for operator in results.operators]


def test_operators_stay_until_the_next_run_is_through() -> None:
    results = Results()
    results.begin_run()
    assert not results.apply_event(registered("mine::a"))
    results.complete_run()
    assert names(results) == ["mine::a"]
    results.begin_run()
    assert names(results) == ["mine::a"]
    results.interrupt_run()
    assert names(results) == ["mine::a"]
    results.begin_run()
    results.apply_event(registered("mine::b"))
    assert names(results) == ["mine::b"]
    kept = results.snapshot()
    results.begin_run()
    results.complete_run()
    assert names(results) == []
    assert names(kept) == ["mine::b"]
