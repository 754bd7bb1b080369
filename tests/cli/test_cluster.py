"""A check whose files are traced by the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from tests.cli.conftest import SCRIPTED_ENGINE, CommandLine, Ran, on, script, scripted_python
from tests.cli.dask_cluster import QUIET, DaskCluster, running_cluster, wait_until

from fullgraph import __version__
from fullgraph.cli.check import CheckEnded
from fullgraph.cli.cluster.connection import Cluster
from fullgraph.cli.cluster.engine import ClusterEngine
from fullgraph.cli.cluster.tasks import FileDigest, FileDigests, TaskAnswer, TraceTask
from fullgraph.domain.positions import text_hash
from fullgraph.engines import EngineState, EngineStatus
from fullgraph.engines.background import EngineLaunch
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    Event,
    Failed,
    FilesRead,
    Finding,
    FindingFound,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
    TargetStarted,
)
from fullgraph_engine.protocol.files import FileState, file_state

PLACE = on(3, 6, 9)
HEAD = "import torch\n\n\nclass Net(torch.nn.Module):\n    pass  # 名前\n"
WAIT = "#! wait\n"
HANG = "#! hang\n"


def model(number: int, before: str = "") -> str:
    """A file with one target and a finding, after the orders ``before`` to the engine."""
    finding = Finding("graph-break/GB0059", f"Break {number}.", PLACE, "Net", identity="break")
    return (
        HEAD
        + before
        + script(
            TargetsFound(0, (TargetInfo("Net", "module", PLACE),)),
            FilesRead.from_files(0, ()),
            FindingFound(0, finding),
            TargetDone(0, TargetReport("Net", "module", PLACE, "traced", graphs=2, seconds=0.5)),
        )
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Two workers that the tests leave as they are."""
    folder = tmp_path_factory.mktemp("cluster")
    line = CommandLine(folder, folder, folder / "unused.log")
    with running_cluster(folder / "dask", line.environment(), workers=2) as running:
        yield running


@pytest.fixture
def line(tmp_path: Path) -> Iterator[CommandLine]:
    """A command line whose engines write one log each, on whichever worker they are."""
    interpreter = tmp_path / "python-with-script"
    command = f'exec {sys.executable} {SCRIPTED_ENGINE} "$@"'
    interpreter.write_text(f'#!/bin/sh\nSCRIPTED_LOG="{tmp_path}/$$.log" {command}\n')
    interpreter.chmod(0o755)
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    line = CommandLine(folder, interpreter, tmp_path / "unused.log")
    yield line
    for engine in engines(line):
        # An engine that hangs does not notice that its worker has ended.
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(engine).kill()


def write_tree(line: CommandLine) -> None:
    for number in range(6):
        line.write(f"src/m{number}.py", model(number))
    line.write("src/plain.py", "x = 1\n")
    line.write("src/bad.py", b"\xff")


def check_on(cluster: DaskCluster, line: CommandLine, *words: str, stdin: bytes = b"") -> Ran:
    # Results of one machine would hide that workers did not trace the files.
    options = ("--no-cache", "--scheduler", cluster.address)
    return line.check(*options, *words, stdin=stdin, **QUIET)


def without_times(report: str) -> str:
    return re.sub(r'"seconds": [0-9.e-]+', '"seconds": 0', report)


def engines(line: CommandLine) -> dict[int, list[str]]:
    """Names of the files that each engine has traced or begun to trace, by process id."""
    traced = {}
    for log in line.folder.parent.glob("[0-9]*.log"):
        words = (one.split() for one in log.read_text().splitlines())
        traced[int(log.stem)] = [Path(one[1]).name for one in words if one[0] == "analyze"]
    return traced


def traced_files(line: CommandLine) -> list[str]:
    return sorted(name for names in engines(line).values() for name in names)


def wait_for_engine(line: CommandLine, name: str, others: Iterable[int] = ()) -> int:
    """Wait until an engine traces the file ``name``; return its process id.

    Engines with process ids in ``others`` are ignored.
    """

    def find() -> int:
        return next(
            (pid for pid, names in engines(line).items() if name in names and pid not in others), 0
        )

    wait_until(find)
    return find()


