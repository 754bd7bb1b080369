"""Unified diffs of a file."""

from __future__ import annotations

import difflib

NO_NEWLINE = "\\ No newline at end of file"
"""Line of a diff after a last line without a newline, as in the output of ``git diff``."""


def unified_diff(path: str, before: str, after: str) -> str:
    """Return the unified diff from ``before`` to ``after``, empty if they are equal."""
    return "".join(
        line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}\n"
        for line in difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"a/{path}",
            f"b/{path}",
        )
    )
