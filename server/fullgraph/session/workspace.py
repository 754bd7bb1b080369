"""Folders of one editor window, with the settings and interpreter of each file in them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullgraph.engines import Interpreter, find_environment, working_folder
from fullgraph.session.allowances import resolve_allowances
from fullgraph.session.documents import Document, path_of
from fullgraph.session.interpreters import Interpreters
from fullgraph.session.settings import (
    Project,
    Resolved,
    Settings,
    editor_source,
    environment_source,
    find_project,
    is_project,
    resolve_settings,
    without_section,
)
from fullgraph.session.trust import TrustedFolders, trusted_folders_file
from fullgraph_engine.protocol import Allowed

ACTIVE_INTERPRETER = "activeInterpreter"
"""Key under which an editor sends the Python selected in a folder."""


@dataclass(frozen=True)
class _Folder:
    """A workspace folder, identified by its URI."""

    uri: str
    path: Path | None


class Workspace:
    """The workspace folders of one editor window, the editor's settings for them, and the settings
    of each file from all sources.

    ``warn`` receives a sentence for each invalid setting, once each time that the settings are
    read.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._said: bool | None = None
        """Trust in the workspace's code, as decided by the client or by command; None if neither
        decided.
        """
        self._denied = False
        """True if an editor setting withdraws trust in the workspace's code."""
        self._trusted_folders = TrustedFolders(trusted_folders_file(os.environ))
        self.interpreters = Interpreters()
        self._warn = warn
        self._folders: dict[str, _Folder] = {}
        self._options: Mapping[str, Any] = {}
        self._user_settings = False
        self._configuration: dict[str, Any] = {}
        self._resolved: dict[str, tuple[Project, Resolved]] = {}
        self._manifests: dict[Path, float] = {}

    # -- configuration by the editor ----------------------------------------------------------

    def initialize(
        self, options: object, folders: Iterable[str], *, user_settings: bool = False
    ) -> None:
        """Store the initialization options, which may contain settings, and the workspace folders.

        ``user_settings`` is true if the client sends user settings separately from workspace
        settings. The settings that it sends later may then include settings that only a user may
        set.
        """
        self._user_settings = user_settings
        if isinstance(options, Mapping):
            self._options = without_section(options)
            if "trusted" in self._options:
                self._said = self._options["trusted"] is True
        self.change_folders(folders, ())

    def change_folders(self, added: Iterable[str], removed: Iterable[str]) -> None:
        for uri in removed:
            self._folders.pop(uri, None)
        for uri in added:
            self._folders[uri] = _Folder(uri, path_of(uri))

    @property
    def folders(self) -> tuple[str, ...]:
        return tuple(self._folders)

    def configure(self, by_scope: Mapping[str, object]) -> None:
        """Store the editor's settings, by folder; the empty name is for files outside of all
        folders."""
        self._configuration = {scope: without_section(raw) for scope, raw in by_scope.items()}
        # A workspace may contain settings, so they may withdraw trust but not grant it.
        self._denied = any(
            raw.get("trusted", True) is not True for raw in self._configuration.values()
        )

    @property
    def trusted(self) -> bool:
        """Whether code of the workspace may be executed: the client, a command or the user's list
        grants trust and no setting withdraws it."""
        if self._denied:
            return False
        if self._said is not None:
            return self._said
        return self._trusted_folders.contains_all(folder.path for folder in self._folders.values())

    def trust(self, trusted: bool) -> None:
        """Grant or withdraw trust in the code of the workspace folders, for this window and later
        ones.

        Raises:
            OSError: The list cannot be written, so the choice applies to this window only.
        """
        self._said = trusted
        folders = [folder.path for folder in self._folders.values() if folder.path is not None]
        if trusted:
            self._trusted_folders.add(folders)
        else:
            self._trusted_folders.remove(folders)

    # -- settings of a file -------------------------------------------------------------------

    def settings(self, document: Document) -> Settings:
        return self._resolve_settings(document)[1].settings

    def project(self, document: Document) -> Path:
        return self._resolve_settings(document)[0].root

    def resolve_allowed(self, document: Document) -> Allowed:
        """Return the permissions that the settings grant to the code of a file beyond the default
        sandbox.
        """
        folder = self._folder_of(document.path)
        base = folder.path if folder is not None else None
        entries = self.settings(document).sandbox_allow
        return resolve_allowances(entries, base or self.project(document))

    def is_excluded(self, document: Document) -> bool:
        """Return whether the setting ``exclude`` matches the file."""
        patterns, root = self.settings(document).exclude, self.project(document)
        path = document.path
        if not patterns or path is None or not path.is_relative_to(root):
            return False
        from pathspec import GitIgnoreSpec

        return GitIgnoreSpec.from_lines(patterns).match_file(str(path.relative_to(root)))

    def choose_interpreter(self, document: Document) -> Interpreter:
        """Return the interpreter whose torch traces a file.

        A file outside of all workspace folders, such as a sample, is traced with the interpreter of
        the workspace unless its project has one.

        Raises:
            InterpreterNotFound: No interpreter was found, or a search needs trust.
        """
        root = self.project(document)
        folder = self._folder_of(document.path)
        if find_environment(root) is None:
            root = self._environment_root(folder) or root
        active = self._configured_in(folder).get(ACTIVE_INTERPRETER)
        return self.interpreters.find(
            self.settings(document).interpreter,
            root,
            active if isinstance(active, str) else "",
            trusted=self.trusted,
        )

    def _environment_root(self, folder: _Folder | None) -> Path | None:
        """Return the folder whose ``.venv`` applies to a file in a workspace folder; None for a
        window without folders.

        A file outside of all folders uses the first folder with a ``.venv``, else the first folder.
        """
        folders = [folder] if folder is not None else list(self._folders.values())
        paths = [one.path for one in folders if one.path is not None]
        return next((path for path in paths if (path / ".venv").is_dir()), next(iter(paths), None))

    def is_current(self, document: Document) -> bool:
        """Return whether the pyproject.toml with the file's settings is unchanged since it was
        read.

        Not every editor watches files for the server.
        """
        manifest = self.project(document) / "pyproject.toml"
        return self._manifests.get(manifest) == _modified_time(manifest)

    def forget_settings(self, uri: str | None = None) -> None:
        """Discard the cached settings of one file, or of all."""
        if uri is not None:
            self._resolved.pop(uri, None)
        else:
            self._resolved.clear()
            self._manifests.clear()

    def _resolve_settings(self, document: Document) -> tuple[Project, Resolved]:
        known = self._resolved.get(document.uri)
        if known is None:
            folder = self._folder_of(document.path)
            project = _find_project_of(document.path, folder.path if folder else None)
            environment = environment_source(os.environ)
            started = editor_source(_setting_values(self._options), users=True)
            set_ = editor_source(
                _setting_values(self._configured_in(folder)), users=self._user_settings
            )
            known = (project, resolve_settings(project.source, environment, started, set_))
            self._resolved[document.uri] = known
            manifest = project.root / "pyproject.toml"
            self._manifests[manifest] = _modified_time(manifest)
            for problem in (*project.problems, *known[1].problems):
                self._warn(problem)
        return known

    def _configured_in(self, folder: _Folder | None) -> Mapping[str, Any]:
        """Return the editor's settings for a workspace folder; for None, the settings of files
        outside of all folders.
        """
        nowhere: Mapping[str, Any] = self._configuration.get("", {})
        return self._configuration.get(folder.uri, nowhere) if folder else nowhere

    def _folder_of(self, path: Path | None) -> _Folder | None:
        """Return the innermost workspace folder that contains a path; the first folder for unsaved
        files."""
        if path is None:
            return next(iter(self._folders.values()), None)
        around = [
            folder
            for folder in self._folders.values()
            if folder.path is not None and path.is_relative_to(folder.path)
        ]
        return max(around, key=lambda folder: len(str(folder.path)), default=None)


def _setting_values(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the editor's settings without values that only the client uses."""
    theirs = ("trusted", "commands", ACTIVE_INTERPRETER)
    return {key: value for key, value in raw.items() if key not in theirs}


def _find_project_of(path: Path | None, folder: Path | None) -> Project:
    """Return the project of a file, or the workspace folder if nothing on disk marks a project."""
    start = path if path is not None else folder
    if start is None:
        return find_project(working_folder())
    project = find_project(start)
    if is_project(project.root) or folder is None:
        return project
    return dataclasses.replace(project, root=folder)


def _modified_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
