"""The text that a tool call is about: from a file or unsaved, with its settings and hash."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fullgraph.cli import sources
from fullgraph.cli.file_settings import FileSettings, NearestSettings
from fullgraph.cli.sources import SourceFile, UnreadableFile
from fullgraph.domain import notebooks
from fullgraph.domain.paths import short_path
from fullgraph.domain.positions import TextPositions, text_hash
from fullgraph.mcp.answers import Refused
from fullgraph.mcp.diffs import apply_cell_diffs, apply_diff
from fullgraph.session.trust import TrustedFolders, trusted_folders_file
from fullgraph_engine.protocol import Position

MOST_CHARACTERS = 2_000_000
"""Maximum number of characters of a text to analyze."""


@dataclass(frozen=True)
class Subject:
    """The text that a tool call is about.

    ``path`` is the path as the caller wrote it, ``absolute`` the file on disk, which may not exist
    if the text is unsaved.
    """

    path: str
    absolute: Path
    text: str
    own: FileSettings
    notes: tuple[str, ...] = ()
    """Sentences about invalid settings of the project."""

    @cached_property
    def hash(self) -> str:
        """Hash of the text, which every answer about it contains."""
        return text_hash(self.text)

    @cached_property
    def positions(self) -> TextPositions:
        return TextPositions(self.text)

    def read_edit(self, changed: str | None, diff: str) -> str:
        """Return the Python text after an edit, given as the new text of the file or as a diff.

        Raises:
            Refused: Both or none are given, or the diff does not fit.
        """
        if (changed is None) == (not diff):
            raise Refused("Pass either `changed`, the whole new text, or `diff`.")
        if changed is not None:
            return _python_text(self.path, changed)
        is_notebook = self.path.endswith(notebooks.SUFFIX)
        return (apply_cell_diffs if is_notebook else apply_diff)(self.text, diff)

    @cached_property
    def short_path(self) -> str:
        """Path for places and diffs: relative to the current folder or to the project."""
        for folder in (Path.cwd(), self.own.project.root):
            if self.absolute.is_relative_to(folder):
                return str(self.absolute.relative_to(folder))
        return self.absolute.name

    @property
    def source(self) -> SourceFile:
        return SourceFile(self.path, self.absolute, named=True)

    def replace_text(self, text: str) -> Subject:
        """Return the subject with another text of the same file.

        Raises:
            Refused: The text is too long.
        """
        _check_length(text, self.path)
        return dataclasses.replace(self, text=text)

    def locate(self, position: Position, path: str = "") -> str:
        """Return ``path:line:column`` of a position, counted from 1.

        In a notebook, the line is a cell and the line in it. ``path`` is the absolute path of
        another file; columns in other files count bytes.
        """
        if path and path not in (str(self.absolute), self.path):
            folder = str(self.own.project.root)
            return f"{short_path(path, folder)}:{position.line + 1}:{position.byte + 1}"
        cell = notebooks.find_cell_in_file(self.path, self.positions, position.line)
        line = cell.words if cell is not None else str(position.line + 1)
        return f"{self.short_path}:{line}:{self.positions.column(position) + 1}"

    def line(self, number: int) -> str:
        """Return the text of a zero-based line, without indentation."""
        return self.positions.line(number).strip()


def read_subject(file: str, text: str | None, version: str, flags: Mapping[str, Any]) -> Subject:
    """Return the subject for the arguments of a tool call.

    ``text`` is the unsaved text; None to read the file. ``version`` is the hash that the text must
    have; empty for any. ``flags`` are the settings on the command line, by name.

    Raises:
        Refused: The user does not trust the folder, the file cannot be read, or the text has
            another hash.
    """
    absolute = sources.absolute_path(Path(file))
    require_trust(absolute.parent)
    if text is None:
        try:
            text = sources.read_source(SourceFile(file, absolute, named=True))
        except UnreadableFile as error:
            raise Refused(str(error)) from error
    else:
        text = _python_text(file, text)
    _check_length(text, file)
    nearest = NearestSettings(absolute.parent, flags)
    subject = Subject(file, absolute, text, nearest.find(absolute), nearest.problems)
    if version and version != subject.hash:
        raise Refused(
            f"{file} has changed: its text has the hash {subject.hash}, not {version}; call "
            "`check` again."
        )
    return subject


def require_trust(folder: Path) -> None:
    """Check that a folder is in, or below, the user's list of trusted folders, which some editors
    use too.

    Raises:
        Refused: The user does not trust the folder, so nothing in it may be executed.
    """
    if not TrustedFolders(trusted_folders_file(os.environ)).contains_all([folder]):
        raise Refused(
            f"The folder {folder} is not trusted, so none of its code is executed; ask the user to "
            "run `fullgraph trust` in the folder of the project."
        )


def _python_text(file: str, text: str) -> str:
    """Return the Python text for the unsaved text of a file, which may be a notebook.

    Raises:
        Refused: The text is not a notebook, but the file is one.
    """
    if not file.endswith(notebooks.SUFFIX):
        return text
    try:
        return notebooks.notebook_to_python(text)
    except notebooks.NotANotebook as error:
        raise Refused(f"The text of {file} is not a notebook of format 4: {error}.") from error


def _check_length(text: str, file: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise Refused(
            f"The text of {file} has {len(text):,} characters, more than {MOST_CHARACTERS:,}; "
            "analyze a smaller file."
        )
