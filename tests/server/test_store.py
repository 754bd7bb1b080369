"""Results on disk: shown again for as long as all that they follow from is the same."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fullgraph.engines import EngineState, EngineStatus
from fullgraph.results import Results
from fullgraph.store.disk import ResultFile
from fullgraph.store.files import FilesRecorder
from fullgraph.store.runs import StoredRun, TraceBasis
from fullgraph.store.store import ResultStore
from fullgraph_engine.protocol import (
    Allowed,
    Analyze,
    Analyzed,
    Event,
    FilesRead,
    Finding,
    FindingFound,
    ForecastFound,
    GuardsFound,
    OperatorsRegistered,
    Part,
    Position,
    ProbeInfo,
    Range,
    Restarted,
    RunId,
    SeenValue,
    ShapesFound,
    Status,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
    TraceStepsFound,
    ValuesSeen,
)
from fullgraph_engine.protocol.files import OPEN, FileState
from fullgraph_engine.protocol.guards import GuardedFrame
from fullgraph_engine.protocol.operators import Operator
from fullgraph_engine.protocol.shapes import PlaceShapes, ShapeSeen
from fullgraph_engine.protocol.trace_steps import TraceStep

PLACE = Range(Position(1, 0), Position(1, 3))
STATUS = EngineStatus(EngineState.READY, "Ready.", torch="2.13.0", python="3.11.7")
PYTHON = Path("/no/bin/python")
TEXT = "import other\n"
OPERATOR = Operator("mine::op", ())


@pytest.fixture
def other_file(tmp_path: Path) -> Path:
    path = tmp_path / "other.py"
    path.write_text("WIDTH = 8\n")
    os.utime(path, ns=(10**18, 10**18))
    return path


def request(path: Path, text: str = TEXT) -> Analyze:
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


def make_run(*events: Event, text: str = TEXT, complete: bool = True) -> StoredRun:
    files = FilesRecorder()
    for event in events:
        files.record_event(event)
    found = Results.from_events(events)
    return StoredRun(TraceBasis(text, (), (), ()), found, files, STATUS, complete)


def events_of(run: StoredRun | None) -> tuple[Event, ...] | None:
    """Return the events with the results of a run."""
    return run.results.list_events() if run is not None else None


def file_of(
    folder: Path,
    asked: Analyze,
    python: Path = PYTHON,
    allowed: Allowed = Allowed(),  # noqa: B008
    **env: str,
) -> ResultFile:
    env["XDG_CACHE_HOME"] = str(folder)
    file = ResultFile.of_request(python, allowed, "auto", asked, env)
    assert file is not None
    return file


def write_run(folder: Path, other: Path) -> tuple[ResultFile, StoredRun]:
    made = make_run(*told(state(other), FileState(str(folder / "absent.py"), -1, -1)))
    file = file_of(folder, request(folder))
    file.write(made)
    assert list(file.path.parent.iterdir()) == [file.path]
    return file, made


def test_they_are_found_again(tmp_path: Path, other_file: Path) -> None:
    file, made = write_run(tmp_path, other_file)
    found = file.read()
    assert found is not None and events_of(found) == events_of(made)
    assert (found.basis, found.is_complete) == (made.basis, True)
    assert found.files.reads == made.files.reads
    assert found.status.torch == "2.13.0"
    # Neither the text, the number of a request nor where the cursor is makes it another one.
    again = dataclasses.replace(request(tmp_path, ""), request=9, generation="h", focus=4, jobs=1)
    assert file_of(tmp_path, again) == file


def test_details_and_operators_are_found_again(tmp_path: Path, other_file: Path) -> None:
    value = SeenValue(PLACE, "tensor")
    shape = PlaceShapes(PLACE, "parameter", (ShapeSeen("tensor", "f32[2]"),))
    frame = GuardedFrame("forward", "", 0, PLACE, "0/0", 1, (PLACE, None), ())
    step = TraceStep("break", "forward", range=PLACE)
    events = told(state(other_file))
    details: list[Event] = [
        OperatorsRegistered(7, (OPERATOR,)),
        ValuesSeen.from_values(7, "Net", [value]),
        ShapesFound.from_places(7, "Net", [shape], "Few.", 1),
        GuardsFound.from_frames(7, "Net", [frame], "More."),
        TraceStepsFound(7, "Net", (step,)),
    ]
    file = file_of(tmp_path, request(tmp_path))
    file.write(make_run(*events[:-1], *details, events[-1]))
    found = file.read()
    assert found is not None and found.results.operators == (OPERATOR,)
    of_net = found.results.target_details("Net")
    assert of_net.seen is not None and of_net.seen.current.values == (value,)
    assert of_net.shapes is not None and of_net.shapes.current.by_probe == {1: (shape,)}
    assert of_net.shapes.current.note == "Few."
    assert of_net.guards is not None and of_net.guards.current.frames == (frame,)
    assert of_net.guards.current.runs[0].note == "More."
    assert of_net.trace_steps is not None and of_net.trace_steps.current.by_probe == {0: (step,)}


def test_forecasts_are_stored_for_requests_of_them(tmp_path: Path, other_file: Path) -> None:
    forecast = ForecastFound(7, "Net", RunId("Net", 0, "forecast"), note="None.")
    events = told(state(other_file))
    run = make_run(*events[:-1], forecast, events[-1])
    wanted: dict[tuple[Part, ...], tuple[str, ...]] = {
        ("first",): (),
        ("first", "forecast"): ("None.",),
    }
    for parts, expected in wanted.items():
        file = file_of(tmp_path, dataclasses.replace(request(tmp_path), parts=parts))
        file.write(run)
        found = file.read()
        assert found is not None
        assert tuple(one.note for one in found.results.forecasts.list_events()) == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda asked: dataclasses.replace(asked, path="/elsewhere/model.py"),
        lambda asked: dataclasses.replace(asked, mode="real"),
        lambda asked: dataclasses.replace(asked, parts=("first",)),
        lambda asked: dataclasses.replace(asked, examples=()),
    ],
)
def test_another_request_has_others(
    tmp_path: Path, other_file: Path, change: Callable[[Analyze], Analyze]
) -> None:
    write_run(tmp_path, other_file)
    assert file_of(tmp_path, change(request(tmp_path))).read() is None
    assert file_of(tmp_path, request(tmp_path), Path("/other/bin/python")).read() is None


def test_they_go_with_what_was_read(tmp_path: Path, other_file: Path) -> None:
    file, made = write_run(tmp_path, other_file)
    os.utime(other_file, ns=(10**18 + 1, 10**18 + 1))
    assert file.read() is None
    os.utime(other_file, ns=(10**18, 10**18))
    assert events_of(file.read()) == events_of(made)
    (tmp_path / "absent.py").write_text("")
    assert file.read() is None


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
    file, made = write_run(tmp_path, other_file)
    file.path.write_bytes(spoil(file.path.read_bytes()))
    assert file.read() is None
    file.write(made)
    assert events_of(file.read()) == events_of(made)


def test_the_last_text_replaces_the_one_before(tmp_path: Path, other_file: Path) -> None:
    file, _ = write_run(tmp_path, other_file)
    file.write(make_run(*told(state(other_file)), text="import other, os\n"))
    assert list(file.path.parent.iterdir()) == [file.path]
    found = file.read()
    assert found is not None and found.basis.text == "import other, os\n"


def test_the_least_recently_used_go_first(
    tmp_path: Path, other_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, made = write_run(tmp_path, other_file)
    monkeypatch.setattr("fullgraph.store.folder._MOST_BYTES", file.path.stat().st_size * 3)
    monkeypatch.setattr("fullgraph.store.disk._EVERY", 1)
    for number in range(4):
        asked = dataclasses.replace(request(tmp_path), path=f"/p/{number}.py")
        file_of(tmp_path, asked).write(made)
        os.utime(max(file.path.parent.iterdir(), key=os.path.getmtime), (number, number))
    assert len(list(file.path.parent.iterdir())) == 3
    assert events_of(file.read()) == events_of(made)


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path, other_file: Path) -> None:
    (tmp_path / "fullgraph").write_text("")
    file = file_of(tmp_path, request(tmp_path))
    file.write(make_run(*told(state(other_file))))
    assert file.read() is None


@pytest.mark.parametrize("status", ["timeout", "crashed", "cancelled"])
def test_what_had_no_time_may_end_otherwise(status: Status) -> None:
    assert not make_run(*told(status=status)).is_lasting
    assert make_run(*told()).is_lasting


def test_a_time_limit_is_kept_if_the_machine_was_not_busy() -> None:
    report = TargetReport("Net", "module", PLACE, "timeout", repeats=True)
    assert make_run(*told(status="timeout"), TargetDone(7, report)).is_lasting


def test_only_what_a_repetition_gives_again_is_written(tmp_path: Path, other_file: Path) -> None:
    events = told(state(other_file))
    # An engine that does not say what it read.
    unknown = make_run(*(event for event in events if not isinstance(event, FilesRead)))
    file = file_of(tmp_path, request(tmp_path))
    file.write(unknown)
    assert file.read() is None
    # What was said before the engine died is void.
    lost = TargetDone(7, TargetReport("Net", "module", PLACE, "crashed"))
    file.write(make_run(lost, Restarted(7), *events))
    assert events_of(file.read()) == events_of(make_run(*events))


def test_results_of_a_part_replace_no_others_of_the_text(tmp_path: Path, other_file: Path) -> None:
    events = told(state(other_file))
    few, more = (make_run(*events[:end], complete=False) for end in (3, 4))
    whole = make_run(*events)
    file = file_of(tmp_path, request(tmp_path))
    for run, then in ((few, few), (more, more), (few, more), (whole, whole), (more, whole)):
        file.write(run)
        found = file.read()
        assert found is not None and found.is_complete is then.is_complete
        assert events_of(found) == events_of(then)
    file.write(dataclasses.replace(few, basis=TraceBasis("import other, os\n", (), (), ())))
    assert events_of(file.read()) == events_of(few)


def test_what_changes_while_it_is_read_is_not_relied_on(tmp_path: Path) -> None:
    files = FilesRecorder()
    path = tmp_path / "fresh.py"
    path.write_text("")
    os.utime(path, ns=(2 * 10**18, 2 * 10**18))
    files.record_event(FilesRead.from_files(7, [state(path)]))
    assert files.is_current() and not files.is_lasting
    assert not files.copy().is_lasting
    one, other = FileState("/p/a.py", 1, 1), FileState("/p/a.py", 2, 1)
    files = FilesRecorder()
    for event in (FilesRead.from_files(7, [one]), FilesRead.from_files(7, [other])):
        files.record_event(event)
    assert not files.is_lasting
    assert not FilesRecorder([files]).is_lasting
    opened = FilesRecorder.from_states([FileState("/p/a.py", OPEN, OPEN)])
    assert opened.is_current() and not opened.is_lasting


# -- one lookup for memory and disk ----------------------------------------------------------------

TWO = """\
from torch import nn


