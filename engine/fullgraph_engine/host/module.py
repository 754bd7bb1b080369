"""A module process: executes the text's top-level statements, then forks a run for each probe."""

from __future__ import annotations

import ast
import functools
import os
import socket
import sys
import traceback
import types
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

from ..protocol import (
    Analyse,
    Finding,
    FindingFound,
    Log,
    Position,
    Range,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
)
from . import (
    blackbox,
    descriptors,
    exits,
    frames,
    limits,
    modules,
    placeholder,
    processes,
    run,
    sandbox,
    syntax,
    wire,
)
from .execution import Clock, Execution, TimeIsUp
from .nursery import Nursery
from .pipeline import Discovery, Pipeline, Probe, Target
from .wire import Job, Launch, Planned, PlannedRun, Unparsable

_exit = os._exit


@dataclass
class Given:
    """The descriptors that a module process starts with."""

    control: int
    report: int
    stdout: int
    stderr: int
    box: int


def main(job: Job, given: Given, pipeline: Pipeline, user_path: list[str]) -> NoReturn:
    """Never returns."""
    status = 1
    try:
        _Module(job, given, pipeline, user_path).live()
        status = 0
    except wire.Lost:
        status = run.LOST
    except BaseException:
        try:
            words = traceback.format_exc()
            wire.report(given.report, Log(job.analyse.request, "engine", words))
        except BaseException:
            _exit(status)
    finally:
        _exit(status)


class _Module:
    def __init__(self, job: Job, given: Given, pipeline: Pipeline, user_path: list[str]) -> None:
        self.job, self.given, self.pipeline = job, given, pipeline
        self.user_path = user_path
        self.clock = Clock()
        self.sandbox = sandbox.Sandbox(job.scratch, pipeline.pass_over, pipeline.untouched)
        self.tree = ast.Module([], [])
        self.lines: list[str] = []
        self.module: types.ModuleType | None = None
        self.execution: Execution | None = None
        self.targets: Sequence[Target] = ()
        self.wanted: list[int] = []
        self.note = ""

    @property
    def analyse(self) -> Analyse:
        return self.job.analyse

    def say(self, finding: Finding) -> None:
        wire.report(self.given.report, FindingFound(self.analyse.request, finding))

    def live(self) -> None:
        self.enter()
        discovery = self.read()
        if discovery is None:
            return
        self.execute()
        runs, probes = self.plan(discovery)
        nursery = Nursery(socket.socket(fileno=self.given.control), self.given.report, self.forking)
        self.before_forks()
        wire.report(self.given.report, Planned(tuple(runs)))
        command, given = nursery.wait()
        # From here on this is a run.
        blackbox.undo_dump()
        assert isinstance(command, Launch)
        target = discovery.targets[command.target]
        probe = probes[command.target][command.probe]
        run.main(
            command,
            given,
            self.analyse,
            self.pipeline,
            target,
            probe,
            self.module.__dict__ if self.module is not None else {},
            self.lines,
        )

    def forking(self, begins: bool) -> None:
        self.sandbox.forking = begins

    # -- before user code ---------------------------------------------------------------------

    def enter(self) -> None:
        given = self.given
        given.control = descriptors.raised(given.control)
        given.report = descriptors.raised(given.report)
        given.box = descriptors.raised(given.box)
        descriptors.attach(given.stdout, given.stderr)
        limits.reset_signals(self.interrupted)
        blackbox.attend(given.box)
        blackbox.dump_at(given.box, self.analyse.limits.module_seconds + run.GRACE)
        os.environ.update(sandbox.environment(self.job.scratch))
        _forget_temporary_folder()
        folder = self.analyse.cwd or os.path.dirname(self.analyse.path)  # noqa: PTH120
        try:
            os.chdir(folder)
        except OSError:
            os.chdir(self.job.scratch)
        limits.apply(self.analyse.limits.memory)
        exits.watch(given.box)
        sys.dont_write_bytecode = True
        sys.argv = [self.analyse.path]
        self.sandbox.install()
        self.pipeline.audit_native_writes()

    def interrupted(self, number: int, frame: FrameType | None) -> None:
        """The parent says that time is up; it ends the process if this does not help."""
        blackbox.at_stack(self.given.box, frames.of_stack(frame))
        if self.clock.executing:
            raise TimeIsUp

    def read(self) -> Discovery | None:
        """The targets of the text, told at once; None if there is nothing to execute."""
        text, path = self.analyse.text, self.analyse.path
        self.lines = text.splitlines(keepends=True)
        try:
            self.tree = ast.parse(text, path)
            discovery = self.pipeline.discover(text, path)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self.say(_syntax_error(error, self.lines))
            wire.report(self.given.report, Unparsable(str(error)))
            return None
        for finding in discovery.findings:
            self.say(finding)
        self.targets = discovery.targets
        wanted = [] if discovery.off else self.chosen()
        self.tell_targets(wanted)
        if not wanted:
            wire.report(self.given.report, Planned(()))
            return None
        return discovery

    def chosen(self) -> list[int]:
        """Indices of the targets to trace: those asked for, and of too many the nearest."""
        only, most = self.analyse.only, self.analyse.limits.targets
        wanted = [i for i, target in enumerate(self.targets) if not only or target.name in only]
        if len(wanted) > most:
            focus = self.analyse.focus
            near = sorted(wanted, key=lambda index: distance(self.targets[index].body, focus))
            self.note = (
                f"Of the {len(wanted)} targets in this file only the {most} nearest to the last "
                "edit are traced."
            )
            wanted = sorted(near[:most])
        return wanted

    def tell_targets(self, wanted: list[int]) -> None:
        self.wanted = wanted
        infos = tuple(info(self.targets[index]) for index in wanted)
        wire.report(self.given.report, TargetsFound(self.analyse.request, infos, self.note))

    # -- user code ----------------------------------------------------------------------------

    def execute(self) -> None:
        text, path = self.analyse.text, self.analyse.path
        level = syntax.relative_level(self.tree)
        place = modules.place(path, self.analyse.roots, level)
        own = [entry for entry in place.search if entry not in self.user_path]
        sys.path[:] = [*own, *self.user_path, *place.also]
        modules.show(path, text)
        source = modules.Source(place.name, path, text, place.package, self.statements)
        sys.meta_path.insert(0, source)
        with self.pipeline.untraced():
            load = modules.load
            try:
                self.clock.executing = True
                modules.load_packages(place.name)
            except wire.Lost:
                raise
            except BaseException as error:
                self.say(_package_failed(place.name.rpartition(".")[0], error, self.lines))
                load = functools.partial(modules.load_alone, path=path)
            finally:
                self.clock.executing = False
            try:
                load(place.name)
            except Exception:
                # Code may take itself out of sys.modules; it was executed all the same.
                if self.execution is None:
                    raise
        blackbox.undo_dump()
        descriptors.flush()

    def statements(self, module: types.ModuleType) -> None:
        self.module = module
        self.execution = Execution(
            self.tree,
            self.analyse.path,
            self.lines,
            self.given.box,
            self.say,
            self.pipeline.fake_mode,
            {skip.statement: skip.reason for skip in self.job.skip},
            self.clock,
        )
        self.execution.run(module, 0, len(self.tree.body))

    # -- after it -----------------------------------------------------------------------------

    def plan(self, discovery: Discovery) -> tuple[list[PlannedRun], dict[int, list[Probe]]]:
        namespace = self.module.__dict__ if self.module is not None else {}
        missing = self.execution.unavailable if self.execution is not None else {}
        runs: list[PlannedRun] = []
        probes: dict[int, list[Probe]] = {}
        left: list[int] = []
        for index in self.wanted:
            target = discovery.targets[index]
            gone = missing.get(getattr(target, "definition", "") or target.name)
            if gone is None and not self.pipeline.confirm(target, namespace):
                continue
            left.append(index)
            placeholder.touched.clear()
            error: BaseException | None = gone
            try:
                found = [] if gone else list(self.pipeline.plan(target, namespace))
            except wire.Lost:
                raise
            except BaseException as raised:
                error, found = raised, []
            probes[index] = found
            for number, probe in enumerate(found):
                runs.append(PlannedRun(index, number, info(target), target.body, probe.info))
            if error is not None:
                self.tell_done(target, "failed", str(error) or type(error).__name__)
            elif not found:
                self.say(self.pipeline.missing_probe(target, namespace, self.analyse.text))
                self.tell_done(target, "no-probe", None)
        if left != self.wanted:
            self.tell_targets(left)
        return runs, probes

    def tell_done(self, target: Target, status: Any, error: str | None) -> None:
        report = TargetReport(target.name, target.kind, target.range, status, error=error)
        wire.report(self.given.report, TargetDone(self.analyse.request, report))

    def before_forks(self) -> None:
        import gc

        limits.reset_signals(self.interrupted)
        self.pipeline.before_forks()
        gc.collect()
        gc.freeze()
        if processes.threads() > 1:
            text = (
                "The module started threads; the runs are forked without them and may wait "
                "for locks that they held.\n"
            )
            wire.report(self.given.report, Log(self.analyse.request, "engine", text))


