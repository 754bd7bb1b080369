"""Print the results of a check in each format."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Literal, TextIO

from fullgraph.cli.progress import Progress
from fullgraph.cli.terminal import Color, paint_for, write
from fullgraph.render.checked import Checked, CheckedFile
from fullgraph.render.github import file_github, problem_github
from fullgraph.render.json import check_json
from fullgraph.render.paint import Style
from fullgraph.render.sarif import check_sarif
from fullgraph.render.terminal import check_text, file_text

Format = Literal["text", "json", "sarif", "github"]


class Report:
    """Prints the results of a check.

    Text and GitHub annotations are printed file by file, JSON and SARIF at the end. Problems are
    printed on standard error in every format.
    """

    def __init__(self, out: TextIO, form: Format, color: Color, *, quiet: bool, files: int) -> None:
        self._out = out
        self._format = form
        self._paint = paint_for(out, color)
        self._error_paint = paint_for(sys.stderr, color)
        self._quiet = quiet
        self._files = files
        self._done = 0
        self._progress = Progress(wanted=not quiet)

    # -- during the check ----------------------------------------------------------------------

    def starting(self) -> None:
        self._progress.show("Importing torch")

    def tracing(self, path: str, target: str) -> None:
        place = f"{self._done + 1}/{self._files} " if self._files > 1 else ""
        self._progress.show(f"Tracing {place}{path}: {target}")

    def importing(self, path: str, module: str) -> None:
        place = f"{self._done + 1}/{self._files} " if self._files > 1 else ""
        self._progress.show(f"Importing for {place}{path}: {module}")

    def measuring(self, path: str, target: str) -> None:
        self._progress.show(f"Measuring {path}: {target}")

    def done(self, file: CheckedFile) -> None:
        self._done += 1
        self._progress.hide()
        if file.problem:
            self.problem(file.problem)
        if self._format == "text":
            self._text(file_text(file, self._paint, quiet=self._quiet))
        elif self._format == "github":
            self._lines(file_github(file))

    def hide(self) -> None:
        self._progress.hide()

    # -- at the end ---------------------------------------------------------------------------

    def finish(self, checked: Checked) -> None:
        self._progress.hide()
        for problem in checked.problems:
            self.problem(problem)
        if self._format == "json":
            self._lines(check_json(checked))
        elif self._format == "sarif":
            self._lines(check_sarif(checked))
        elif self._format == "github":
            self._lines("\n".join(problem_github(problem) for problem in checked.problems))
        elif not self._quiet and (checked.files or not checked.problems):
            self._lines(check_text(checked, self._paint))

    def problem(self, sentence: str) -> None:
        self._say("error", Style.ERROR, sentence)

    def warnings(self, sentences: Iterable[str]) -> None:
        for sentence in sentences:
            self._say("warning", Style.WARNING, sentence)

    def remarks(self, sentences: Iterable[str]) -> None:
        if not self._quiet:
            for sentence in sentences:
                self._say("note", Style.INFORMATION, sentence)

    def log(self, text: str) -> None:
        """Print output of the traced code."""
        self._progress.hide()
        write(sys.stderr, text)

    def _say(self, word: str, style: Style, sentence: str) -> None:
        self._progress.hide()
        write(sys.stderr, f"{self._error_paint(style, f'{word}:')} {sentence}\n")

    def _text(self, text: str) -> None:
        if text:
            self._lines(text + "\n")

    def _lines(self, text: str) -> None:
        if text:
            write(self._out, text + "\n")
