"""Run ``fullgraph diff``: make two checks, or read two reports, and compare them."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

from fullgraph.cli import interruption, sources
from fullgraph.cli.check import CheckEngine, FileCheck
from fullgraph.cli.check_report import CheckReport
from fullgraph.cli.diff.difference import SIDES, CheckDifference, Side, compare_checks
from fullgraph.cli.diff.json import difference_json
from fullgraph.cli.diff.markdown import difference_markdown
from fullgraph.cli.diff.recordings import SharedRecordings
from fullgraph.cli.diff.revisions import CheckedOutTree, check_out
from fullgraph.cli.diff.text import difference_text
from fullgraph.cli.exit_status import CLEAN, FOUND, UNABLE, Interrupted
from fullgraph.cli.file_settings import FileSettings
from fullgraph.cli.progress import ProgressLine
from fullgraph.cli.sources import UnreadableFile, absolute_path
from fullgraph.cli.terminal import Color, as_utf8, paint_for, write, write_message
from fullgraph.domain.codes import Severity
from fullgraph.render.checked import CheckedFile
from fullgraph.render.json import check_json
from fullgraph.render.paint import Style
from fullgraph.session.settings import Project, Settings, SettingsSource

DiffFormat = Literal["text", "json", "markdown"]


@dataclass(frozen=True)
class Variant:
    """The interpreter and git revision of one side of a comparison.

    ``interpreter`` is an absolute path, ``name`` is how it is displayed. ``revision`` is empty if
    the files are checked as they are now.
    """

    name: str
    interpreter: Path
    revision: str = ""


@dataclass(frozen=True)
class DiffOutput:
    """The format of the printed comparison, and where it is written."""

    form: DiffFormat
    file: Path | None
    """File to write the comparison to; None for standard output."""
    color: Color
    quiet: bool

    def check_writable(self) -> None:
        """Check that the output file can be written, before checks that take minutes.

        Raises:
            UnreadableFile: The file cannot be written.
        """
        if self.file is not None:
            was_there = self.file.exists()
            try:
                self.file.open("a").close()
                if not was_there:
                    self.file.unlink()
            except OSError as error:
                raise UnreadableFile(f"Cannot write {self.file}: {error.strerror}.") from error

    def write_difference(self, found: CheckDifference) -> None:
        """Format the differences and write them to the file or to standard output."""
        if self.file is not None:
            with self.file.open("w", encoding="utf-8") as file:
                file.write(self._format_difference(found, file) + "\n")
        elif self.form == "text":
            write(sys.stdout, self._format_difference(found, sys.stdout) + "\n")
        else:
            with as_utf8(sys.stdout) as out:
                out.write(self._format_difference(found, sys.stdout) + "\n")

    def _format_difference(self, found: CheckDifference, stream: TextIO) -> str:
        if self.form == "json":
            return difference_json(found)
        if self.form == "markdown":
            return difference_markdown(found)
        return difference_text(found, paint_for(stream, self.color))

    def print_message(self, word: str, style: Style, sentence: str) -> None:
        write_message(self.color, word, style, sentence)

    def print_error(self, sentence: str) -> None:
        self.print_message("error", Style.ERROR, sentence)


def compare_reports(files: Sequence[Path], output: DiffOutput, threshold: Severity) -> int:
    """Compare the two report files of checks, old and new, and return the exit status.

    A new finding at the severity ``threshold`` or above gives status 1.
    """
    try:
        output.check_writable()
        old, new = (_read_full_report(file) for file in files)
    except UnreadableFile as error:
        output.print_error(str(error))
        return UNABLE
    return _write_result(
        compare_checks(old, new, (str(files[0]), str(files[1]))), output, threshold
    )


def _read_full_report(file: Path) -> CheckReport:
    report = CheckReport.read(file)
    if report.known:
        raise UnreadableFile(
            f"{file} was written with --baseline and leaves out {report.known} findings; "
            "write the report again without --baseline."
        )
    return report


@dataclass(frozen=True)
class DiffChecks:
    """A run of ``fullgraph diff`` that checks the same paths twice, with the same settings."""

    paths: tuple[str, ...]
    variants: tuple[Variant, Variant]
    settings: Settings
    project: Path
    """Folder of the project."""
    forecast: bool
    """True if the checks also predict recompilations."""
    engine: Callable[[Settings, Path], CheckEngine]
    """Function that creates an engine for settings and a project folder."""
    output: DiffOutput

    def run(self) -> int:
        """Check two interpreters or revisions, print the differences and return the status."""
        try:
            self.output.check_writable()
            with contextlib.ExitStack() as stack:
                places = tuple(
                    _SidePlace(stack.enter_context(check_out(variant.revision, self.project)))
                    if variant.revision
                    else _SidePlace(None)
                    for variant in self.variants
                )
                return self._compare_sides(places)
        except Interrupted as end:
            return end.status
        except UnreadableFile as error:
            self.output.print_error(str(error))
            return UNABLE

    def _compare_sides(self, places: Sequence[_SidePlace]) -> int:
        nowhere = [
            path
            for path in self.paths
            if not any(place.locate(Path(path)).exists() for place in places)
        ]
        if nowhere:
            raise UnreadableFile(f"{nowhere[0]} does not exist on either side; check the path.")
        reports: list[CheckReport] = []
        recordings = SharedRecordings(self.project)
        for side, variant, place in zip(SIDES, self.variants, places, strict=True):
            # If the check of the old side failed, skip the new side: it could not be compared.
            unable = any(report.problems for report in reports)
            reports.append(
                CheckReport(()) if unable else self._check_side(side, variant, place, recordings)
            )
        note = recordings.describe()
        if note and not self.output.quiet:
            self.output.print_message("note", Style.INFORMATION, note)
        names = [
            place.side_name(variant) for variant, place in zip(self.variants, places, strict=True)
        ]
        found = compare_checks(reports[0], reports[1], (names[0], names[1]))
        return _write_result(found, self.output, self.settings.exit_severity)

    def _check_side(
        self, side: Side, variant: Variant, place: _SidePlace, recordings: SharedRecordings
    ) -> CheckReport:
        """Check the files of one side (old or new), and return the report of the check.

        ``variant`` names the side's interpreter and revision, ``place`` its files. ``recordings``
        has the recorded inputs for revisions.

        Raises:
            Interrupted: SIGINT or SIGTERM arrived.
        """
        project = place.locate(self.project)
        roots = [
            str(place.locate_or_keep(Path(root)))
            for root in self.settings.import_roots(self.project)
        ]
        settings = dataclasses.replace(
            self.settings, interpreter=str(variant.interpreter), extra_paths=tuple(roots)
        )
        existing = [path for path in self.paths if place.locate(Path(path)).exists()]
        found = sources.find_sources(existing, settings.exclude, project, place.locate)
        for remark in () if self.output.quiet else found.remarks:
            self.output.print_message("note", Style.INFORMATION, f"{side}: {remark}")
        progress = ProgressLine(wanted=not self.output.quiet)
        own = FileSettings(Project(project, SettingsSource("", {})), settings)
        check = FileCheck(
            found.files,
            find_settings=lambda path: own,
            make_engine=lambda own: self.engine(settings, project),
            parallel=settings.parallel,
            listener=_SideProgress(side, len(found.files), progress),
            forecast=self.forecast,
            adapt_request=lambda request: (
                recordings.adapt_request(request, place.tree) if place.tree else request
            ),
        )
        try:
            checked = interruption.run(check.run())
        finally:
            progress.hide()
        checked = dataclasses.replace(checked, problems=(*found.problems, *checked.problems))
        return CheckReport.parse(place.restore_paths(check_json(checked)), Path(variant.name))


@dataclass(frozen=True)
class _SidePlace:
    """The location of one side's files: a temporary folder for a git revision, or the user's files.

    ``tree`` is the revision that was checked out; None for the user's current files.
    """

    tree: CheckedOutTree | None

    def locate(self, path: Path) -> Path:
        """Return the absolute path where this side has the user's file or folder ``path``.

        Raises:
            UnreadableFile: The path is outside of the repository.
        """
        return absolute_path(path) if self.tree is None else self.tree.locate(path)

    def locate_or_keep(self, path: Path) -> Path:
        """Return the path where this side has ``path``; unchanged if it is outside of the
        repository."""
        with contextlib.suppress(UnreadableFile):
            return self.locate(path)
        return path

    def side_name(self, variant: Variant) -> str:
        """Return the display name of this side: its revision and its interpreter, if given."""
        files = self.tree.name if self.tree is not None else ""
        return ", ".join(part for part in (files, variant.name) if part) or "the current files"

    def restore_paths(self, text: str) -> str:
        """Replace the path of the temporary folder in a text by the path of the repository."""
        if self.tree is None:
            return text
        return text.replace(str(self.tree.folder), str(self.tree.repository))


@dataclass(frozen=True)
class _SideProgress:
    """Shows on the terminal which file of one side is being traced."""

    side: Side
    files: int
    """Number of files to trace on this side of the comparison, before or after the change."""
    progress: ProgressLine
    finished: list[str] = dataclasses.field(default_factory=list)
    """Paths of the files that were already traced."""

    def on_engine_start(self) -> None:
        self.progress.show(f"{self.side}: Importing torch")

    def on_target(self, path: str, target: str) -> None:
        place = f"{len(self.finished) + 1}/{self.files} " if self.files > 1 else ""
        self.progress.show(f"{self.side}: Tracing {place}{path}: {target}")

    def on_import(self, path: str, module: str) -> None:
        self.progress.show(f"{self.side}: Importing for {path}: {module}")

    def on_numerics(self, path: str, target: str) -> None:
        self.progress.show(f"{self.side}: Comparing compiled results in {path}: {target}")

    def on_measure(self, path: str, target: str) -> None:
        self.progress.show(f"{self.side}: Measuring {path}: {target}")

    def on_file_checked(self, file: CheckedFile) -> None:
        self.finished.append(file.path)

    def on_file_done(self, file: CheckedFile) -> None:
        """Do nothing: the comparison is printed after both checks."""


def _write_result(found: CheckDifference, output: DiffOutput, threshold: Severity) -> int:
    for side in SIDES:
        for problem in found.side_check(side).problems:
            output.print_error(f"{side}: {problem}")
    for file in found.files:
        for missed in file.problems:
            output.print_error(f"{missed.side}: {missed.reason}")
    output.write_difference(found)
    if found.incomplete:
        return UNABLE
    return FOUND if found.reaches(threshold) else CLEAN
