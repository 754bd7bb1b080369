"""Run ``fullgraph repro``, save the script that reproduces a finding, and print the result."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fullgraph.cli import interruption
from fullgraph.cli.check import EngineUnusable
from fullgraph.cli.exit_status import Interrupted
from fullgraph.cli.progress import ProgressLine
from fullgraph.cli.repro import NothingToReproduce, ReproRequest, ReproResult, reproduce_finding
from fullgraph.cli.sources import UnreadableFile
from fullgraph.cli.terminal import Color, as_utf8, write_message
from fullgraph.domain.phrases import listing
from fullgraph.engines import AnyEngine
from fullgraph.render.paint import SEVERITY_STYLES, Style
from fullgraph.render.repro import issue_text, outcome_words
from fullgraph.session.repro_files import (
    ReproData,
    ReproUnwritable,
    WrittenRepro,
    temporary_data_folder,
    write_repro,
)
from fullgraph.session.settings import Settings

VERIFIED, UNVERIFIED, UNABLE = 0, 1, 2
"""Exit statuses: the script was verified and saved; the script was not verified; fullgraph itself
failed."""

STANDARD_OUTPUT = "-"

_WARNING = ("warning", Style.WARNING)


@dataclass(frozen=True)
class ScriptDestination:
    """Where the script is saved.

    With ``file``, it is that file; with only ``folder``, a new file in it; with neither, standard
    output. With ``unversioned``, git ignores the folder if it is created.
    """

    folder: Path | None
    file: Path | None = None
    unversioned: bool = False

    @classmethod
    def parse(cls, option: str | None, folder: Path) -> ScriptDestination:
        """Parse the value of ``--out``; None means a new file in ``folder``.

        Raises:
            FileExistsError: ``--out`` names a file that exists already.
        """
        if option == STANDARD_OUTPUT:
            return cls(None)
        if option is None:
            return cls(folder, unversioned=True)
        path = Path.cwd() / Path(option).expanduser()
        if path.is_dir() or path.suffix != ".py":
            return cls(path)
        if path.exists():
            raise FileExistsError(option)
        return cls(path.parent, path)

    def save_script(self, result: ReproResult, data: str) -> WrittenRepro | None:
        """Save the script and its data files; return their paths.

        ``data`` is the folder with the data files. Returns None without a script, or if the
        destination is standard output.

        Raises:
            Unwritable: The script cannot be written anywhere.
        """
        found = result.outcome.found
        if self.folder is None or found is None:
            return None
        files = ReproData(data, found.data)
        if self.file is not None:
            return write_repro(self.folder, self.file.stem, self.file.suffix, found.script, files)
        return write_repro(
            self.folder, result.name, ".py", found.script, files, unversioned=self.unversioned
        )


@dataclass(frozen=True)
class Delivery:
    """A run of ``fullgraph repro``, which prints its result to standard output and messages to
    standard error.

    With ``issue``, the result is Markdown for a bug report instead of the path of the script.
    """

    request: ReproRequest
    destination: ScriptDestination
    form: Literal["text", "json"]
    issue: bool
    color: Color
    quiet: bool

    def run(self, settings: Settings, project: Path, engine: Callable[[], AnyEngine]) -> int:
        """Reduce the finding, save and print the script, and return the exit status."""
        with temporary_data_folder() as folder:
            return self._reproduce(settings, project, engine, folder)

    def _reproduce(
        self, settings: Settings, project: Path, engine: Callable[[], AnyEngine], folder: str
    ) -> int:
        progress = ProgressLine(wanted=not self.quiet)
        try:
            result = interruption.run(
                reproduce_finding(
                    self.request,
                    settings=settings,
                    project=project,
                    engine=engine,
                    show_progress=progress.show,
                    folder=folder,
                )
            )
        except Interrupted as end:
            progress.hide()
            return end.status
        except NothingToReproduce as error:
            progress.hide()
            self._print_message("error", Style.ERROR, str(error))
            return UNVERIFIED
        except (UnreadableFile, EngineUnusable) as error:
            progress.hide()
            self._print_message("error", Style.ERROR, str(error))
            return UNABLE
        progress.hide()
        return self._save_and_print(result, folder)

    def _save_and_print(self, result: ReproResult, folder: str) -> int:
        outcome = result.outcome
        saved: WrittenRepro | None = None
        write_error = ""
        try:
            saved = self.destination.save_script(result, folder)
        except ReproUnwritable as error:
            write_error = str(error)
        path = relative_path(saved.path) if saved is not None else ""
        remark = write_error or (saved.remark if saved is not None else _lost_data_warning(result))
        self._print_result(result, path, remark, unwritable=bool(write_error))
        self._print_messages(result, remark)
        if outcome.found is None:
            return UNABLE if outcome.failed else UNVERIFIED
        return VERIFIED if outcome.verified and not write_error else UNVERIFIED

    def _print_result(
        self, result: ReproResult, path: str, remark: str, *, unwritable: bool
    ) -> None:
        found = result.outcome.found
        with as_utf8(sys.stdout) as out:
            if self.form == "json":
                out.write(result.format_json(path, remark, issue=self.issue) + "\n")
            elif found is not None and self.issue and not unwritable:
                out.write(issue_text(result.outcome))
            elif found is not None:
                # If the script could not be saved, print it.
                text = f"{path}\n" if path else found.script
                out.write(text if text.endswith("\n") else f"{text}\n")

    def _print_messages(self, result: ReproResult, remark: str) -> None:
        outcome, item = result.outcome, result.item
        if item is not None and not self.quiet:
            place = f"{self.request.place.file}:{item.finding.range.start.line + 1}"
            message = item.finding.message.split("\n", 1)[0]
            self._print_message(
                item.finding.code, SEVERITY_STYLES[item.severity], f"{place}: {message}"
            )
            if result.others:
                others = listing([f"`{other.finding.code}`" for other in result.others])
                self._print_message(
                    "note",
                    Style.STRONG,
                    f"Other findings at this place: {others}; select one with --code.",
                )
        if outcome.found is not None and not self.quiet:
            self._print_message("repro", Style.STRONG, outcome_words(outcome))
            for note in outcome.found.notes:
                self._print_message("note", Style.STRONG, note)
        if outcome.reason:
            bad = outcome.found is None
            self._print_message(*(("error", Style.ERROR) if bad else _WARNING), outcome.reason)
        if remark:
            self._print_message(*_WARNING, remark)

    def _print_message(self, word: str, style: Style, sentence: str) -> None:
        write_message(self.color, word, style, sentence)


def _lost_data_warning(result: ReproResult) -> str:
    """Return a warning if the script needs data files but they are not saved; otherwise an empty
    string.

    Data files are not saved if the script goes to standard output.
    """
    found = result.outcome.found
    if found is None or not found.data:
        return ""
    return (
        "The script needs data files, which were not saved: write the script and its data to a "
        "folder with --out."
    )


def relative_path(path: Path) -> str:
    """Return a path relative to the current folder if it is inside, otherwise unchanged."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith(os.pardir) else relative
