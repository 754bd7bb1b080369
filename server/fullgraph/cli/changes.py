"""Restrict a check to the files that the changes since a git revision can affect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fullgraph.cli.git import find_commit, repository_of, run_git
from fullgraph.cli.sources import SourceFile, UnreadableFile, decode_source
from fullgraph.incremental.projects import ChangedFile, find_affected_files
from fullgraph.session.settings import settings_table

_CONFIGURATION = frozenset({"pyproject.toml", "fullgraph.probes.json"})
"""Names of files that affect the results of all files."""
_MOST_CHARACTERS = 2_000_000
"""Maximum number of characters of a file whose imports are followed; a longer file is assumed to be
generated."""


@dataclass(frozen=True)
class AffectedSources:
    """The files of a check that changes since a git revision can affect, and a sentence about all
    other files."""

    files: tuple[SourceFile, ...]
    remark: str


def select_affected(files: Sequence[SourceFile], revision: str, folder: Path) -> AffectedSources:
    """Select the files whose results may differ from the results at a revision.

    The changes are the differences between the working tree and the last common commit of HEAD and
    ``revision``, including new files that git does not ignore. ``folder`` is any folder of the
    repository.

    Raises:
        UnreadableFile: git, the repository, the revision or a common commit does not exist.
    """
    repository = repository_of(folder).resolve()
    commit = find_commit(revision, repository)
    base = run_git(
        ["merge-base", commit, "HEAD"],
        repository,
        f"git knows no common commit of HEAD and {revision}; fetch the whole history, for example "
        "with `fetch-depth: 0` in actions/checkout",
    )
    changed = _list_files(["diff", "--name-only", "--no-renames", "-z", base], repository)
    new = _list_files(["ls-files", "--others", "--exclude-standard", "-z"], repository)
    configuration = sorted(
        path
        for path in (*changed, *new)
        if _name(path) in _CONFIGURATION and _has_other_settings(repository, base, path)
    )
    since = f"since {revision} ({base[:7]})"
    if configuration:
        return AffectedSources(
            tuple(files), f"All files are checked, because {configuration[0]} changed {since}."
        )
    paths = sorted(path for path in {*changed, *new} if path.endswith(".py"))
    texts = _read_project(repository) if paths else {}
    changes = [
        ChangedFile(path, _read_revision(repository, base, path), texts.get(path)) for path in paths
    ]
    affected = find_affected_files(texts, changes)
    selected = tuple(
        file
        for file in files
        if not file.path.endswith(".py") or _in_repository(file, repository) in affected
    )
    left = len(files) - len(selected)
    return AffectedSources(
        selected,
        f"{len(selected)} of {len(files)} files are checked; the changes {since} do not affect "
        f"the other {left}.",
    )


def _in_repository(file: SourceFile, repository: Path) -> str:
    for path in (file.absolute, file.absolute.resolve()):
        if path.is_relative_to(repository):
            return path.relative_to(repository).as_posix()
    raise UnreadableFile(
        f"{file.path} is not in the repository {repository}; name paths of one repository."
    )


def _list_files(arguments: Sequence[str], repository: Path) -> tuple[str, ...]:
    listed = run_git(arguments, repository, f"git could not list the files of {repository}")
    return tuple(filter(None, listed.split("\0")))


def _read_project(repository: Path) -> dict[str, str]:
    """Read all Python files that git tracks or would add, by their path in the repository."""
    listing = ["ls-files", "--cached", "--others", "--exclude-standard", "-z", "*.py"]
    texts: dict[str, str] = {}
    for path in _list_files(listing, repository):
        try:
            data = (repository / path).read_bytes()
            if len(data) <= _MOST_CHARACTERS:
                texts[path] = decode_source(data, path)
        except FileNotFoundError:
            continue
        except (OSError, UnreadableFile):
            texts[path] = ""
    return texts


def _read_revision(repository: Path, commit: str, path: str) -> str | None:
    try:
        return run_git(["show", f"{commit}:{path}"], repository, "")
    except UnreadableFile:
        return None


def _has_other_settings(repository: Path, commit: str, path: str) -> bool:
    """Whether fullgraph reads other values from a configuration file now than at a commit.

    For files other than pyproject.toml, the result is always True.
    """
    if _name(path) != "pyproject.toml":
        return True
    before = _read_revision(repository, commit, path) or ""
    try:
        text = (repository / path).read_text(encoding="utf-8")
        return settings_table(text) != settings_table(before)
    except (OSError, ValueError):
        return True


def _name(path: str) -> str:
    return path.rpartition("/")[2]
