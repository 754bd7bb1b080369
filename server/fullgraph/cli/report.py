"""Print the progress and the results of ``fullgraph check`` in the format of an option."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TextIO

from fullgraph.cli.progress import FilesProgress
from fullgraph.cli.shards import ShardReport, shard_json
from fullgraph.cli.terminal import Color, Format, paint_for, write
from fullgraph.render.checked import CheckedFile, CheckResults
from fullgraph.render.github import file_github, notice_github, problem_github
from fullgraph.render.gitlab import check_gitlab
from fullgraph.render.html import check_html
from fullgraph.render.json import check_json
from fullgraph.render.junit import check_junit
from fullgraph.render.markdown import check_markdown
from fullgraph.render.paint import Style
from fullgraph.render.sarif import check_sarif
from fullgraph.render.terminal import check_text, file_text, untraced_words

_WHOLE_REPORTS: Mapping[Format, Callable[[CheckResults], str]] = {
    "sarif": check_sarif,
    "gitlab": check_gitlab,
    "junit": check_junit,
    "markdown": check_markdown,
    "html": check_html,
}
"""Functions that format the results of all files as one document, printed at the end of a check."""


class CheckPrinter:
    """Prints the progress and the results of ``fullgraph check``.

    Text and GitHub annotations are printed file by file, other formats at the end. Sentences about
    what could not be checked are printed on standard error in every format.
    """

    def __init__(self, out: TextIO, form: Format, color: Color, *, quiet: bool) -> None:
        self._out = out
        self._format = form
        self._paint = paint_for(out, color)
        self._error_paint = paint_for(sys.stderr, color)
        self._quiet = quiet
        self.progress = FilesProgress(wanted=not quiet)

    # -- during the check ----------------------------------------------------------------------

    def on_engine_start(self) -> None:
        self.progress.show("Importing torch")

    def on_target(self, path: str, target: str) -> None:
        self.progress.show(f"Tracing {path}: {target}")

    def on_import(self, path: str, module: str) -> None:
        self.progress.show(f"Importing for {path}: {module}")

    def on_numerics(self, path: str, target: str) -> None:
        self.progress.show(f"Comparing compiled results in {path}: {target}")

    def on_measure(self, path: str, target: str) -> None:
        self.progress.show(f"Measuring {path}: {target}")

    def on_file_checked(self, file: CheckedFile) -> None:
        self.progress.add_file(len(file.findings))

    def on_file_done(self, file: CheckedFile) -> None:
        self.progress.hide()
        if file.defect:
            write(sys.stderr, file.defect)
        if file.problem:
            self.print_problem(file.problem)
        if self._format == "text":
            self._print_text(file_text(file, self._paint, quiet=self._quiet))
        elif self._format == "github":
            self._print_lines(file_github(file))

    # -- the end of a check -------------------------------------------------------------------

    def finish(self, checked: CheckResults, shard: ShardReport | None = None) -> None:
        """Print the end of the output, after the last file: problems, and a summary or the whole
        report.

        ``shard`` is added to a JSON report if only some of the files were checked.
        """
        self.progress.hide()
        for problem in checked.problems:
            self.print_problem(problem)
        if self._format == "json":
            self._print_lines(check_json(checked, shard_json(shard) if shard is not None else None))
        elif (render := _WHOLE_REPORTS.get(self._format)) is not None:
            self._print_lines(render(checked))
        elif self._format == "github":
            problems = [problem_github(problem) for problem in checked.problems]
            notes = [] if self._quiet else map(notice_github, untraced_words(checked))
            self._print_lines("\n".join([*problems, *notes]))
        elif not self._quiet and (checked.files or not checked.problems):
            self._print_lines(check_text(checked, self._paint))

    def print_problem(self, sentence: str) -> None:
        self._print_message("error", Style.ERROR, sentence)

    def print_warnings(self, sentences: Iterable[str]) -> None:
        for sentence in sentences:
            self._print_message("warning", Style.WARNING, sentence)

    def print_remarks(self, sentences: Iterable[str]) -> None:
        if not self._quiet:
            for sentence in sentences:
                self._print_message("note", Style.INFORMATION, sentence)

    def print_log(self, text: str) -> None:
        """Print output of the traced code on standard error."""
        self.progress.hide()
        write(sys.stderr, text)

    def _print_message(self, word: str, style: Style, sentence: str) -> None:
        self.progress.hide()
        write(sys.stderr, f"{self._error_paint(style, f'{word}:')} {sentence}\n")

    def _print_text(self, text: str) -> None:
        if text:
            self._print_lines(text + "\n")

    def _print_lines(self, text: str) -> None:
        if text:
            write(self._out, text + "\n")
