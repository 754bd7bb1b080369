"""Unified diffs of a file."""

from __future__ import annotations

import difflib

from fullgraph.domain import notebooks

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


def file_diff(path: str, before: str, after: str) -> str:
    """Return the unified diff between two texts of a file; of a notebook, one diff for each cell.

    ``before`` and ``after`` are Python texts.
    """
    if not path.endswith(notebooks.SUFFIX):
        return unified_diff(path, before, after)
    old, new = notebooks.split_cells(before), notebooks.split_cells(after)
    # Cells end without a newline, which a diff would mention.
    return "".join(
        unified_diff(f"{path}:cell {number}", f"{old.get(number, '')}\n", f"{source}\n")
        for number, source in new.items()
    )
