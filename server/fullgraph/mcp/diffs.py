"""Apply the diffs that models write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fullgraph.domain import notebooks
from fullgraph.mcp.answers import Refused
from fullgraph.render.diffs import NO_NEWLINE

_HUNK = re.compile(r"^@@(?: -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@)?")


_CELL = re.compile(r"^--- .*?\bcell (\d+).*\n", re.MULTILINE)
"""Pattern of the line that begins the diff of a cell of a notebook."""


@dataclass(frozen=True)
class _Hunk:
    """A part of a diff: ``old`` lines, which it replaces by ``new`` lines.

    ``line`` is the number of the first old line, counted from 1. Without old lines, it is the
    number of the line before the new lines. It is None if the diff does not contain it.
    """

    line: int | None
    old: tuple[str, ...]
    new: tuple[str, ...]


def apply_diff(text: str, diff: str) -> str:
    """Return ``text`` after a unified diff of this one file.

    Line numbers may be wrong or missing if the old lines of each hunk occur only once: models often
    miscount. Lines are compared without spaces at their end.

    Raises:
        Refused: The diff does not fit the text, or does not change anything.
    """
    hunks = list(_parse_hunks(diff))
    if not hunks:
        raise Refused(
            "The diff has no hunk with changes; pass a unified diff with `@@` lines, or the whole "
            "new text as `changed`."
        )
    lines = text.split("\n")
    moved, least = 0, 0
    for number, hunk in enumerate(hunks, 1):
        at = _find_hunk(lines, hunk, moved, least)
        if at is None:
            first = next((line for line in hunk.old if line.strip()), "")
            raise Refused(
                f"Hunk {number} of the diff, which expects `{first.strip()[:80]}`, must match "
                "exactly one place in the text. Make the diff from the text that `check` analyzed."
            )
        lines[at : at + len(hunk.old)] = hunk.new
        moved += len(hunk.new) - len(hunk.old)
        least = at + len(hunk.new)
    return "\n".join(lines)


def apply_cell_diffs(text: str, diff: str) -> str:
    """Return the Python text of a notebook after the unified diffs of its cells.

    Each diff begins with a line such as ``--- a/model.ipynb:cell 3``.

    Raises:
        Refused: A diff does not fit its cell, or the line is missing.
    """
    cells = notebooks.split_cells(text)
    _, *parts = _CELL.split(diff)
    for number, part in zip(map(int, parts[::2]), parts[1::2], strict=True):
        if number not in cells:
            raise Refused(f"The notebook does not have a code cell {number}.")
        cells[number] = apply_diff(f"{cells[number]}\n", part).removesuffix("\n")
    if not parts:
        raise Refused(
            "Begin the diff of each cell with its number, as in `--- a/model.ipynb:cell 3`."
        )
    return notebooks.join_cells(cells.items()).text


def _parse_hunks(diff: str) -> Iterator[_Hunk]:
    """Yield the hunks of a diff that change something."""
    starts: list[int | None] = []
    rows: list[list[str]] = []
    for row in diff.split("\n"):
        header = _HUNK.match(row)
        if header is not None:
            starts.append(int(header[1]) if header[1] else None)
            rows.append([])
        elif rows and row != NO_NEWLINE:
            rows[-1].append(row)
    if rows and rows[-1][-1:] == [""]:
        rows[-1].pop()  # the diff ends with a newline
    for start, part in zip(starts, rows, strict=True):
        # Editors and models strip the space of empty context lines.
        old = tuple(row[1:] for row in part if not row.startswith("+"))
        new = tuple(row[1:] for row in part if not row.startswith("-"))
        if old != new:
            yield _Hunk(start, old, new)


def _find_hunk(lines: Sequence[str], hunk: _Hunk, moved: int, least: int) -> int | None:
    """Return the index of the first line that a hunk replaces; None if it is unknown.

    ``moved`` is the number of lines that earlier hunks added, ``least`` the first line after them.
    """
    if not hunk.old:
        return None if hunk.line is None else min(hunk.line + moved, len(lines))
    if hunk.line is not None:
        expected = hunk.line - 1 + moved
        if expected >= least and _fits(lines, hunk.old, expected):
            return expected
    places = [at for at in range(least, len(lines)) if _fits(lines, hunk.old, at)]
    return places[0] if len(places) == 1 else None


def _fits(lines: Sequence[str], old: Sequence[str], at: int) -> bool:
    there = lines[at : at + len(old)]
    return len(there) == len(old) and all(
        one.rstrip() == other.rstrip() for one, other in zip(there, old, strict=True)
    )
