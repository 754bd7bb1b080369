"""Checks of many files: effort, time limits, interruptions, progress and settings of folders."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine, on, script

from fullgraph import cli
from fullgraph.cli import command_line as commands
from fullgraph.cli.check import CheckListener, EngineUnusable, FileCheck
from fullgraph.cli.check_command import exit_status
from fullgraph.cli.file_settings import FileSettings
from fullgraph.cli.progress import FilesProgress, left_words
from fullgraph.cli.sources import SourceFile
from fullgraph.domain.codes import Severity
from fullgraph.domain.positions import TextPositions
from fullgraph.engines import EngineState, EngineStatus
from fullgraph.render.checked import CheckedFile, CheckResults
from fullgraph.render.terminal import untraced_words
from fullgraph.results import Results
from fullgraph.session.effort import apply_effort, wants_forecast
from fullgraph.session.settings import (
    Project,
    Settings,
    SettingsSource,
    resolve_settings,
)
from fullgraph.store.disk import ResultFile
from fullgraph.store.files import FilesRecorder
from fullgraph.store.runs import StoredRun, TraceBasis
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    Event,
    FilesRead,
    Finding,
    FindingFound,
    PathReport,
    Status,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
)

PLACE = on(3, 6, 9)
HEAD = "import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n"


def file_events(name: str = "Net", status: Status = "traced", code: str = "") -> list[Event]:
    """Return events of a file with one target; with ``code``, the target has a finding."""
    finding = Finding(code, f"Finding of {name}.", PLACE, name)
    return [
        TargetsFound(0, (TargetInfo(name, "module", PLACE),)),
        FilesRead.from_files(0, ()),
        *([FindingFound(0, finding)] if code else []),
        TargetDone(0, TargetReport(name, "module", PLACE, status, graphs=1)),
    ]


def text(*events: Event) -> str:
    return HEAD + script(*events)


BREAK = "graph-break/GB0059"


def traced_files(line: CommandLine) -> list[str]:
    """Names of the files that the engine has traced, in order."""
    return [
        Path(words.split()[1]).name for words in line.engine_log() if words.startswith("analyze")
    ]


# -- effort -----------------------------------------------------------------------------------


def settings_by_effort(*values: dict[str, Any]) -> Settings:
    return apply_effort(
        resolve_settings(*(SettingsSource(f"source {n}", one) for n, one in enumerate(values)))
    ).settings


def test_effort_sets_defaults_that_each_source_can_override() -> None:
    quick = settings_by_effort({"effort": "quick"})
    assert not quick.try_dynamic and not quick.try_paths
    assert not quick.trace_nested
    assert (quick.search_seconds, quick.file_timeout, quick.timeout) == (1.0, 30.0, 20.0)
    normal = settings_by_effort()
    assert normal.try_dynamic and normal.try_paths
    assert normal.trace_nested
    assert (normal.search_seconds, normal.file_timeout, normal.timeout) == (6.0, 0.0, 60.0)
    own = settings_by_effort({"try-paths": True, "file-timeout": 5}, {"effort": "quick"})
    assert own.try_paths and not own.try_dynamic
    assert own.file_timeout == 5.0


def test_only_thorough_checks_forecast_without_an_option() -> None:
    thorough, quick = (
        settings_by_effort({"effort": "thorough"}),
        settings_by_effort({"effort": "quick"}),
    )
    assert [wants_forecast(one, None) for one in (thorough, quick)] == [True, False]
    assert [wants_forecast(thorough, False), wants_forecast(quick, True)] == [False, True]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--effort", "quick"], "parts first search=1 file=30 nested=False"),
        ([], "parts first,second,paths search=6 file=0 nested=True"),
        (["--effort", "thorough"], "parts first,second,paths,forecast search=6 file=0 nested=True"),
        (
            ["--effort", "quick", "--try-dynamic", "--search-seconds", "2", "--file-timeout", "9"],
            "parts first,second search=2 file=9 nested=False",
        ),
        (
            ["--effort", "thorough", "--no-forecast"],
            "parts first,second,paths search=6 file=0 nested=True",
        ),
    ],
)
def test_effort_decides_what_the_engine_does(
    command_line: CommandLine, options: list[str], line: str
) -> None:
    command_line.write("a.py", text(*file_events()))
    # CI does not change which findings a check reports.
    assert command_line.check("--no-cache", *options, ".", CI="true").status == 0
    assert line in command_line.engine_log()


def test_the_summary_counts_what_was_not_traced(command_line: CommandLine) -> None:
    command_line.write("a.py", text(*file_events(status="no-probe", code="probe/missing")))
    command_line.write("b.py", text(*file_events(status="skipped")))
    command_line.write("c.py", text(*file_events()))
    ran = command_line.check("--effort", "quick", ".")
    assert ran.out.splitlines()[-2:] == [
        "2 targets were not traced: 1 without inputs, 1 over the time limit of the file.",
        "1 target was traced without dynamic sizes and other paths (off in the settings).",
    ]
    assert ran.status == 2
    shown = command_line.check("--effort", "quick", "--format", "github", ".").out
    assert "::notice title=fullgraph::2 targets were not traced" in shown
    document = json.loads(command_line.check("--effort", "quick", "--format", "json", ".").out)
    assert [one["leftOut"] for one in document["files"]] == [["dynamic sizes", "other paths"]] * 3


def test_the_summary_counts_other_paths_that_were_not_traced() -> None:
    paths = (
        PathReport("with `flag=True`", "traced"),
        PathReport("in evaluation mode", "failed"),
        PathReport("with `mask=None`", "late"),
        PathReport("with `mode='a'`", "late"),
    )
    report = TargetReport("Net", "module", PLACE, "traced", paths=paths)
    file = CheckedFile("a.py", "/a.py", TextPositions(HEAD), targets=(report,))
    assert untraced_words(CheckResults((file,))) == [
        "3 other paths were not traced: 1 raised, 2 over the time limit of a file."
    ]


def test_a_target_with_several_inputs_counts_as_traced_if_one_is() -> None:
    reports = [
        TargetReport("Net", "module", PLACE, "timeout"),
        TargetReport("Net", "module", PLACE, "traced", probe_number=1),
        TargetReport("Other", "module", on(8, 6, 9), "no-probe", compiled=False),
    ]
    file = CheckedFile("a.py", "/a.py", None, targets=tuple(reports))  # type: ignore[arg-type]
    assert CheckResults((file,)).untraced == {"not compiled by a program": 1}


def test_a_function_over_the_time_limit_makes_a_check_incomplete(
    command_line: CommandLine,
) -> None:
    command_line.write("a.py", text(*file_events(status="skipped")))
    assert command_line.check("a.py").status == 2
    assert command_line.check("--exit-severity", "off", "a.py").status == 0


# -- time limit of a check --------------------------------------------------------------------


READY = EngineStatus(EngineState.READY, "", torch="2.13.0", python="3.11.7")


class StubEngine:
    """An engine in this process: each file has one target, and ``slow.py`` never ends."""

    def __init__(self, status: EngineStatus = READY) -> None:
        self.status = status
        self.killed = False
        self.requests: list[Analyze] = []

    async def start(self) -> None: ...

    async def ready(self) -> EngineStatus:
        return self.status

    def analyze(self, request: Analyze) -> Any:
        self.requests.append(request)
        return self._events(request)

    async def _events(self, request: Analyze) -> AsyncIterator[Event]:
        if request.path.endswith("slow.py"):
            await asyncio.Event().wait()
        for event in file_events(code=BREAK):
            yield event
        if request.path.endswith("half.py"):
            await asyncio.Event().wait()
        yield Analyzed(0, "", 0.0)

    def compare(self, request: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None: ...

    def kill(self) -> None:
        self.killed = True


class Listener(CheckListener):
    """A listener that notes the names of files: as they are checked, and as they are published."""

    def __init__(self) -> None:
        self.checked: list[str] = []
        self.published: list[str] = []

    def on_engine_start(self) -> None: ...

    def on_target(self, path: str, target: str) -> None: ...

    def on_import(self, path: str, module: str) -> None: ...

    def on_numerics(self, path: str, target: str) -> None: ...

    def on_measure(self, path: str, target: str) -> None: ...

    def on_file_checked(self, file: CheckedFile) -> None:
        self.checked.append(file.path)

    def on_file_done(self, file: CheckedFile) -> None:
        self.published.append(file.path)


def own_settings(folder: Path, **values: Any) -> FileSettings:
    return FileSettings(Project(folder, SettingsSource("", {})), Settings(**values))


def make_check(
    folder: Path, *names: str, engine: StubEngine | None = None, **options: Any
) -> tuple[FileCheck, Listener]:
    for name in names:
        (folder / name).write_text(HEAD)
    listener, used = Listener(), engine or StubEngine()
    check = FileCheck(
        [SourceFile(name, folder / name, named=False) for name in names],
        find_settings=options.pop("find_settings", lambda path: own_settings(folder)),
        make_engine=lambda own: used,
        listener=listener,
        **options,
    )
    return check, listener


def test_files_after_the_time_limit_are_not_analyzed(tmp_path: Path) -> None:
    engine = StubEngine()
    names = ("a.py", "slow.py", "z.py")
    check, listener = make_check(tmp_path, *names, engine=engine, time_limit=1.0)
    results = asyncio.run(check.run())
    assert [file.path for file in results.files] == ["a.py"] == listener.published
    assert results.missing == ("slow.py", "z.py")
    assert results.problems == (
        "The time limit of 1 s was reached: 2 of 3 files were not analyzed. "
        "Run the same command again to continue.",
    )
    assert engine.killed and exit_status(results) == 2


def test_files_are_published_in_order_and_all_of_them_at_the_end(tmp_path: Path) -> None:
    names = ("a.py", "slow.py", "y.py", "z.py")
    check, listener = make_check(tmp_path, *names, parallel=2, time_limit=1.0)
    results = asyncio.run(check.run())
    assert listener.checked == ["a.py", "y.py", "z.py"] == listener.published
    assert [file.path for file in results.files] == listener.published


def test_results_of_an_unfinished_file_are_reported(tmp_path: Path) -> None:
    names = ("half.py", "slow.py", "z.py")
    check, listener = make_check(tmp_path, *names, parallel=2, time_limit=1.0)
    results = asyncio.run(check.run())
    (file,) = results.files
    assert listener.published == ["half.py"] and results.missing == ("slow.py", "z.py")
    assert [item.finding.code for item in file.findings] == [BREAK]
    assert file.problem == "half.py was analyzed only in part: 1 of 1 target traced."
    assert "3 of 3 files were not analyzed, or were analyzed only in part." in results.problems[0]
    assert exit_status(results) == 2


def test_a_cancelled_check_has_partial_results(tmp_path: Path) -> None:
    engine = StubEngine()
    check, listener = make_check(tmp_path, "a.py", "slow.py", engine=engine)

    async def cancel_at_the_slow_file() -> None:
        running = asyncio.create_task(check.run())
        while not listener.checked:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancel_at_the_slow_file())
    results = check.results("Interrupted by SIGTERM")
    assert engine.killed and results.missing == ("slow.py",) and len(results.files) == 1
    assert "1 of 2 files was not analyzed" in results.problems[0]


# -- signals ----------------------------------------------------------------------------------


def interrupt(line: CommandLine, number: signal.Signals, *options: str) -> tuple[int, str, str]:
    """Check three files, and send a signal while the second one hangs."""
    line.write("a.py", text(*file_events(code=BREAK)))
    line.write("b.py", HEAD + "#! hang\n")
    line.write("c.py", text(*file_events()))
    cache = str(line.folder.parent / "cache")
    process = line.start(
        "check", "--python", str(line.interpreter), "-j", "1", *options, ".", XDG_CACHE_HOME=cache
    )
    deadline = time.monotonic() + 60
    while "hanging" not in line.engine_log():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return process.returncode, out.decode(), err.decode()


MISSING = "2 of 3 files were not analyzed."


def test_an_interrupted_check_prints_what_it_knows(command_line: CommandLine) -> None:
    status, out, err = interrupt(command_line, signal.SIGINT)
    assert status == 130
    assert f"warning[{BREAK}]: Finding of Net." in out
    assert "Found 1 warning; 1 target in 1 file, 2 files not analyzed" in out
    assert f"error: Interrupted by SIGINT: {MISSING}" in err


@pytest.mark.parametrize("form", ["json", "sarif", "github"])
def test_a_terminated_check_writes_a_valid_report(command_line: CommandLine, form: str) -> None:
    report = command_line.folder / "report"
    status, out, _ = interrupt(
        command_line, signal.SIGTERM, "--format", form, "--output", str(report)
    )
    assert (status, out) == (143, "")
    content = report.read_text()
    if form == "github":
        assert "::warning file=a.py" in content
        assert f"::error title=fullgraph::Interrupted by SIGTERM: {MISSING}" in content
        return
    document = json.loads(content)
    if form == "json":
        assert [file["path"] for file in document["files"]] == ["a.py"]
        assert MISSING in document["errors"][0] and document["unanalyzed"] == ["b.py", "c.py"]
    else:
        (run,) = document["runs"]
        assert [one["ruleId"] for one in run["results"]] == [BREAK]
        (invocation,) = run["invocations"]
        assert not invocation["executionSuccessful"]
        assert MISSING in invocation["toolExecutionNotifications"][0]["message"]["text"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -15)])
def test_a_signal_waits_until_the_report_is_written(
    command_line: CommandLine, number: signal.Signals, status: int
) -> None:
    names = [f"Net{number}" for number in range(1000)]
    events = [event for name in names for event in file_events(name, code=BREAK)]
    command_line.write("a.py", text(*events))
    # A test run in the background of a shell ignores SIGINT, and would pass this on.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = command_line.start(
        "check", "--python", str(command_line.interpreter), "--format", "json", "a.py"
    )
    signal.signal(signal.SIGINT, before)
    assert process.stdout is not None
    # The report does not fit into the pipe, so the command waits in the middle of it.
    first = os.read(process.stdout.fileno(), 1)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    report = json.loads(first + out)
    assert len(report["files"][0]["targets"]) == len(names)
    assert process.returncode == status


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_the_imports_of_the_command_leads_to_a_report(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    status: int,
) -> None:
    load = commands.load_command

    def load_interrupted(name: str) -> commands.CommandModule:
        signal.raise_signal(number)
        return load(name)

    monkeypatch.setattr(commands, "load_command", load_interrupted)
    assert cli.main(["check", "--format", "json", str(tmp_path)]) == status
    report = json.loads(capsys.readouterr().out)
    problem = f"Interrupted by {number.name} before the first file was analyzed."
    assert report["errors"] == [problem]


def test_the_next_check_continues_after_an_interrupted_one(command_line: CommandLine) -> None:
    interrupt(command_line, signal.SIGTERM)
    assert traced_files(command_line) == ["a.py", "b.py"]
    command_line.log.unlink()
    command_line.write("b.py", text(*file_events()))
    cache = str(command_line.folder.parent / "cache")
    ran = command_line.check("-j", "1", ".", XDG_CACHE_HOME=cache)
    assert traced_files(command_line) == ["b.py", "c.py"]
    assert f"warning[{BREAK}]" in ran.out and ran.status == 1


# -- results of earlier checks ----------------------------------------------------------------


def test_failed_searches_for_inputs_are_not_repeated(command_line: CommandLine) -> None:
    command_line.write("a.py", text(*file_events(status="no-probe", code="probe/missing")))
    cache = str(command_line.folder.parent / "cache")
    first = command_line.check(".", XDG_CACHE_HOME=cache)
    command_line.log.unlink()
    again = command_line.check(".", XDG_CACHE_HOME=cache)
    assert command_line.engine_log() == []  # it did not even start
    assert again.out.rpartition(", ")[0] == first.out.rpartition(", ")[0]
    assert first.status == again.status == 2


def test_a_longer_time_limit_traces_the_functions_that_reached_it(
    command_line: CommandLine,
) -> None:
    late = HEAD + "\n\nclass Late(torch.nn.Module):\n    pass\n"
    targets = (TargetInfo("Net", "module", PLACE), TargetInfo("Late", "module", on(7, 6, 10)))
    done: list[Event] = [
        TargetsFound(0, targets),
        FilesRead.from_files(0, ()),
        FindingFound(0, Finding(BREAK, "Finding of Net.", PLACE, "Net")),
        TargetDone(0, TargetReport("Net", "module", PLACE, "traced", graphs=1)),
        TargetDone(0, TargetReport("Late", "module", on(7, 6, 10), "skipped")),
    ]
    command_line.write("a.py", late + script(*done))
    cache = str(command_line.folder.parent / "cache")
    command_line.check("a.py", "--file-timeout", "7", XDG_CACHE_HOME=cache)
    for seconds in ("7", "5"):
        again = command_line.check("a.py", "--file-timeout", seconds, XDG_CACHE_HOME=cache)
        assert again.out.count("Finding of Net.") == 1
        assert "1 over the time limit of the file" in again.out
    assert sum(line.startswith("analyze") for line in command_line.engine_log()) == 1
    for seconds in ("8", "0"):
        again = command_line.check("a.py", "--file-timeout", seconds, XDG_CACHE_HOME=cache)
        assert again.out.count("Finding of Net.") == 1
    assert command_line.engine_log().count("without Net") == 2


@pytest.mark.parametrize("interrupted", [True, False])
def test_results_of_an_interrupted_run_may_lack_findings(tmp_path: Path, interrupted: bool) -> None:
    stored = ResultFile(tmp_path / "stored")
    results, files = Results.from_events(file_events()), FilesRecorder.from_states(())
    basis = TraceBasis(HEAD, (), (), ())
    stored.write(
        StoredRun(basis, results, files, READY, is_complete=False, is_interrupted=interrupted)
    )
    engine = StubEngine()
    check, _ = make_check(tmp_path, "a.py", engine=engine, result_file=lambda request, own: stored)
    asyncio.run(check.run())
    assert engine.requests[0].without == (() if interrupted else ("Net",))


def test_a_check_of_stored_results_can_be_interrupted(tmp_path: Path) -> None:
    names = [f"m{number}.py" for number in range(9)]
    stored = ResultFile(tmp_path / "stored")
    results, files = Results.from_events(file_events()), FilesRecorder.from_states(())
    stored.write(StoredRun(TraceBasis(HEAD, (), (), ()), results, files, READY))
    check, listener = make_check(tmp_path, *names, result_file=lambda request, own: stored)

    async def cancel_after_the_first_file() -> None:
        running = asyncio.create_task(check.run())
        while not listener.checked:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancel_after_the_first_file())
    assert 0 < len(listener.checked) < len(names)


# -- settings of folders ----------------------------------------------------------------------


def test_each_file_has_the_settings_of_its_nearest_project(command_line: CommandLine) -> None:
    command_line.write("pyproject.toml", '[tool.fullgraph]\nmode = "fake"\n')
    command_line.write("lib/pyproject.toml", '[tool.fullgraph]\nmode = "real"\nexclude = ["gen/"]')
    command_line.write("app/pyproject.toml", '[tool.fullgraph]\nignore = ["graph-break"]\nfoo = 1')
    command_line.write("plain/pyproject.toml", "[project]\nname = 'plain'\n")
    for name in ("a.py", "lib/a.py", "lib/gen/a.py", "app/a.py", "plain/a.py"):
        command_line.write(name, text(*file_events(code=BREAK)))
    ran = command_line.check("--no-cache", "-j", "1", ".")
    analyzed = [words.split() for words in command_line.engine_log() if "analyze" in words]
    root = command_line.folder
    assert [
        (Path(path).relative_to(root).as_posix(), mode, cwd)
        for _, path, _, _, mode, cwd in analyzed
    ] == [
        ("a.py", "mode=fake", f"cwd={root}"),
        ("app/a.py", "mode=auto", f"cwd={root / 'app'}"),
        ("lib/a.py", "mode=real", f"cwd={root / 'lib'}"),
        ("plain/a.py", "mode=fake", f"cwd={root}"),
    ]
    assert ran.out.count(f"warning[{BREAK}]") == 3
    assert ran.err.count("'foo'") == 1
    # All of them share one engine.
    assert sum(words.startswith("started") for words in command_line.engine_log()) == 1


def test_the_exit_severity_of_each_file_counts(tmp_path: Path) -> None:
    def results(severity: Severity) -> CheckResults:
        file = CheckedFile("a.py", "/a.py", None, exit_severity=severity)  # type: ignore[arg-type]
        item = dataclasses.make_dataclass("Item", ["severity", "finding"])(
            Severity.WARNING, Finding(BREAK, "m", PLACE)
        )
        return CheckResults((dataclasses.replace(file, findings=(item,)),))

    assert exit_status(results(Severity.WARNING)) == 1
    assert exit_status(results(Severity.ERROR)) == 0


# -- engines ----------------------------------------------------------------------------------


def test_a_project_without_torch_does_not_lose_the_results_of_others(tmp_path: Path) -> None:
    def key(own: FileSettings) -> str:
        if own.settings.interpreter:
            raise EngineUnusable("No torch there.")
        return ""

    check, _ = make_check(
        tmp_path,
        "a.py",
        "bad.py",
        "z.py",
        engine_key=key,
        find_settings=lambda path: own_settings(
            tmp_path, interpreter="python9" if path.name == "bad.py" else ""
        ),
    )
    results = asyncio.run(check.run())
    assert [file.path for file in results.files] == ["a.py", "z.py"]
    assert (results.problems, results.missing) == (("No torch there.",), ("bad.py",))
    assert exit_status(results) == 2


# -- defects ----------------------------------------------------------------------------------


def test_a_defect_in_one_file_does_not_lose_the_others(tmp_path: Path) -> None:
    def fail(file: CheckedFile) -> CheckedFile:
        if file.path == "bad.py":
            raise ZeroDivisionError("a defect")
        return file

    check, listener = make_check(tmp_path, "a.py", "bad.py", "z.py", hide_known=fail)
    results = asyncio.run(check.run())
    assert listener.published == ["a.py", "bad.py", "z.py"]
    bad = results.files[1]
    assert "bad.py was not analyzed because of a defect of fullgraph. Please report" in bad.problem
    assert "ZeroDivisionError: a defect" in bad.defect
    assert exit_status(results) == 101


def test_an_unexpected_exception_has_its_own_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(words: object) -> int:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(commands, "run_command", fail)
    assert cli.main(["check"]) == 101
    shown = capsys.readouterr().err
    assert "Traceback" in shown and "ZeroDivisionError: a defect" in shown
    assert "error: This is a defect of fullgraph. Please report it" in shown


# -- progress ---------------------------------------------------------------------------------


def test_progress_has_files_findings_and_the_remaining_time() -> None:
    now = 100.0
    progress = FilesProgress(wanted=False, clock=lambda: now)
    progress.expect_files(40)
    assert progress.words() == "0/40 files · no findings"
    now = 160.0
    for number in (0, 2, 29):
        progress.add_file(number)
    assert progress.words() == "3/40 files · 31 findings · about 12 min left"
    for _ in range(37):
        progress.add_file(0)
    assert progress.words() == "40/40 files · 31 findings"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "about 1 s left"),
        (89, "about 89 s left"),
        (100, "about 2 min left"),
        (9000, "about 2.5 h left"),
    ],
)
def test_the_remaining_time_in_words(seconds: float, words: str) -> None:
    assert left_words(seconds) == words


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    progress = FilesProgress(wanted=True)
    progress.expect_files(4)
    progress.add_file(2)
    progress.show("Tracing a.py: Net[0]")
    progress.hide()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    assert "1/4 files · 2 findings · about" in shown
    assert "left · Tracing a.py: Net[0]" in shown
    assert "━━━" in shown


async def lines_of(progress: FilesProgress, wanted: int, capsys: Any) -> str:
    """Return what a progress without a terminal writes until it has written some lines."""
    writing = asyncio.create_task(progress.write_lines(first=0.001))
    shown = ""
    while shown.count("\n") < wanted and not writing.done():
        await asyncio.sleep(0)
        shown += capsys.readouterr().err
    writing.cancel()
    return shown


def test_without_a_terminal_progress_is_written_in_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = FilesProgress(wanted=True)
    progress.expect_files(40)
    shown = asyncio.run(lines_of(progress, 2, capsys))
    assert shown.startswith("fullgraph: 0/40 files · no findings\n" * 2)
    quiet = FilesProgress(wanted=False)
    quiet.expect_files(40)
    assert asyncio.run(lines_of(quiet, 1, capsys)) == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert asyncio.run(lines_of(progress, 1, capsys)) == ""
