"""Run ``fullgraph check`` after its command line was parsed, with functions for other commands.

This module does not import typer, because the import takes longer than a check of a small file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from fullgraph.cli import interruption, sources
from fullgraph.cli.baseline import Baseline
from fullgraph.cli.check import EngineUnusable, FileCheck
from fullgraph.cli.interruption import Interrupted
from fullgraph.cli.report import CheckPrinter, Format
from fullgraph.cli.sources import SourceFile, UnreadableFile
from fullgraph.cli.terminal import Color, as_utf8, write
from fullgraph.domain.codes import Severity
from fullgraph.engines import (
    AnyEngine,
    EngineListener,
    InterpreterNotFound,
    find_interpreter,
    shared_or_own,
)
from fullgraph.kept import EngineStore, ResultStore, engine_basis
from fullgraph.render.checked import CheckResults
from fullgraph.session.allowances import resolve_allowances
from fullgraph.session.recordings import recording_of
from fullgraph.session.settings import (
    Project,
    Resolved,
    Settings,
    command_line_source,
    environment_source,
    find_project,
    resolve_settings,
)
from fullgraph_engine.protocol import Log

CLEAN, FOUND, UNABLE = 0, 1, 2
_BROKEN_PIPE = 141

FORMATS: tuple[Format, ...] = ("text", "json", "sarif", "github")
COLORS: tuple[Color, ...] = ("auto", "always", "never")


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
            elif self.form in ("json", "sarif"):
                # These formats are UTF-8 on every terminal.
                out = cleanup.enter_context(as_utf8(sys.stdout))
            return self._run_check(out, project, resolved, known)

    def _run_check(self, out: TextIO, project: Project, resolved: Resolved, known: Baseline) -> int:
        texts: dict[str, str] = {}
        inputs = self._read_paths(texts)
        found = sources.find_sources(inputs.named, resolved.settings.exclude, project.root)
        files = (*inputs.files, *found.files)
        report = CheckPrinter(out, self.form, self.color, quiet=self.quiet, files=len(files))
        report.print_warnings(resolved.problems)
        report.print_remarks(found.remarks)
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
            result_cache=self._result_cache(resolved.settings, project),
        )
        try:
            checked = interruption.run(check.run())
        except Interrupted as end:
            report.hide()
            return end.status
        checked = dataclasses.replace(checked, problems=(*problems, *checked.problems))
        report.finish(checked)
        return _exit_status(checked, resolved.settings)

    def _result_cache(self, settings: Settings, project: Project) -> EngineStore | None:
        """Return the cache of earlier results; None if the options require a new run."""
        if not settings.cache or self.measure or self.timings or self.verbose:
            return None
        try:
            interpreter = find_interpreter(settings.interpreter, project.root, os.environ)
        except InterpreterNotFound:
            return None  # starting the engine reports this error
        may = resolve_allowances(settings.sandbox_allow, Path.cwd())
        return EngineStore(
            ResultStore(), engine_basis(interpreter.path, may, settings.engine_processes)
        )

    def _read_paths(self, texts: dict[str, str]) -> _NamedPaths:
        """Return the paths to check; the text of standard input is added to ``texts`` by its
        name."""
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


def engine_for(
    settings: Settings,
    project: Project,
    report: CheckPrinter | None = None,
    *,
    verbose: bool = False,
) -> AnyEngine:
    """Return an engine that the settings select, running in the background or new.

    With ``verbose``, ``report`` prints the output of the traced code.

    Raises:
        EngineUnusable: No interpreter was found.
    """
    try:
        interpreter = find_interpreter(settings.interpreter, project.root, os.environ)
    except InterpreterNotFound as error:
        raise EngineUnusable(str(error)) from error
    if report is not None and interpreter.remark:
        report.print_remarks([interpreter.remark])

    def on_log(log: Log) -> None:
        if report is not None and verbose:
            report.print_log(log.text)

    def on_note(sentence: str) -> None:
        if report is not None and verbose:
            report.print_remarks([sentence])

    return shared_or_own(
        EngineListener(log=on_log),
        interpreter.path,
        keep=settings.engine_keep_seconds,
        cwd=project.root,
        processes=settings.engine_processes,
        # Paths on the command line are relative to the current folder.
        allowed=resolve_allowances(settings.sandbox_allow, Path.cwd()),
        on_note=on_note,
    )


def load_settings(start: Path, flags: Mapping[str, Any]) -> tuple[Project, Resolved]:
    """Return the project that contains the folder ``start``, and the settings that apply to it.

    ``flags`` are the settings on the command line, by name. Exits with an error if one is invalid.
    """
    source = command_line_source(flags)
    bad = resolve_settings(source).problems
    if bad:
        for problem in bad:
            write(sys.stderr, f"error: {problem.partition(';')[0]}.\n")
        raise SystemExit(UNABLE)
    project = find_project(start)
    resolved = resolve_settings(project.source, environment_source(os.environ), source)
    problems = (*project.problems, *resolved.problems)
    return project, dataclasses.replace(resolved, problems=problems)


def common_folder(paths: Sequence[str]) -> Path:
    """Return the innermost folder that contains all paths."""
    absolute = [Path.cwd() / path for path in paths if not path.startswith("<")]
    if not absolute:
        return Path.cwd()
    folders = [str(path if path.is_dir() else path.parent) for path in absolute]
    return Path(os.path.commonpath([os.path.abspath(folder) for folder in folders]))  # noqa: PTH100


def resolve_here(path: str | None) -> str | None:
    """Make a path from the command line absolute; the names of commands stay as they are."""
    if path is None or not path.strip() or not (os.sep in path or path.startswith("~")):
        return path
    return str(Path.cwd() / Path(path).expanduser())


def split_values(texts: list[str] | None) -> list[str] | None:
    """Split the values of an option that can be repeated and that takes comma-separated values."""
    if not texts:
        return None
    return [part for text in texts for part in text.split(",")]


def resolve_folders(paths: list[str] | None) -> list[str] | None:
    """Make folders from the command line absolute."""
    return None if paths is None else [str(Path.cwd() / path) for path in paths]


def run_piped(work: Callable[[], int]) -> int:
    """Call ``work`` and return its exit status; 141 if the reader of the output closed the pipe."""
    try:
        return work()
    except BrokenPipeError:
        # Redirect the output, because Python would report the broken pipe again at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
