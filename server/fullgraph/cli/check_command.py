"""A run of ``fullgraph check``, after its command line was parsed."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, Union

from fullgraph.cli import interruption, sources
from fullgraph.cli.baseline import Baseline, BaselineUpdate
from fullgraph.cli.baseline_trim import BaselineTrim
from fullgraph.cli.changes import select_affected
from fullgraph.cli.check import CheckEngine, FileCheck
from fullgraph.cli.check_fixes import IgnoreRemover
from fullgraph.cli.cluster.installation import dask_problem
from fullgraph.cli.exit_status import CLEAN, DEFECT, FOUND, UNABLE, Interrupted
from fullgraph.cli.file_settings import FileSettings, NearestSettings
from fullgraph.cli.project import (
    common_folder,
    engine_for,
    engine_key,
    engine_launch,
    load_settings,
)
from fullgraph.cli.report import CheckPrinter
from fullgraph.cli.shard import Shard
from fullgraph.cli.shards import (
    ShardReport,
    file_name,
    settings_digest,
    tree_digest,
)
from fullgraph.cli.sources import SourceFile, UnreadableFile
from fullgraph.cli.terminal import Color, Format, as_utf8, write
from fullgraph.engines import InterpreterNotFound, find_interpreter
from fullgraph.render.checked import CheckedFile, CheckResults
from fullgraph.session.allowances import resolve_allowances
from fullgraph.session.recordings import recording_of
from fullgraph.session.settings import Project, Resolved, Settings, expand_path
from fullgraph.store.disk import ResultFile
from fullgraph_engine.protocol import Analyze

AnyBaseline = Union[Baseline, BaselineUpdate, BaselineTrim]
if TYPE_CHECKING:
    from fullgraph.cli.cluster.connection import Cluster

MOST_TASKS = 1000
"""Maximum number of files that a cluster has at the same time, including files that wait for a
worker."""


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
    forecast: bool | None = None
    """True to predict recompilations, False not to; None if the setting ``effort`` decides."""
    measure: bool = False
    numerics: bool = False
    """True to compare compiled and eager results with float64."""
    timings: bool = False
    baseline: Path | None = None
    update_baseline: bool = False
    """True to accept all findings and write them to the baseline."""
    fix: bool = False
    """True to remove unused ignore comments, and entries of the baseline that no longer occur."""
    output: Path | None = None
    changed_since: str = ""
    """Git revision; only files that the changes since it can affect are checked. Empty for all."""
    shard: Shard | None = None
    """Part of the files to check; None for all."""
    scheduler: str = ""
    """Address of the scheduler of a Dask cluster whose workers trace the files; empty to trace them
    on this machine.
    """

    def run(self, flags: Mapping[str, Any]) -> int:
        """Check files, print the findings, and return the exit status.

        ``flags`` are the settings on the command line, by name.
        """
        named = [self.stdin_name if path == sources.STANDARD_INPUT else path for path in self.paths]
        folder = common_folder(named)
        project, resolved = load_settings(folder, flags)
        if self.scheduler and (problem := dask_problem()):
            write(sys.stderr, f"error: {problem}\n")
            return UNABLE
        with contextlib.ExitStack() as cleanup:
            try:
                known = self._read_baseline(project, resolved.settings)
                out = cleanup.enter_context(open_output(self.output, self.form))
            except UnreadableFile as error:
                write(sys.stderr, f"error: {error}\n")
                return UNABLE
            nearest = NearestSettings(folder, flags)
            return _CheckRun(self, out, project, resolved, nearest, known).run()

    def _read_baseline(self, project: Project, settings: Settings) -> AnyBaseline:
        """Read the baseline that an option or a setting names; without one, return an empty one.

        Raises:
            UnreadableFile: The file cannot be read, or the baseline to update is unknown.
        """
        path = self.baseline
        if path is None and settings.baseline:
            path = project.root / expand_path(settings.baseline, project.root)
        if self.update_baseline:
            if path is None:
                raise UnreadableFile(
                    "--update-baseline writes the file of --baseline or of the setting `baseline`; "
                    "name one, for example with --baseline fullgraph-baseline.json."
                )
            return BaselineUpdate(path)
        if path is None:
            return Baseline()
        return BaselineTrim(path) if self.fix else Baseline.read(path)

    def result_file(self, request: Analyze, own: FileSettings) -> ResultFile | None:
        """Return the file on disk with cached results of a request.

        Return None for a request that the options or settings require to be traced again.
        """
        settings = own.settings
        if not settings.cache or self.measure or self.timings or self.verbose:
            return None
        try:
            interpreter = find_interpreter(settings.interpreter, own.project.root, os.environ)
        except InterpreterNotFound:
            return None  # starting the engine will report this error
        may = resolve_allowances(settings.sandbox_allow, Path.cwd())
        return ResultFile.of_request(interpreter.path, may, settings.engine_processes, request)

    def read_paths(self, texts: dict[str, str]) -> NamedPaths:
        """Return the paths to check.

        If standard input is one of them, its text is stored in ``texts`` under its name.
        """
        named = tuple(path for path in self.paths if path != sources.STANDARD_INPUT)
        if len(named) == len(self.paths):
            return NamedPaths(named)
        name = self.stdin_name
        try:
            texts[name] = sources.decode_source(sys.stdin.buffer.read(), name)
        except UnreadableFile as error:
            return NamedPaths(named, problems=(str(error),))
        # A name such as ``<stdin>`` stays as it is, so that the engine does not look for a file.
        path = Path(name) if name.startswith("<") else Path.cwd() / name
        return NamedPaths(named, files=(SourceFile(name, path, named=True),))


@dataclass(frozen=True)
class NamedPaths:
    """The paths on the command line. ``named`` are paths on disk; ``files`` contains standard
    input, which was read already."""

    named: tuple[str, ...]
    files: tuple[SourceFile, ...] = ()
    problems: tuple[str, ...] = ()


class _CheckRun:
    """One run of ``fullgraph check``, which SIGINT and SIGTERM can end at any time."""

    def __init__(
        self,
        job: CheckJob,
        out: TextIO,
        project: Project,
        resolved: Resolved,
        nearest: NearestSettings,
        known: AnyBaseline,
    ) -> None:
        self._job = job
        self._project = project
        self._base = resolved.settings
        self._nearest = nearest
        self._known = known
        self._ignores = IgnoreRemover()
        self._report = CheckPrinter(out, job.form, job.color, quiet=job.quiet)
        self._report.print_warnings(resolved.problems)
        self._warned = set(resolved.problems)
        self._problems: tuple[str, ...] = ()
        """Sentences about paths on the command line that cannot be checked."""
        self._places: dict[str, int] = {}
        """Index of each file in the list of all shards' files, by path."""
        self._tree = ""
        """Digest of the files of all shards."""
        self._check: FileCheck | None = None
        """The check; None until its files are known."""
        self._cluster: Cluster | None = None
        """The cluster that traces the files; None to trace them on this machine."""

    def run(self) -> int:
        """Check the files, print the report and return the exit status."""
        ended = 0
        try:
            checked = interruption.run(self._run_check())
        except Interrupted as end:
            ended = end.status
            checked = self._partial_results(f"Interrupted by {end.signal_name}")
        except UnreadableFile as error:
            self._report.print_problem(str(error))
            return UNABLE
        checked = dataclasses.replace(checked, problems=(*self._problems, *checked.problems))
        self._report.finish(checked, self._shard_report(checked))
        self._report.print_remarks(self._ignores.remarks)
        if not isinstance(self._known, Baseline) and not ended:
            try:
                self._report.print_remarks(self._known.write())
            except UnreadableFile as error:
                self._report.print_problem(str(error))
                return UNABLE
        return ended or exit_status(checked)

    async def _run_check(self) -> CheckResults:
        self._check = self._prepare_check()
        lines = asyncio.create_task(self._report.progress.write_lines())
        try:
            return await self._check.run()
        finally:
            lines.cancel()
            if self._cluster is not None:
                await self._cluster.close()

    def _partial_results(self, ended: str) -> CheckResults:
        if self._check is not None:
            return self._check.results(ended)
        return CheckResults((), problems=(f"{ended} before the first file was analyzed.",))

    def _prepare_check(self) -> FileCheck:
        job, report = self._job, self._report
        texts: dict[str, str] = {}
        inputs = job.read_paths(texts)
        found = sources.find_sources(inputs.named, self._base.exclude, self._project.root)
        files: Sequence[SourceFile] = (*inputs.files, *self._nearest.exclude(found.files))
        remarks = found.remarks
        if job.changed_since:
            affected = select_affected(files, job.changed_since, Path.cwd())
            files, remarks = affected.files, (*remarks, affected.remark)
        shown = [file.absolute for file in files]
        files = self._select_shard(files, texts)
        report.progress.expect_files(len(files))
        self._problems = (*inputs.problems, *found.problems)
        self._print_warnings(files)
        report.print_remarks(remarks)
        return FileCheck(
            files,
            find_settings=self._nearest.find,
            make_engine=self._engine_maker([str(file.absolute) for file in inputs.files]),
            engine_key=lambda own: engine_key(own.settings, own.project),
            parallel=MOST_TASKS if job.scheduler else self._base.parallel,
            time_limit=self._base.time_limit,
            listener=report,
            texts=texts,
            shown=shown,
            forecast=job.forecast,
            measure=job.measure,
            numerics=job.numerics,
            timings=job.timings,
            hide_known=self._settle,
            result_file=job.result_file,
        )

    def _settle(self, file: CheckedFile) -> CheckedFile:
        """Return a file without the findings that --fix removes or the baseline accepts."""
        return self._known.settle(self._ignores.fix(file) if self._job.fix else file)

    def _engine_maker(self, unsaved: Sequence[str]) -> Callable[[FileSettings], CheckEngine]:
        """Return the function that makes an engine for the settings of a file.

        ``unsaved`` are absolute paths of files whose text is not on disk.
        """
        job, report = self._job, self._report
        if not job.scheduler:
            return lambda own: engine_for(own.settings, own.project, report, verbose=job.verbose)
        from fullgraph.cli.cluster.connection import Cluster
        from fullgraph.cli.cluster.engine import ClusterEngine

        cluster = self._cluster = Cluster(job.scheduler)
        return lambda own: ClusterEngine(cluster, engine_launch(own.settings, own.project), unsaved)

    def _select_shard(
        self, files: Sequence[SourceFile], texts: Mapping[str, str]
    ) -> Sequence[SourceFile]:
        """Return the files of the shard that the command line selects; all files without a
        shard."""
        shard, root = self._job.shard, self._project.root
        if shard is None:
            return files
        self._places = {file.path: place for place, file in enumerate(files)}
        self._tree = tree_digest(files, root, texts)
        return [file for file in files if shard.has(file_name(file, root))]

    def _shard_report(self, checked: CheckResults) -> ShardReport | None:
        job = self._job
        if job.shard is None or job.form != "json":
            return None
        # Absolute paths may differ between machines.
        options = (job.forecast, job.timings, sorted(map(repr, self._known.known.values())))
        return ShardReport.from_results(
            job.shard,
            checked,
            self._places,
            tree=self._tree,
            settings=settings_digest(self._base, *options),
        )

    def _print_warnings(self, files: Sequence[SourceFile]) -> None:
        """Print warnings about settings and recordings of the files, each once."""
        recordings = [
            recording_of(str(file.absolute), self._nearest.find(file.absolute).project.root)
            for file in files
        ]
        problems = [one.problem for one in recordings if one.problem]
        new = dict.fromkeys((*self._nearest.problems, *problems))
        self._report.print_warnings(one for one in new if one not in self._warned)


def exit_status(checked: CheckResults) -> int:
    """Return the exit status of ``fullgraph check`` for its results."""
    if checked.defective:
        return DEFECT
    if checked.incomplete:
        return UNABLE
    if checked.fails:
        return FOUND
    return UNABLE if checked.unanalyzed else CLEAN


@contextlib.contextmanager
def open_output(path: Path | None, form: Format) -> Iterator[TextIO]:
    """Open the file for a report, or standard output without a path.

    Raises:
        UnreadableFile: The file cannot be written; the message says why.
    """
    if path is not None:
        try:
            stream = path.open("w", encoding="utf-8")
        except OSError as error:
            raise UnreadableFile(f"Cannot write {path}: {error.strerror}.") from error
        with stream:
            yield stream
    elif form not in ("text", "github"):
        # These formats are UTF-8 on every terminal.
        with as_utf8(sys.stdout) as wrapped:
            yield wrapped
    else:
        yield sys.stdout