def start_on(cluster: DaskCluster, line: CommandLine) -> subprocess.Popen[bytes]:
    return line.start(
        *("check", "--python", str(line.interpreter), "--no-cache", "--format", "json"),
        *("--scheduler", cluster.address, "src"),
        **QUIET,
    )


def file_errors(report: str) -> dict[str, str]:
    files = json.loads(report)["files"]
    return {Path(one["path"]).name: one["error"] for one in files if "error" in one}


def file_names(report: str) -> list[str]:
    return [Path(one["path"]).name for one in json.loads(report)["files"]]


# -- the same report --------------------------------------------------------------------------


def test_the_report_is_the_report_of_one_machine(cluster: DaskCluster, line: CommandLine) -> None:
    write_tree(line)
    for form in ("json", "github"):
        words = ("--format", form, "src", "gone.py")
        local, remote = line.check("--no-cache", *words), check_on(cluster, line, *words)
        assert without_times(remote.out) == without_times(local.out), form
        assert (remote.status, remote.err) == (local.status, local.err)
    shown = check_on(cluster, line, "src").out
    cut = re.compile(r", [0-9.]+ m?s\.$", re.MULTILINE)
    assert cut.sub("", shown) == cut.sub("", line.check("--no-cache", "src").out)
    # The first engine of each check on one machine, and at most one on each worker.
    assert len(engines(line)) <= 3 + 2


def test_a_baseline_standard_input_and_shards_work_as_on_one_machine(
    cluster: DaskCluster, line: CommandLine
) -> None:
    write_tree(line)
    check_on(cluster, line, "--baseline", "known.json", "--update-baseline", "src")
    known = json.loads((line.folder / "known.json").read_text())
    assert len(known["files"]) == 6
    line.write("src/m0.py", model(7))
    (text,) = json.loads(
        check_on(cluster, line, "--format", "json", "--baseline", "known.json", "src").out
    )["files"][1]["findings"]
    assert text["message"] == "Break 7."
    typed = ("--format", "json", "--stdin-filename", "src/m0.py", "-")
    remote = check_on(cluster, line, *typed, stdin=model(8).encode())
    assert json.loads(remote.out)["files"][0]["findings"][0]["message"] == "Break 8."
    reports = []
    for number in (1, 2):
        reports.append(f"{number}.json")
        shard = ("--shard", f"{number}/2", "--format", "json", "--output", reports[-1])
        check_on(cluster, line, *shard, "src")
    merged = line.run("merge", "--format", "json", *reports).out
    whole = line.check("--no-cache", "--format", "json", "src").out
    assert without_times(merged) == without_times(whole)


def test_results_are_stored_where_the_command_runs(cluster: DaskCluster, line: CommandLine) -> None:
    write_tree(line)
    home = {"XDG_CACHE_HOME": str(line.folder.parent / "cache"), **QUIET}
    words = ("--scheduler", cluster.address, "--format", "json", "src")
    first = line.check(*words, stdin=b"", **home)
    assert len(traced_files(line)) == 6
    second = line.check(*words, stdin=b"", **home)
    assert len(traced_files(line)) == 6
    assert without_times(second.out) == without_times(first.out)


async def test_progress_arrives_before_the_results(cluster: DaskCluster, line: CommandLine) -> None:
    started = TargetStarted(0, "Net")
    text = model(1, script(started))
    path = line.write("m1.py", text)
    launch = EngineLaunch(str(line.interpreter), cwd=str(line.folder))
    connection = Cluster(cluster.address)
    engine = ClusterEngine(connection, launch)
    assert (await engine.ready()).state is EngineState.READY
    request = Analyze(0, text_hash(text), str(path), text, cwd=str(line.folder))
    events = [event async for event in engine.analyze(request)]
    await connection.close()
    assert [type(event) for event in events[:2]] == [TargetStarted, TargetsFound]
    assert isinstance(events[-1], Analyzed)


# -- lost workers and schedulers --------------------------------------------------------------


