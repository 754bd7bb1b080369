"""The process that executes the top-level statements of a user's file and then forks one run for
each target and its inputs."""

from __future__ import annotations

import ast
import errno
import importlib
import os
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

from .. import placeholder, texts
from ..protocol import (
    Analyze,
    Finding,
    Log,
    Position,
    Range,
)
from ..stopwatch import Stopwatch
from ..targets import Tracee
from ..targets.source import parse_module
from . import (
    blackbox,
    early_imports,
    exits,
    frames,
    import_failures,
    import_hook,
    preamble,
    replaced_builtins,
    run,
    sandbox,
    snapshots,
    syntax,
    wire,
)
from .execution import Clock, Execution
from .import_failures import TIME_USED_UP, ModuleTimeIsUp
from .import_progress import ImportProgress
from .module_reporter import ModuleReporter
from .permissions import Permissions
from .pipeline import ModulePipeline
from .process_backends import confinement, descriptors, limits, processes, spare
from .process_backends.channels import ProcessEnds
from .process_backends.fork_server import ForkServer
from .reads import Reads
from .target_planner import TargetPlanner
from .wire import (
    PACKAGES,
    ForkGeneration,
    ImportAhead,
    LaunchEnclosingRun,
    LaunchRun,
    ModuleOrder,
    PhasesTaken,
    PreambleReady,
    PreambleStale,
    RunsPlanned,
    StageBegun,
    TextUnparsable,
)

_DESCRIPTORS = (errno.EBADF, errno.EMFILE, errno.ENOTSOCK)
"""Error numbers that system calls fail with after user code has closed, used up or redirected file
descriptors."""
_exit, _monotonic, _dup = os._exit, time.monotonic, os.dup


def main(
    job: ModuleOrder,
    ends: ProcessEnds,
    pipeline: ModulePipeline,
    user_path: list[str],
    permissions: Permissions,
    *,
    forks: bool,
) -> NoReturn:
    """Execute the user's file as a module, then launch runs (processes that each trace one target)
    on command.

    ``job`` is the order to perform, ``ends`` the channels to the engine's main process. If
    ``forks`` is False, this process itself becomes the only run. The function never returns.
    """
    run.exit_after(
        lambda: _ModuleExecutor(job, ends, pipeline, user_path, permissions, forks).run(),
        ends.report,
        job.analyze.request,
        lost=_DESCRIPTORS,
    )


