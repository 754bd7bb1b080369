"""Run git and report its failures as errors for the user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from fullgraph.cli.sources import UnreadableFile


def run_git(
    arguments: Sequence[str],
    folder: Path,
    failed: str,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run git in a folder and return its output, without spaces around it.

    ``failed`` is the error message if git fails; ``environment`` are additional variables.

    Raises:
        UnreadableFile: git was not found or failed.
    """
    try:
        process = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    except FileNotFoundError as error:
        raise UnreadableFile("git was not found; install it, or add its folder to PATH.") from error
    if process.returncode:
        words = process.stderr.decode(errors="replace").strip().split("\n", 1)[0]
        raise UnreadableFile(f"{failed} ({words})." if words else f"{failed}.")
    return process.stdout.decode(errors="replace").strip()


def repository_of(folder: Path) -> Path:
    """Return the top folder of the git repository that contains ``folder``.

    Raises:
        UnreadableFile: git was not found, or the folder is outside of every repository.
    """
    return Path(
        run_git(["rev-parse", "--show-toplevel"], folder, f"{folder} is in no git repository")
    )


def find_commit(revision: str, repository: Path) -> str:
    """Return the short hash of the commit that ``revision`` names.

    Raises:
        UnreadableFile: The revision does not exist.
    """
    unknown = f"git has no revision {revision!r} in {repository}"
    if revision.startswith("-"):
        raise UnreadableFile(f"{unknown}; name a branch, a tag or a commit.")
    return run_git(
        ["rev-parse", "--verify", "--short", f"{revision}^{{commit}}"], repository, unknown
    )
