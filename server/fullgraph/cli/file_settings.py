"""The settings of each file of a check, from the nearest pyproject.toml of the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fullgraph.cli.sources import SourceFile, matches_patterns
from fullgraph.session.effort import apply_effort
from fullgraph.session.settings import (
    Project,
    Settings,
    command_line_source,
    environment_source,
    find_project,
    is_project,
    resolve_settings,
)


@dataclass(frozen=True)
class FileSettings:
    """The settings of one file, and the project that the file belongs to."""

    project: Project
    settings: Settings


FindSettings = Callable[[Path], FileSettings]
"""A function that returns the settings of the file at an absolute path."""


class NearestSettings:
    """Finds the settings of a file in the nearest pyproject.toml with ``[tool.fullgraph]``, in the
    environment, and in ``flags``, the settings on the command line by name.

    Standard input and other texts without a file get the settings of the folder ``base``. It is
    also the project of the files inside, if nothing marks another one.
    """

    def __init__(self, base: Path, flags: Mapping[str, Any]) -> None:
        self._base = base
        self._flags = flags
        self._by_folder: dict[Path, FileSettings] = {}
        self._by_root: dict[Path, FileSettings] = {}
        self._problems: dict[str, None] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """Sentences about invalid settings of the files so far."""
        return tuple(self._problems)

    def find(self, path: Path) -> FileSettings:
        """Return the settings of the file at an absolute path."""
        folder = path.parent if path.is_absolute() else self._base
        known = self._by_folder.get(folder)
        if known is None:
            known = self._by_folder[folder] = self._read(folder)
        return known

    def exclude(self, files: Iterable[SourceFile]) -> tuple[SourceFile, ...]:
        """Return the files that the setting ``exclude`` of their own project does not match, and
        all files that the user named.
        """
        return tuple(
            file
            for file in files
            if file.named or not self._is_excluded(file.absolute, self.find(file.absolute))
        )

    def _is_excluded(self, path: Path, own: FileSettings) -> bool:
        return matches_patterns(path, own.settings.exclude, own.project.root)

    def _read(self, folder: Path) -> FileSettings:
        project = find_project(folder)
        if not is_project(project.root) and self._base in project.root.parents:
            # Nothing marks a project, so it is the folder that the user named.
            project = replace(project, root=self._base)
        known = self._by_root.get(project.root)
        if known is None:
            source = command_line_source(self._flags)
            resolved = resolve_settings(project.source, environment_source(os.environ), source)
            self._problems.update(dict.fromkeys((*project.problems, *resolved.problems)))
            known = FileSettings(project, apply_effort(resolved).settings)
            self._by_root[project.root] = known
        return known
