"""Results on disk: shown again for as long as all that they follow from is the same."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fullgraph.engines import EngineState, EngineStatus
from fullgraph.kept import EngineBasis, KeptResults, ResultRecorder, ResultStore, engine_basis
from fullgraph_engine.protocol import (
    Allowed,
    Analyze,
    Analyzed,
    Event,
    FilesRead,
    Finding,
    FindingFound,
    Position,
    Range,
    Restarted,
    Status,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
)
from fullgraph_engine.protocol.files import FileState

PLACE = Range(Position(1, 0), Position(1, 3))
STATUS = EngineStatus(EngineState.READY, "Ready.", torch="2.13.0", python="3.11.7")
BASIS = EngineBasis("one")


@pytest.fixture
def other_file(tmp_path: Path) -> Path:
    path = tmp_path / "other.py"
    path.write_text("WIDTH = 8\n")
    os.utime(path, ns=(10**18, 10**18))
    return path


def request(path: Path, text: str = "import other\n") -> Analyze:
    return Analyze(request=7, generation="g", path=str(path / "model.py"), text=text, files=True)


def state(path: Path) -> FileState:
    found = path.stat()
    return FileState(str(path), found.st_mtime_ns, found.st_size)


def told(*files: FileState, status: Status = "traced") -> list[Event]:
    return [
        TargetsFound(7, (TargetInfo("Net", "module", PLACE),)),
        FilesRead.from_files(7, files),
        FindingFound(7, Finding("graph-break/GB0059", "名前 breaks here.", PLACE, target="Net")),
        TargetDone(7, TargetReport("Net", "module", PLACE, status)),
        Analyzed(7, "g", 0.5),
    ]


def results(*events: Event) -> KeptResults | None:
    recorder = ResultRecorder()
    for event in events:
        recorder.record_event(event)
    return recorder.build_results(STATUS)


def kept_in(folder: Path, other: Path) -> tuple[ResultStore, KeptResults, Path]:
    store = ResultStore(folder / "results")
    made = results(*told(state(other), FileState(str(folder / "absent.py"), -1, -1)))
    assert made is not None
    store.keep(BASIS, request(folder), made)
    (file,) = (folder / "results").iterdir()
    return store, made, file


def test_they_are_found_again(tmp_path: Path, other_file: Path) -> None:
    store, made, _ = kept_in(tmp_path, other_file)
    found = store.find(BASIS, request(tmp_path))
    assert found == made
    assert found.status.torch == "2.13.0"
    # Neither the number of a request nor where the cursor is makes it another one.
    again = dataclasses.replace(request(tmp_path), request=9, generation="h", focus=4, jobs=1)
    assert store.find(BASIS, again) == made


@pytest.mark.parametrize(
    "change",
    [
        lambda asked: dataclasses.replace(asked, text="import other  \n"),
        lambda asked: dataclasses.replace(asked, path="/elsewhere/model.py"),
        lambda asked: dataclasses.replace(asked, mode="real"),
        lambda asked: dataclasses.replace(asked, parts=("first",)),
        lambda asked: dataclasses.replace(asked, examples=()),
    ],
)
def test_another_request_has_others(
    tmp_path: Path, other_file: Path, change: Callable[[Analyze], Analyze]
) -> None:
    store, _, _ = kept_in(tmp_path, other_file)
    assert store.find(BASIS, change(request(tmp_path))) is None
    assert store.find(EngineBasis("other"), request(tmp_path)) is None


def test_they_go_with_what_was_read(tmp_path: Path, other_file: Path) -> None:
    store, made, _ = kept_in(tmp_path, other_file)
    os.utime(other_file, ns=(10**18 + 1, 10**18 + 1))
    assert store.find(BASIS, request(tmp_path)) is None
    os.utime(other_file, ns=(10**18, 10**18))
    assert store.find(BASIS, request(tmp_path)) == made
    (tmp_path / "absent.py").write_text("")
    assert store.find(BASIS, request(tmp_path)) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:40],
        lambda data: data[:60] + b"\0" + data[61:],
        lambda data: b"\0" + data[1:],
    ],
)
def test_a_file_that_is_not_whole_is_made_anew(
    tmp_path: Path, other_file: Path, spoil: Callable[[bytes], bytes]
) -> None:
    store, made, file = kept_in(tmp_path, other_file)
    file.write_bytes(spoil(file.read_bytes()))
    assert store.find(BASIS, request(tmp_path)) is None
    store.keep(BASIS, request(tmp_path), made)
    assert store.find(BASIS, request(tmp_path)) == made


def test_the_last_text_replaces_the_one_before(tmp_path: Path, other_file: Path) -> None:
    store, made, file = kept_in(tmp_path, other_file)
    ResultStore(tmp_path / "results").keep(BASIS, request(tmp_path, "import other, os\n"), made)
    assert list((tmp_path / "results").iterdir()) == [file]
    assert store.find(BASIS, request(tmp_path)) is None
    assert store.find(BASIS, request(tmp_path, "import other, os\n")) == made


def test_the_least_recently_used_go_first(
    tmp_path: Path, other_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, made, file = kept_in(tmp_path, other_file)
    monkeypatch.setattr("fullgraph.kept.store._MOST_BYTES", file.stat().st_size * 3)
    for number in range(4):
        asked = dataclasses.replace(request(tmp_path), path=f"/p/{number}.py")
        ResultStore(tmp_path / "results").keep(BASIS, asked, made)
        os.utime(max((tmp_path / "results").iterdir(), key=os.path.getmtime), (number, number))
    assert len(list((tmp_path / "results").iterdir())) == 3
    assert store.find(BASIS, request(tmp_path)) == made


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path, other_file: Path) -> None:
    made = results(*told(state(other_file)))
    assert made is not None
    (tmp_path / "file").write_text("")
    store = ResultStore(tmp_path / "file" / "results")
    store.keep(BASIS, request(tmp_path), made)
    assert store.find(BASIS, request(tmp_path)) is None


@pytest.mark.parametrize("status", ["timeout", "crashed", "cancelled"])
def test_what_had_no_time_may_end_otherwise(status: Status) -> None:
    assert results(*told(status=status)) is None


def test_only_whole_results_are_kept(other_file: Path) -> None:
    events = told(state(other_file))
    assert results(*events[:-1]) is None
    assert results(*events[:-1], Analyzed(7, "g", 0.1, cancelled=True)) is None
    # An engine that does not say what it read.
    assert results(*(event for event in events if not isinstance(event, FilesRead))) is None
    # What was said before the engine died is void.
    lost = TargetDone(7, TargetReport("Net", "module", PLACE, "crashed"))
    again = results(lost, Restarted(7), *events)
    assert again is not None and lost not in again.events


def test_results_of_a_part_replace_no_others_of_the_text(tmp_path: Path, other_file: Path) -> None:
    recorder = ResultRecorder()
    events = told(state(other_file))
    parts = []
    for event in (*events[:-1], events[3], events[4]):
        recorder.record_event(event)
        parts.append(recorder.partial_results(STATUS))
    # Nothing was found.
    assert parts[:2] == [None, None]
    few, more, whole = parts[2], parts[4], parts[5]
    assert few is not None and more is not None and whole is not None
    store = ResultStore(tmp_path / "results")
    for results, then in ((few, few), (more, more), (few, more), (whole, whole), (more, whole)):
        store.keep(BASIS, request(tmp_path), results)
        assert store.find(BASIS, request(tmp_path)) == then
    assert [part.is_whole for part in (few, more, whole)] == [False, False, True]
    store.keep(BASIS, request(tmp_path, "import other, os\n"), few)
    assert store.find(BASIS, request(tmp_path, "import other, os\n")) == few


def test_what_changes_while_it_is_read_is_not_relied_on(tmp_path: Path) -> None:
    recorder = ResultRecorder()
    path = tmp_path / "fresh.py"
    path.write_text("")
    os.utime(path, ns=(2 * 10**18, 2 * 10**18))
    for event in told(state(path)):
        recorder.record_event(event)
    assert recorder.build_results(STATUS) is None
    one, other = FileState("/p/a.py", 1, 1), FileState("/p/a.py", 2, 1)
    assert results(FilesRead.from_files(7, [one]), *told(other)) is None


def test_an_engine_is_another_one_with_other_packages_or_variables(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    python.parent.mkdir()
    python.write_text("")

    def basis(allowed: Allowed = Allowed(), **env: str) -> EngineBasis:  # noqa: B008
        return engine_basis(python, allowed, "auto", env)

    first = basis(LANG="C")
    assert basis(LANG="C", SHLVL="3", VSCODE_PID="7", PWD="/") == first
    assert basis(LANG="C", PYTHONPATH="/p") != first
    assert basis(Allowed(variables=("TOKEN",)), LANG="C") != first
    (packages / "torch").mkdir()
    assert basis(LANG="C") != first