class _ModuleExecutor:
    def __init__(
        self,
        job: ModuleOrder,
        ends: ProcessEnds,
        pipeline: ModulePipeline,
        user_path: list[str],
        permissions: Permissions,
        forks: bool,
    ) -> None:
        self.job, self.ends, self.pipeline = job, ends, pipeline
        self.user_path, self.forks = user_path, forks
        root = os.path.dirname(job.scratch)  # noqa: PTH120
        self.clock = Clock()
        self.allowed = permissions.allowed
        self.sandbox = sandbox.Sandbox(
            root, pipeline.pass_over, pipeline.disable_tracing, permissions
        )
        self.tree = ast.Module([], [])
        self.lines: list[str] = []
        self.module: types.ModuleType | None = None
        self.execution: Execution | None = None
        self.reporter = ModuleReporter(job, ends, pipeline)
        self.planner = TargetPlanner(pipeline, self.reporter, forks=forks)
        self.refused: tuple[Range, ...] = ()
        self.source: import_hook.TextImporter | None = None
        self.open_texts = import_hook.OpenTexts()
        self.place = import_hook.ModulePlace("", False, ())
        self.progress: ImportProgress | None = None
        self.text_ended = 0.0
        """Time at which the file's statements were finished, set only while packages that import
        the file are still being imported; otherwise 0."""
        self.fault: BaseException | None = None
        """Exception that the engine's own code raised while the file was imported; None if only
        user code failed."""
        self.reads: Reads | None = None
        """Recorder of the files that user code reads; None if the server does not need them."""
        self.may_stay_since: float | None = None
        """Time at which the imports began, to measure what keeping the process would save; None if
        the process cannot be kept."""
        self.watch = Stopwatch("process", job.began)
        self.generation = False
        """True if this process was kept after the imports, or forked from such a process, to
        analyze several versions of the file."""
        self.inside_packages = False
        """True if the process was kept in the middle of an import: packages that import the user's
        module had not finished."""

    @property
    def analyze(self) -> Analyze:
        return self.job.analyze

    def run(self) -> None:
        self.enter()
        if not self.read():
            return
        self.share_imports()
        self.execute()
        self.pipeline.check_operator_calls()
        if self.job.again is None:
            self.reporter.check_registered()
        self.watch.enter_phase("planning")
        namespace = self.module.__dict__ if self.module is not None else {}
        missing = self.execution.unavailable if self.execution is not None else {}
        runs = self.planner.plan_runs(namespace, missing)
        self.before_runs()
        if self.analyze.timings:
            self.reporter.send(PhasesTaken(self.watch.phase_times()))
        late = self.execution.late if self.execution is not None else None
        if not runs or not self.forks:
            # Send these reports now, because no run is forked from this process. Forked runs send
            # them together with their own, because examining all modules is slow.
            self.reporter.report_registered()
            self.reporter.report_reads(self.reads)
        self.reporter.send(RunsPlanned(tuple(runs), late))
        command, ends = self.next_command()
        # From here on, this process is a run, which traces one target.
        blackbox.undo_dump()
        path, text = self.analyze.path, self.analyze.text
        planner = self.planner
        if isinstance(command, LaunchEnclosingRun):
            enclosed = [
                (one, planner.targets[one.target], planner.probes[one.target][one.probe])
                for one in runs
                if one.shared == command.shared
            ]
            taken = snapshots.Snapshots(command, ends, self.pipeline, self.forking)
            command, ends = taken.run_enclosing(enclosed, namespace, text, tells=self.analyze.calls)
        assert isinstance(command, LaunchRun)
        target: Any = planner.targets[command.target]
        probe: Any = planner.probes[command.target][command.probe]
        tracee = Tracee(
            target,
            probe,
            namespace,
            path,
            text,
            command.mode,
            command.found,
            command.uncalled,
            self.analyze.tentative,
            self.analyze.limits.search_seconds,
        )
        forking = self.forking if self.forks else None
        self.sandbox.refusal = None
        reads = self.reads if self.analyze.files else None
        traced = run.Run(command, self.analyze, self.pipeline, tracee, forking, self.sandbox, reads)
        again = self.job.again
        if again is not None and again.probe != probe.info:
            traced.differs = True
        run.main(traced, ends)

    def next_command(self) -> tuple[wire.Downward, ProcessEnds]:
        """Wait for a command to launch a run.

        Return the command and the channels for the run, in a process forked for it or, without
        forks, in this process.
        """
        ends = self.ends
        if self.forks:
            server = ForkServer(ends.control, ends.report, self.forking)
            return server.wait(self.reporter.report_registered)
        if self.job.again is not None:
            return self.job.again.launch, ends
        return spare.next_command(ends.control), ends

    def forking(self, begins: bool) -> None:
        self.sandbox.forking = begins

    # -- before user code ---------------------------------------------------------------------

    def enter(self) -> None:
        self.ends.raise_all()
        if not self.forks:
            # The process opens its output streams again when it becomes a run.
            self.ends.raise_streams()
            seconds = self.analyze.limits.module_seconds
            wire.write_message(self.ends.report, StageBegun("module", seconds))
        self.settle_generation()
        sys.dont_write_bytecode = True
        programs = wire.starts_programs(self.analyze)
        self.sandbox.install(self.analyze.limits.memory, programs=programs)
        self.pipeline.audit_native_writes()
        self.pipeline.note_registrations()

    def settle_generation(self) -> None:
        """Set up descriptors, memory limits and the scratch folder after a fork for a new version
        of the file."""
        ends = self.ends
        if self.job.again is not None:
            descriptors.detach_streams()  # an earlier process has printed the same output
        elif self.forks:
            descriptors.attach_streams(ends.stdout, ends.stderr)
        else:
            descriptors.attach_streams(_dup(ends.stdout), _dup(ends.stderr))
        limits.reset_signals(self.handle_interrupt)
        blackbox.enable_fault_dump(ends.box)
        self.start_clock()
        exits.record_exits(ends.box)
        os.environ.update(sandbox.sandbox_environment(self.job.scratch, self.allowed))
        tempfile.tempdir = self.job.scratch  # in case user code clears TMPDIR
        sandbox.enter_folder(self.analyze.cwd, self.analyze.path, self.job.scratch)
        sys.argv = [self.analyze.path]
        limits.apply_limits(self.analyze.limits.memory, forks=True)

    def start_clock(self) -> None:
        seconds = self.analyze.limits.module_seconds
        blackbox.dump_at(self.ends.box, seconds + run.GRACE)

    def handle_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Record the stack when the engine's main process sends a signal. If it is the signal of
        the time limit, also stop the executing statement."""
        blackbox.at_stack(self.ends.box, frames.of_stack(frame))
        if self.clock.executing and number == limits.INTERRUPT:
            self.clock.interrupted = True
            raise ModuleTimeIsUp

    def read(self, imports: int = 0) -> bool:
        """Parse the file, find its targets (functions and module classes to trace) and report them
        to the server.

        Return False if there is nothing to execute. ``imports`` is the number of top-level
        statements that this process has already executed; they must be unchanged.
        """
        text, path = self.analyze.text, self.analyze.path
        self.watch.enter_phase("reading")
        self.lines = syntax.lines_of(text)
        try:
            tree = parse_module(text)
            # Findings and placeholders from the imports refer to line numbers, so unchanged lines
            # are required.
            places = bool(self.reporter.kept)
            if imports and not syntax.same_beginning(tree, self.tree, imports, places=places):
                self.reporter.send(PreambleStale())
                return False
            # The programs that call the file may reach functions that nothing in the file marks.
            functions = self.analyze.only if self.analyze.callers else ()
            discovery = self.pipeline.discover(text, path, self.analyze.methods, functions)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            finding = _syntax_error(error, self.lines)
            self.reporter.report_findings((finding,))
            where = (
                f" on line {finding.range.start.line + 1}" if isinstance(error, SyntaxError) else ""
            )
            self.reporter.send(TextUnparsable(f"{_parser_message(error)}{where}"))
            return False
        self.tree = tree
        self.reporter.report_findings(discovery.findings)
        self.refused = self.reporter.check_text()
        self.planner.choose_targets(discovery.targets, off=discovery.off)
        wanted = bool(self.planner.wanted)
        alone = not discovery.targets and not discovery.off and self.pipeline.may_register(text)
        if not wanted and not alone:
            self.reporter.send(RunsPlanned(()))
        return wanted or alone

    # -- user code ----------------------------------------------------------------------------

    def execute(self) -> None:
        text, path = self.analyze.text, self.analyze.path
        self.watch.enter_phase("imports")
        place = import_hook.locate_module(path, self.analyze.roots, self.user_path, self.tree)
        self.place = place
        self.set_search_path(place)
        import_hook.cache_source(path, text)
        self.progress = ImportProgress(self.reporter.report_import)
        self.source = import_hook.TextImporter(
            place.name, path, text, place.package, self.run_module, self.progress.begins
        )
        self.open_texts.replace(self.analyze.open_files)
        sys.meta_path[:0] = [self.source, self.open_texts]
        if self.ends.keep_control >= 0 and self.analyze.keep:
            self.may_stay_since = _monotonic()
            self.reporter.keeps_findings = True
        if self.reads is None and (self.may_stay_since is not None or self.analyze.files):
            self.record_reads()
        with self.pipeline.without_tracing():
            self.load(place)
        self.progress.silent = True  # later imports belong to a run
        self.report_late_imports()
        blackbox.undo_dump()
        descriptors.flush_streams()

    def set_search_path(self, place: import_hook.ModulePlace) -> None:
        own = [entry for entry in place.search if entry not in self.user_path]
        sys.path[:] = [*own, *self.user_path]

    def record_reads(self) -> Reads:
        """Begin to record the files that user code reads."""
        scratch = os.path.dirname(self.job.scratch)  # noqa: PTH120
        self.reads = Reads(self.analyze.path, self.user_path, scratch)
        self.reads.open_files = self.open_texts.texts.keys()
        sys.meta_path.append(self.reads.unfound)
        self.sandbox.noted = self.open_texts.loaded = self.reads.opened
        return self.reads

    def load(self, place: import_hook.ModulePlace) -> None:
        """Import the user's module and its parent packages as Python's import system would."""
        skipped = next((skip for skip in self.job.skip if skip.statement == PACKAGES), None)
        failed, reason = None, skipped.reason if skipped is not None else ""
        if skipped is None:
            failed = self.import_module(place.name)
            if failed is None:
                return
            reason = import_failures.failure_reason(import_failures.root_cause(failed))
            self.package_failed(failed)
        line = self.package_line()
        import_hook.stand_in(place.name, self.analyze.path, failed, reason, line)
        if self.execution is None:
            failed = self.import_module(place.name)
            if failed is not None:
                raise failed

    def import_module(self, name: str) -> BaseException | None:
        """Import the user's module.

        Return the exception that one of its parent packages raised, or None.
        """
        error: BaseException | None = None
        if "." in name:
            blackbox.at_statement(self.ends.box, PACKAGES, 0)
        try:
            self.clock.executing = True
            import_hook.load_module(name)
        except BaseException as raised:
            error = raised
        finally:
            self.clock.executing = False
        if self.fault is not None:  # packages may have swallowed the exception
            raise self.fault
        if isinstance(error, wire.ParentUnreachable):
            raise error
        # User code may remove its own module from sys.modules after it was executed.
        gone = isinstance(error, KeyError) and error.args == (name,) and self.execution is not None
        blackbox.after_statements(self.ends.box)
        return None if gone else error

    def package_failed(self, error: BaseException) -> None:
        """Report that importing the parent packages raised ``error``. Do nothing if the cause is a
        statement of the user's file that was reported before."""
        if isinstance(error, ModuleTimeIsUp):
            self.clock.over = True
        if placeholder.find_unavailable(error) is None:
            where = frames.line_range(self.package_line(), self.lines)
            package = self.place.name.rpartition(".")[0]
            self.reporter.report_execution_finding(
                import_failures.package_finding(package, error, where, self.analyze.path)
            )

    def package_line(self) -> int:
        """Return the zero-based number of the first line that imports from the module's parent
        packages."""
        node = syntax.first_import_of(self.tree, self.place.name)
        return node.lineno - 1 if node is not None else 0

    def run_module(self, module: types.ModuleType) -> None:
        """Execute the top-level statements of the module, called by Python's import system."""
        try:
            self.execute_text(module)
        except BaseException as error:
            self.fault = error
            raise

    def execute_text(self, module: types.ModuleType) -> None:
        self.module = module
        execution = Execution(
            self.tree,
            self.analyze.path,
            self.lines,
            self.ends.box,
            self.reporter.report_execution_finding,
            self.pipeline.fake_mode,
            self.skipped_statements(),
            self.clock,
            refused=self.refused,
            beside=self.place.beside,
            guard=self.sandbox,
        )
        execution.late = self.job.again.late if self.job.again is not None else None
        self.execution = execution
        imports = syntax.imports_end(self.tree)
        execution.run_statements(module, 0, imports)
        if self.may_stay_since is not None and self.reads is not None:
            if self.worth_keeping(self.may_stay_since, imports):
                self.watch.enter_phase("staying")
                self.stay_as_preamble(self.reads, imports)
            else:
                self.start_clock()
                descriptors.close_all([self.ends.keep_control, self.ends.keep_report])
            self.may_stay_since, self.reporter.keeps_findings = None, False
        self.watch.enter_phase("module")
        if self.analyze.nice:
            # A lower priority would also affect later processes forked from a kept one.
            limits.give_way(self.analyze.nice)
        execution.run_statements(module, imports, len(self.tree.body))
        if replaced := replaced_builtins.restore_builtins():
            found = replaced_builtins.replacement_finding(replaced, self.lines)
            self.reporter.report_findings((found,))
        # Executing the module is over, but its parent packages may still be importing.
        blackbox.at_statement(self.ends.box, PACKAGES, 0)
        if self.inside_packages and self.progress is not None:
            self.text_ended, self.progress.names = _monotonic(), []

    def report_late_imports(self) -> None:
        progress = self.progress
        if progress is not None and progress.names is not None:
            names, progress.names = progress.names, None
            self.reporter.report_late_imports(names, _monotonic() - self.text_ended)

    def skipped_statements(self) -> dict[int, str]:
        """Return the reason for each top-level statement that must be skipped, by the index of the
        statement."""
        skipped = {skip.statement: skip.reason for skip in self.job.skip}
        again = self.job.again
        if again is not None and again.late is not None:
            skipped[again.late] = TIME_USED_UP
        return skipped

    # -- keeping this process after the imports -----------------------------------------------

    def worth_keeping(self, since: float, imports: int) -> bool:
        took = _monotonic() - since
        blackbox.undo_dump()  # the scheduled dump has a thread, which would not survive a fork
        good = imports > 0 and not self.clock.over and processes.count_threads() == 1
        # Keep the process of an edited file even if its imports were fast: later versions also
        # reuse the results of operator calls that it repeats.
        return good and (self.job.edited or took >= preamble.WORTH_KEEPING)

    def share_imports(self) -> None:
        """Import modules that several files import, and wait here to fork a process for each of
        the other files.

        If a module cannot be imported, the process continues with its own file only. For a file
        that the modules import, the main process starts another process without them.
        """
        names, path = preamble.shared_imports_of(self.analyze).modules, self.analyze.path
        if not names or self.ends.keep_control < 0:
            return
        self.watch.enter_phase("imports")
        tree, roots = self.tree, self.analyze.roots
        self.set_search_path(import_hook.locate_module(path, roots, self.user_path, tree))
        reads = self.record_reads()
        self.clock.executing = True
        try:
            with self.pipeline.without_tracing():
                for name in names:
                    importlib.import_module(name)
        except BaseException as error:
            if isinstance(error, wire.ParentUnreachable):
                raise
            names = ()
        finally:
            self.clock.executing = False
        blackbox.undo_dump()  # the scheduled dump has a thread, which would not survive a fork
        imported = reads.imported_files()
        self.refuse_imported(imported)
        if names and processes.count_threads() == 1:
            self.stay_as_preamble(reads, 0)
            self.refuse_imported(imported)
        else:
            self.start_clock()
            descriptors.close_all([self.ends.keep_control, self.ends.keep_report])

    def refuse_imported(self, imported: frozenset[str]) -> None:
        """End this process, and ask the main process for one without shared imports, if these have
        imported the file to execute."""
        if self.analyze.path in imported:
            self.reporter.send(PreambleStale())
            _exit(0)

    def stay_as_preamble(self, reads: Reads, imports: int) -> None:
        """Keep this process after the file's imports, to be forked for later versions of the file.

        ``reads`` has the files that the imports read, ``imports`` the number of statements
        executed. The function returns only in a process forked for a new version, which executes
        the remaining statements.
        """
        ends = self.ends
        files = reads.file_states()
        self.sandbox.note_shared_memory()
        self.before_runs()
        self.generation = True
        # Examine all modules now, before any fork: the examination writes to memory pages, and a
        # forked process would have to copy them.
        self.inside_packages = len(early_imports.modules_in_progress()) > 1
        server = ForkServer(ends.keep_control, ends.keep_report, self.forking)
        lines = (self.tree.body[imports - 1].end_lineno or 0) if imports else 0
        wire.write_message(ends.keep_report, PreambleReady(lines, files))
        if server.fork(ForkGeneration(0)):
            self.watch.restart_cpu_time()
            self.start_clock()
            return
        descriptors.close_all([ends.control, ends.report])
        descriptors.detach_streams()

        def import_ahead(command: ImportAhead) -> None:
            self.import_ahead(command)
            wire.write_message(ends.keep_report, PreambleReady(lines, reads.file_states()))

        _, fresh = server.wait(ahead=import_ahead, repeat=self.repeat)
        self.go_on(fresh, imports)

    def import_ahead(self, command: ImportAhead) -> None:
        """Import, in a process kept after the file's imports, modules that packages import after
        the user's module.

        Modules that need the user's module are left out.
        """
        assert self.progress is not None
        self.progress.silent = True
        names = early_imports.try_imports(command.names, 5 * command.seconds + 5, self.forking)
        with self.pipeline.without_tracing():
            good = early_imports.import_all(names)
        self.progress.silent = False
        if good != names or processes.count_threads() > 1:
            wire.write_message(self.ends.keep_report, PreambleStale())
        self.before_runs()

    def repeat(self, packed: bytes) -> Iterator[None]:
        """Repeat the operator calls that a run packed, to fill torch's fake tensor cache in a
        process kept after the imports.

        Each step of the iterator makes one call.
        """
        yield from self.pipeline.repeat_operator_calls(packed.decode())
        if processes.count_threads() > 1:
            wire.write_message(self.ends.keep_report, PreambleStale())
        self.before_runs()

    def go_on(self, fresh: ProcessEnds, imports: int) -> None:
        """Execute a newer version of the file in this forked process, from the statement after the
        imports.

        The first ``imports`` statements are the same in both versions. ``fresh`` are the channels
        to the main process.
        """
        with open(fresh.paper, "rb") as file:  # noqa: PTH123
            self.job = wire.decode_message(file.read())
        self.watch = Stopwatch("process", self.job.began)
        fresh.paper = -1
        descriptors.close_all([self.ends.box])
        self.ends = fresh
        self.reporter.job, self.reporter.ends = self.job, fresh
        fresh.raise_all()
        confinement.isolate_process()
        self.sandbox.clear_shared_memory()
        self.settle_generation()
        if not self.read(imports):
            _exit(0)
        self.reporter.report_findings(self.reporter.kept)
        if self.source is not None:
            self.source.replace(self.analyze.text)
        self.open_texts.replace(self.analyze.open_files)
        if self.reads is not None:
            self.reads.open_files = self.open_texts.texts.keys()
            self.reads.set_path(self.analyze.path)
        if self.execution is not None:
            self.execution.switch_text(self.tree, self.lines, self.ends.box, self.refused)

    # -- preparing for runs -------------------------------------------------------------------

    def before_runs(self) -> None:
        limits.reset_signals(self.handle_interrupt)
        if self.forks:
            self.before_forks()

    def before_forks(self) -> None:
        import gc

        self.pipeline.before_forks()
        gc.collect()
        gc.freeze()
        if processes.count_threads() > 1:
            text = (
                "The file started threads. Traces run in forked processes without these threads, "
                "and may hang on locks that they held.\n"
            )
            self.reporter.send(Log(self.analyze.request, "engine", text))


def _parser_message(error: BaseException) -> str:
    """Return why Python could not parse a text, without the line."""
    return getattr(error, "msg", None) or texts.error_message(error) or type(error).__name__


def _syntax_error(error: BaseException, lines: list[str]) -> Finding:
    line = (getattr(error, "lineno", None) or 1) - 1
    where = frames.line_range(line, lines)
    text = lines[line] if 0 <= line < len(lines) else ""
    offset = getattr(error, "offset", None)
    if offset:
        # Column offsets begin with one; the end may be missing or on another line.
        end = getattr(error, "end_offset", None)
        same = getattr(error, "end_lineno", None) == line + 1
        stop = end if same and end and end > offset else offset + 1
        start_byte = len(text[: offset - 1].encode())
        stop_byte = min(len(text[: stop - 1].encode()), len(text.rstrip("\r\n").encode()))
        where = Range(
            Position(line, min(start_byte, stop_byte)), Position(line, max(stop_byte, start_byte))
        )
    return Finding(
        code="trace/syntax-error",
        message=f"The file does not parse: {_parser_message(error)}",
        range=where,
        mode="real",
        identity="trace/syntax-error",
    )