def test_files_of_a_lost_worker_are_traced_by_another(tmp_path: Path, line: CommandLine) -> None:
    write_tree(line)
    line.write("src/m0.py", model(0, WAIT + WAIT))
    local = line.check("--no-cache", "--format", "json", "src")
    before = engines(line)
    with running_cluster(tmp_path / "dask", line.environment(), workers=2) as cluster:
        command = start_on(cluster, line)
        cluster.kill(cluster.worker_of(wait_for_engine(line, "m0.py", before)))
        out, err = command.communicate(timeout=60)
    assert without_times(out.decode()) == without_times(local.out)
    assert (command.returncode, err.decode()) == (local.status, local.err)
    assert sum("m0.py" in names for names in engines(line).values()) == 3


def test_a_file_that_every_worker_is_lost_with(tmp_path: Path, line: CommandLine) -> None:
    write_tree(line)
    line.write("src/m0.py", model(0, HANG))
    env = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    with running_cluster(tmp_path / "dask", line.environment(), workers=2, **env) as cluster:
        command = start_on(cluster, line)
        first = wait_for_engine(line, "m0.py")
        cluster.kill(cluster.worker_of(first))
        second = wait_for_engine(line, "m0.py", [first])
        cluster.start_worker()
        cluster.kill(cluster.worker_of(second))
        out, err = command.communicate(timeout=60)
    assert command.returncode == 2
    errors = file_errors(out.decode())
    assert errors.pop("bad.py")
    sentence = (
        "src/m0.py could not be traced. 2 workers ended while tracing the file. Look at the logs "
        "of the workers; their memory may be too small."
    )
    assert errors == {"m0.py": sentence}
    assert f"error: {sentence}\n" in err.decode()
    assert len(json.loads(out)["files"]) == 8


def test_a_scheduler_that_is_lost(tmp_path: Path, line: CommandLine) -> None:
    write_tree(line)
    line.write("src/m5.py", model(5, HANG))
    with running_cluster(tmp_path / "dask", line.environment(), workers=1) as cluster:
        command = start_on(cluster, line)
        wait_for_engine(line, "m5.py")
        cluster.kill(cluster.scheduler_pid)
        out, err = command.communicate(timeout=60)
    report = json.loads(out)
    lost = report["unanalyzed"]
    assert "src/m5.py" in lost
    # The result of the file before may have been on its way.
    assert len(lost) <= 2
    files = "1 of 8 files was" if len(lost) == 1 else f"{len(lost)} of 8 files were"
    sentence = (
        f"The connection to the Dask scheduler at {cluster.address} was lost: {files} not "
        "analyzed. Run the same command again to continue."
    )
    assert (command.returncode, report["errors"]) == (2, [sentence])
    assert [one for one in err.decode().splitlines() if "bad.py" not in one] == [
        f"error: {sentence}"
    ]
    every = ["bad.py", *(f"m{n}.py" for n in range(6)), "plain.py"]
    assert sorted([*file_names(out.decode()), *(Path(one).name for one in lost)]) == every


def test_a_scheduler_that_cannot_be_reached(line: CommandLine) -> None:
    write_tree(line)
    words = ("--no-cache", "--scheduler", "tcp://127.0.0.1:9", "src/m0.py")
    ran = line.check(*words, stdin=b"", **QUIET)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == (
        "error: Cannot reach a Dask scheduler at tcp://127.0.0.1:9 (start one with `dask "
        "scheduler`, or correct --scheduler): 1 of 1 file was not analyzed. Run the same command "
        "again to continue.\n"
    )


async def test_a_task_of_a_lost_worker_runs_on_a_worker_that_connects_later(
    tmp_path: Path, line: CommandLine
) -> None:
    launch = EngineLaunch(str(line.interpreter), cwd=str(line.folder))
    with running_cluster(tmp_path / "dask", line.environment(), workers=1) as running:
        cluster = Cluster(running.address)
        await cluster.connect()
        while not (workers := await cluster.list_workers()):
            await asyncio.sleep(0.05)
        running.kill(running.workers[0])
        while await cluster.list_workers():
            await asyncio.sleep(0.05)
        run = asyncio.ensure_future(cluster.run(TraceTask(cluster.check, launch), workers[0]))
        running.start_worker()
        answer, _ = await asyncio.wait_for(run, 60)
        await cluster.close()
    assert answer.status is not None and answer.status.state is EngineState.READY