class A(nn.Module):
    def forward(self, x):
        return x + 1


class B(nn.Module):
    def forward(self, x):
        return x + 2
"""


def traced_run(text: str, message: str, *files: FileState) -> StoredRun:
    """A run of A and B with written inputs, with one finding on the last line of each."""
    events: list[Event] = []
    infos = []
    lines = text.split("\n")
    for name in ("A", "B"):
        row = lines.index(f"class {name}(nn.Module):")
        place = Range(Position(row, 6), Position(row, 7))
        probe = ProbeInfo("comment", "f32[2]")
        infos.append(TargetInfo(name, "module", place))
        below = Range(Position(row + 2, 8), Position(row + 2, 14))
        events.append(FindingFound(7, Finding("graph-break/GB0059", message, below, target=name)))
        report = TargetReport(name, "module", place, "traced", probe=probe)
        events.append(TargetDone(7, report))
    found = TargetsFound(7, tuple(infos))
    return make_run(found, FilesRead.from_files(7, files), *events, text=text)


def seen(results: Results) -> dict[str, tuple[str, int]]:
    return {one.target: (one.message, one.range.start.line) for one in results.findings()}


def test_a_comment_an_undo_and_another_session_are_one_lookup(tmp_path: Path) -> None:
    store = ResultStore("/p/model.py")
    store.add(traced_run(TWO, "first"))
    commented = TWO.replace("class B", "# a note\nclass B")
    found = store.find_all(TraceBasis(commented, (), (), ()))
    assert found is not None and seen(found) == {"A": ("first", 5), "B": ("first", 11)}
    edited = TWO.replace("x + 2", "x + 3")
    assert store.find_all(TraceBasis(edited, (), (), ())) is None
    store.add(traced_run(edited, "second"))
    found = store.find_all(TraceBasis(commented, (), (), ()))
    assert found is not None and seen(found)["B"] == ("first", 11)
    file = file_of(tmp_path, request(tmp_path))
    file.write(traced_run(edited, "second"))
    later = file.read()
    assert later is not None
    store = ResultStore("/p/model.py")
    store.add(later)
    found = store.find_all(TraceBasis(edited.replace("x + 1", "(x + 1)"), (), (), ()))
    assert found is not None and seen(found)["A"] == ("second", 5)
    assert store.find_all(TraceBasis(edited, (), ("another",), ())) is None


def test_nothing_is_found_after_a_file_has_changed(other_file: Path) -> None:
    store = ResultStore("/p/model.py")
    store.add(traced_run(TWO, "first", state(other_file)))
    for text in (TWO, TWO.replace("x + 2", "x + 3")):
        assert store.find(TraceBasis(text, (), (), ())) is not None
    os.utime(other_file, ns=(10**18 + 1, 10**18 + 1))
    for text in (TWO, TWO.replace("x + 2", "x + 3")):
        assert store.find(TraceBasis(text, (), (), ())) is None
    # An edit of the text does not change files: the results are shown until they are dropped.
    assert store.find_all(TraceBasis(TWO, (), (), ())) is not None
    store.drop_outdated()
    assert store.find_all(TraceBasis(TWO, (), (), ())) is None


def test_each_target_is_found_in_the_last_run_that_has_it() -> None:
    store = ResultStore("/p/model.py")
    store.add(traced_run(TWO, "first"))
    other_a = TWO.replace("x + 1", "x + 10")
    store.add(traced_run(other_a, "second"))
    both = other_a.replace("x + 2", "x + 20")
    found = store.find(TraceBasis(both, (), (), ()))
    assert found is not None and found.targets == {"A"} and not found.is_complete
    assert seen(found.results)["A"] == ("second", 5)
    store.add(traced_run(both, "third"))
    # The edit of A is undone, and that of B is not.
    found = store.find(TraceBasis(TWO.replace("x + 2", "x + 20"), (), (), ()))
    assert found is not None and found.targets == {"A", "B"}
    assert seen(found.results) == {"A": ("first", 5), "B": ("third", 10)}
    assert not found.is_complete
    # Findings about the whole file are not known.
    assert store.find(TraceBasis(TWO, ("A",), (), ())) is None


def test_an_engine_is_another_one_with_other_packages_or_variables(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    python.parent.mkdir()
    python.write_text("")

    def key(allowed: Allowed = Allowed(), **env: str) -> str:  # noqa: B008
        return file_of(tmp_path, request(tmp_path), python, allowed, **env).path.name

    first = key(LANG="C")
    assert key(LANG="C", SHLVL="3", VSCODE_PID="7", PWD="/") == first
    assert key(LANG="C", PYTHONPATH="/p") != first
    assert key(Allowed(variables=("TOKEN",)), LANG="C") != first
    (packages / "torch").mkdir()
    assert key(LANG="C") != first
