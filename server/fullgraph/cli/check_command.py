"""A run of ``fullgraph check``, after its command line was parsed."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from fullgraph.cli import interruption, sources
from fullgraph.cli.baseline import Baseline
from fullgraph.cli.changes import select_affected
from fullgraph.cli.check import FileCheck
from fullgraph.cli.exit_status import CLEAN, FOUND, UNABLE, Interrupted
from fullgraph.cli.project import common_folder, engine_for, load_settings
from fullgraph.cli.report import CheckPrinter
from fullgraph.cli.sources import SourceFile, UnreadableFile
from fullgraph.cli.terminal import Color, Format, as_utf8, write
from fullgraph.domain.codes import Severity
from fullgraph.engines import InterpreterNotFound, find_interpreter
from fullgraph.render.checked import CheckResults
from fullgraph.session.allowances import resolve_allowances
from fullgraph.session.recordings import recording_of
from fullgraph.session.settings import Project, Resolved, Settings
from fullgraph.store.disk import ResultFile
from fullgraph_engine.protocol import Analyze


@dataclass(frozen=True)
class CheckJob:
    """The options of ``fullgraph check``, without the settings of a project."""

    paths: tuple[str, ...]
    stdin_name: str = "<stdin>"
    """Name of standard input in findings."""
    form: Format = "text"
    color: Color = "auto"
    quiet: bool = False
    verbose: bool = False
    forecast: bool = False
    measure: bool = False
    timings: bool = False
    baseline: Path | None = None
    output: Path | None = None
    changed_since: str = ""
    """Git revision; only files that the changes since it can affect are checked. Empty for all."""

    def run(self, flags: Mapping[str, Any]) -> int:
        """Check files, print the findings, and return the exit status.

        ``flags`` are the settings on the command line, by name.
        """
        try:
            known = Baseline.read(self.baseline) if self.baseline is not None else Baseline()
        except UnreadableFile as error:
            write(sys.stderr, f"error: {error}\n")
            return UNABLE
        named = [self.stdin_name if path == sources.STANDARD_INPUT else path for path in self.paths]
        project, resolved = load_settings(common_folder(named), flags)
        with contextlib.ExitStack() as cleanup:
            out = sys.stdout
            if self.output is not None:
                try:
                    out = cleanup.enter_context(self.output.open("w", encoding="utf-8"))
                except OSError as error:
                    write(sys.stderr, f"error: Cannot write {self.output}: {error.strerror}.\n")
                    return UNABLE
            elif self.form not in ("text", "github"):
                # These formats are UTF-8 on every terminal.
                out = cleanup.enter_context(as_utf8(sys.stdout))
            return self._run_check(out, project, resolved, known)

    def _run_check(self, out: TextIO, project: Project, resolved: Resolved, known: Baseline) -> int:
        texts: dict[str, str] = {}
        inputs = self._read_paths(texts)
        found = sources.find_sources(inputs.named, resolved.settings.exclude, project.root)
        files, remarks = (*inputs.files, *found.files), found.remarks
        if self.changed_since:
            try:
                affected = select_affected(files, self.changed_since, Path.cwd())
            except UnreadableFile as error:
                write(sys.stderr, f"error: {error}\n")
                return UNABLE
            files, remarks = affected.files, (*remarks, affected.remark)
        report = CheckPrinter(
            out,
            self.form,
            self.color,
            quiet=self.quiet,
            files=len(files),
            threshold=resolved.settings.exit_severity,
        )
        report.print_warnings(resolved.problems)
        report.print_remarks(remarks)
        recordings = (recording_of(str(file.absolute), project.root) for file in files)
        report.print_warnings(
            dict.fromkeys(recording.problem for recording in recordings if recording.problem)
        )
        problems = (*inputs.problems, *found.problems)
        check = FileCheck(
            files,
            settings=resolved.settings,
            project=project.root,
            engine=lambda: engine_for(resolved.settings, project, report, verbose=self.verbose),
            listener=report,
            texts=texts,
            forecast=self.forecast,
            measure=self.measure,
            timings=self.timings,
            hide_known=known.hide_known,
            result_file=self._result_files(resolved.settings, project),
        )
        try:
            checked = interruption.run(check.run())
        except Interrupted as end:
            report.hide()
            return end.status
        checked = dataclasses.replace(checked, problems=(*problems, *checked.problems))
        report.finish(checked)
        return _exit_status(checked, resolved.settings)

    def _result_files(
        self, settings: Settings, project: Project
    ) -> Callable[[Analyze], ResultFile | None]:
        """Return a function that maps a request to the file on disk with earlier results.

        It returns None for a request that the options require to be traced again.
        """
        if not settings.cache or self.measure or self.timings or self.verbose:
            return lambda request: None
        try:
            interpreter = find_interpreter(settings.interpreter, project.root, os.environ)
        except InterpreterNotFound:
            return lambda request: None  # starting the engine reports this error
        may = resolve_allowances(settings.sandbox_allow, Path.cwd())
        processes = settings.engine_processes
        return functools.partial(ResultFile.of_request, interpreter.path, may, processes)

    def _read_paths(self, texts: dict[str, str]) -> _NamedPaths:
        """Return the paths to check.

        If standard input is one of them, its text is added to ``texts``, by its name.
        """
        named = tuple(path for path in self.paths if path != sources.STANDARD_INPUT)
        if len(named) == len(self.paths):
            return _NamedPaths(named)
        name = self.stdin_name
        try:
            texts[name] = sources.decode_source(sys.stdin.buffer.read(), name)
        except UnreadableFile as error:
            return _NamedPaths(named, problems=(str(error),))
        # A name such as ``<stdin>`` stays as it is, so that the engine does not look for a file.
        path = Path(name) if name.startswith("<") else Path.cwd() / name
        return _NamedPaths(named, files=(SourceFile(name, path, named=True),))


@dataclass(frozen=True)
class _NamedPaths:
    named: tuple[str, ...]
    files: tuple[SourceFile, ...] = ()
    problems: tuple[str, ...] = ()


def _exit_status(checked: CheckResults, settings: Settings) -> int:
    if checked.incomplete:
        return UNABLE
    if checked.reaches(settings.exit_severity):
        return FOUND
    off = settings.exit_severity is Severity.OFF
    return UNABLE if checked.unanalyzed and not off else CLEAN