async def test_a_cluster_without_workers(tmp_path: Path, line: CommandLine) -> None:
    with running_cluster(tmp_path / "dask", line.environment()) as running:
        cluster = Cluster(running.address, patience=0.4)
        await cluster.connect()
        with pytest.raises(CheckEnded, match=r"had no workers for 0\.40 s"):
            await cluster.run(TraceTask(cluster.check, EngineLaunch("python")))
        await cluster.close()


async def test_a_scheduler_that_hangs(tmp_path: Path, line: CommandLine) -> None:
    with running_cluster(tmp_path / "dask", line.environment()) as running:
        cluster = Cluster(running.address, patience=1.0)
        await cluster.connect()
        os.kill(running.scheduler_pid, signal.SIGSTOP)
        with pytest.raises(CheckEnded, match=r"did not answer for 1\.00 s"):
            await cluster.run(TraceTask(cluster.check, EngineLaunch("python")))
        os.kill(running.scheduler_pid, signal.SIGCONT)
        await cluster.close()


def test_an_interrupted_check_frees_the_worker(tmp_path: Path, line: CommandLine) -> None:
    write_tree(line)
    line.write("src/m0.py", model(0, HANG))
    with running_cluster(tmp_path / "dask", line.environment(), workers=1) as cluster:
        command = start_on(cluster, line)
        wait_for_engine(line, "m0.py")
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=60)
        assert command.returncode == 130
        assert "Interrupted by SIGINT" in err.decode() and json.loads(out)["unanalyzed"]
        again = check_on(cluster, line, "--format", "json", "src/m1.py")
    assert json.loads(again.out)["files"][0]["findings"]


# -- workers that do not fit ------------------------------------------------------------------


def test_a_worker_without_the_file_or_with_another(tmp_path: Path, line: CommandLine) -> None:
    write_tree(line)
    line.write("src/m0.py", model(0, WAIT + WAIT))
    with running_cluster(tmp_path / "dask", line.environment(), workers=1) as cluster:
        command = start_on(cluster, line)
        wait_for_engine(line, "m0.py")
        # The command has read all files, and the worker has not.
        (line.folder / "src" / "m4.py").unlink()
        line.write("src/m5.py", model(6))
        out, _ = command.communicate(timeout=60)
    errors = file_errors(out.decode())
    step = "Workers need the same files at the same paths as this command."
    worker = r"Worker tcp://127\.0\.0\.1:\d+"
    assert re.fullmatch(
        rf"src/m4.py could not be traced. {worker} reports: Cannot read .*/m4.py: No such "
        rf"file or directory. {step}",
        errors["m4.py"],
    )
    assert re.fullmatch(
        rf"src/m5.py could not be traced. {worker} has a different version of .*/m5.py. {step}",
        errors["m5.py"],
    )
    assert command.returncode == 2 and sorted(errors) == ["bad.py", "m4.py", "m5.py"]


@pytest.mark.parametrize(
    ("version", "words"),
    [("0.0.1", "has fullgraph 0.0.1, but"), ("", "cannot import fullgraph, but")],
)
def test_workers_with_another_fullgraph(
    tmp_path: Path, line: CommandLine, version: str, words: str
) -> None:
    write_tree(line)
    package = tmp_path / "other" / "fullgraph.py"
    package.parent.mkdir()
    package.write_text(f"__version__ = {version!r}" if version else "raise ImportError")
    with running_cluster(tmp_path / "dask", line.environment()) as cluster:
        cluster.start_worker(PYTHONPATH=str(package.parent))
        ran = check_on(cluster, line, "--format", "json", "src/m0.py", "src/m1.py")
    assert ran.status == 2 and ran.err.count("\n") == 1
    assert words in ran.err and f"pip install fullgraph=={__version__}" in ran.err
    report = json.loads(ran.out)
    assert (report["files"], report["unanalyzed"]) == ([], ["src/m0.py", "src/m1.py"])


def test_workers_with_different_torch(tmp_path: Path, line: CommandLine) -> None:
    for number in range(4):
        line.write(f"src/m{number}.py", model(number, WAIT))
    with running_cluster(tmp_path / "dask", line.environment()) as cluster:
        cluster.start_worker(SCRIPTED_TORCH="2.12.0")
        cluster.start_worker(SCRIPTED_TORCH="2.13.0")
        ran = check_on(cluster, line, "--format", "json", "src")
    assert ran.status == 2, ran.err
    errors = file_errors(ran.out)
    assert 0 < len(errors) < 4
    assert all("Use one environment for all workers." in one for one in errors.values())
    assert json.loads(ran.out)["torch"] in ("2.12.0", "2.13.0")