def info(target: Target) -> TargetInfo:
    return TargetInfo(target.name, target.kind, target.range)


def distance(body: Range, line: int) -> int:
    """How many lines a statement is away from one line; 0 inside it."""
    return max(body.start.line - line, line - body.end.line, 0)


def _forget_temporary_folder() -> None:
    import tempfile

    tempfile.tempdir = None


def _syntax_error(error: BaseException, lines: list[str]) -> Finding:
    line = (getattr(error, "lineno", None) or 1) - 1
    where = frames.line_range(line, lines)
    text = lines[line] if 0 <= line < len(lines) else ""
    offset = getattr(error, "offset", None)
    if offset:
        # In characters, counted from one; the end may be missing or on another line.
        end = getattr(error, "end_offset", None)
        same = getattr(error, "end_lineno", None) == line + 1
        stop = end if same and end and end > offset else offset + 1
        start_byte = len(text[: offset - 1].encode())
        stop_byte = min(len(text[: stop - 1].encode()), len(text.rstrip("\r\n").encode()))
        where = Range(
            Position(line, min(start_byte, stop_byte)), Position(line, max(stop_byte, start_byte))
        )
    message = getattr(error, "msg", None) or str(error) or type(error).__name__
    return Finding(
        code="trace/syntax-error",
        message=f"The file does not parse: {message}",
        range=where,
        mode="real",
        identity="trace/syntax-error",
    )


def _package_failed(package: str, cause: BaseException, lines: list[str]) -> Finding:
    return Finding(
        code="trace/import-error",
        message=(
            f"Cannot import the package `{package}` that this file is in: "
            f"{type(cause).__name__}: {cause}"
        ),
        range=frames.line_range(0, lines),
        hints=("The file was executed without its package.",),
        stack=frames.of_traceback(cause.__traceback__),
        mode="real",
        identity=f"import-error:{package}",
    )
