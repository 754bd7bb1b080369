"""Check out a revision of a git repository into a temporary folder.

The repository itself does not change: git uses an index file in the temporary folder.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fullgraph.cli.git import find_commit, repository_of, run_git
from fullgraph.cli.sources import UnreadableFile, absolute_path


@dataclass(frozen=True)
class CheckedOutTree:
    """The files of a git revision in a temporary folder.

    ``folder`` has the files of the revision, ``repository`` is the user's repository. ``name`` is
    the revision with its commit, for example ``main (1a2b3c4)``.
    """

    name: str
    folder: Path
    repository: Path

    def locate(self, path: Path) -> Path:
        """Return the path in the temporary folder that corresponds to a path of the repository.

        Raises:
            UnreadableFile: The path is outside of the repository.
        """
        for candidate in (absolute_path(path), path.resolve()):
            if candidate.is_relative_to(self.repository):
                return self.folder / candidate.relative_to(self.repository)
        raise UnreadableFile(
            f"{path} is not in the repository {self.repository}, so it has no revisions; "
            "name paths of one repository."
        )

    def restore(self, path: Path) -> Path:
        """Return the path of the repository that corresponds to a path in the temporary folder."""
        return self.repository / path.relative_to(self.folder)


@contextlib.contextmanager
def check_out(revision: str, start: Path) -> Iterator[CheckedOutTree]:
    """Check out a revision of the repository that contains the folder ``start``.

    The temporary folder with its files is removed at the end of the ``with`` block.

    Raises:
        UnreadableFile: git, the repository or the revision does not exist.
    """
    repository = repository_of(start)
    commit = find_commit(revision, repository)
    with tempfile.TemporaryDirectory(prefix="fullgraph-diff-") as temporary_folder:
        temporary = Path(temporary_folder).resolve()
        folder = temporary / "tree"
        # A `.git` folder marks the root of a repository, so that ignore files and settings in the
        # folders above it do not apply.
        (folder / ".git").mkdir(parents=True)
        index = {"GIT_INDEX_FILE": str(temporary / "index")}
        failed = f"git could not write the files of {revision} to {folder}"
        run_git(["read-tree", "--no-sparse-checkout", commit], repository, failed, index)
        run_git(["checkout-index", "--all", f"--prefix={folder}/"], repository, failed, index)
        name = revision if revision.startswith(commit) else f"{revision} ({commit})"
        yield CheckedOutTree(name, folder, repository)