def test_workers_whose_torch_is_missing(cluster: DaskCluster, line: CommandLine) -> None:
    write_tree(line)
    interpreter = scripted_python(line.folder / "python", SCRIPTED_UNUSABLE="There is no torch")
    ran = check_on(cluster, line, "--python", str(interpreter), "src/m0.py", "src/m1.py")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == "error: There is no torch. Install torch.\n"


class OneAnswer(Cluster):
    """A cluster without a connection, whose only worker gives the same answer to each task."""

    def __init__(self, answer: TaskAnswer, events: Sequence[Event]) -> None:
        super().__init__("tcp://nowhere:1")
        self._answer = answer
        self._events = events

    async def connect(self) -> None: ...

    async def list_workers(self) -> Sequence[str]:
        return ["tcp://worker:1"]

    async def run(self, task: TraceTask, worker: str = "") -> tuple[TaskAnswer, Sequence[Event]]:
        return self._answer, self._events


@pytest.mark.parametrize(
    ("own", "other", "words"),
    [
        ("a = 1\n", "a = 1\n", ""),
        ("a = 1\n", "a = 2\n", "has a different version of"),
        ("a = 1\n", None, "does not have"),
        (None, "a = 1\n", "has a different version of"),
        (None, None, ""),
    ],
)
async def test_an_imported_file_that_differs_on_the_worker(
    tmp_path: Path, own: str | None, other: str | None, words: str
) -> None:
    path, elsewhere = tmp_path / "helper.py", tmp_path / "elsewhere.py"
    for file, content in ((path, own), (elsewhere, other)):
        if content is not None:
            file.write_text(content)
    digests = (FileDigest(str(path), FileDigests().digest(str(elsewhere))),)
    status = EngineStatus(EngineState.READY, "", torch="2.13.0", python="3.11.7")
    read = FilesRead.from_files(1, [FileState(str(path), 5, 6)])
    answer = TaskAnswer("tcp://worker:1", status, digests)
    engine = ClusterEngine(OneAnswer(answer, [read, Analyzed(1, "", 0.1)]), EngineLaunch("python"))
    await engine.ready()
    events = [event async for event in engine.analyze(Analyze(0, "", "m.py", ""))]
    if words:
        (failed,) = events
        assert isinstance(failed, Failed)
        assert failed.reason == f"Worker tcp://worker:1 {words} {path}"
    else:
        # Stored results are compared with the times of the files of this machine.
        assert events == [FilesRead.from_files(1, [file_state(str(path))]), Analyzed(1, "", 0.1)]


# -- options ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            "raise ModuleNotFoundError('', name='distributed')",
            "--scheduler needs the package distributed; install it with `pip install "
            "'fullgraph[distributed]'`.",
        ),
        (
            "raise ImportError('no dask 5')",
            "Dask cannot be imported (no dask 5); install compatible versions with `pip install "
            "'fullgraph[distributed]'`.",
        ),
    ],
)
def test_dask_is_not_installed(line: CommandLine, error: str, words: str) -> None:
    write_tree(line)
    line.write("modules/distributed.py", error)
    path = os.pathsep.join((str(line.folder / "modules"), line.environment()["PYTHONPATH"]))
    ran = line.check("--scheduler", "tcp://127.0.0.1:9", "src/m0.py", PYTHONPATH=path)
    assert (ran.status, ran.out, ran.err) == (2, "", f"error: {words}\n")
    # Without the option, the package is not imported.
    assert line.check("src/m0.py", PYTHONPATH=path).status == 1


@pytest.mark.parametrize("words", ["--measure", "--verbose"])
def test_options_that_need_this_machine(line: CommandLine, words: str) -> None:
    ran = line.check("--scheduler", "tcp://127.0.0.1:9", words, "src")
    assert ran.status == 2 and f"--scheduler: {words} works only on this machine" in ran.err


def test_an_address_without_a_port(line: CommandLine) -> None:
    ran = line.check("--scheduler", "head", "src")
    assert ran.status == 2 and "must be an address such as tcp://head:8786" in ran.err
