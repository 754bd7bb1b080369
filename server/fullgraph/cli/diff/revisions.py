"""The files of a repository as they were in a revision, in a temporary folder.

Nothing is written in the repository: git fills the folder by way of an index that is there too.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fullgraph.cli.sources import Unreadable, absolute


@dataclass(frozen=True)
class Tree:
    """``folder`` holds what ``repository`` held in a revision; ``name`` is ``main (1a2b3c4)``."""

    name: str
    folder: Path
    repository: Path

    def located(self, path: Path) -> Path:
        """Where a path of the repository is.

        Raises:
            Unreadable: it is outside of the repository.
        """
        for here in (absolute(path), path.resolve()):
            if here.is_relative_to(self.repository):
                return self.folder / here.relative_to(self.repository)
        raise Unreadable(
            f"{path} is not in the repository {self.repository}, so it has no revisions; "
            "name paths of one repository."
        )


@contextlib.contextmanager
def checked_out(revision: str, start: Path) -> Iterator[Tree]:
    """A revision of the repository that ``start`` is in, until the end of the block.

    Raises:
        Unreadable: there is no git, no repository, or no such revision.
    """
    top = _git(["rev-parse", "--show-toplevel"], start, f"{start} is in no git repository")
    repository = Path(top)
    unknown = f"git has no revision {revision!r} in {repository}"
    if revision.startswith("-"):
        raise Unreadable(f"{unknown}; name a branch, a tag or a commit.")
    commit = _git(["rev-parse", "--verify", "--short", f"{revision}^{{commit}}"], start, unknown)
    with tempfile.TemporaryDirectory(prefix="fullgraph-diff-") as made:
        temporary = Path(made).resolve()
        folder = temporary / "tree"
        # Where a repository ends, ignore files and settings of folders above end to matter.
        (folder / ".git").mkdir(parents=True)
        index = {"GIT_INDEX_FILE": str(temporary / "index")}
        failed = f"git could not write the files of {revision} to {folder}"
        _git(["read-tree", "--no-sparse-checkout", commit], repository, failed, index)
        _git(["checkout-index", "--all", f"--prefix={folder}/"], repository, failed, index)
        name = revision if revision.startswith(commit) else f"{revision} ({commit})"
        yield Tree(name, folder, repository)


def _git(
    arguments: list[str], folder: Path, failed: str, environment: dict[str, str] | None = None
) -> str:
    """What a git command prints; ``failed`` is the sentence where it fails, with git's words."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
    except FileNotFoundError as error:
        raise Unreadable("git was not found; --rev needs it on PATH.") from error
    if done.returncode:
        words = done.stderr.strip().split("\n", 1)[0]
        raise Unreadable(f"{failed} ({words})." if words else f"{failed}.")
    return done.stdout.strip()
