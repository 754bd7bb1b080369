"""Convert Jupyter notebooks to Python text.

The text contains the code cells in order, each below a comment with its number. The format is
nbformat 4, as "The notebook format" in the nbformat documentation describes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from fullgraph.domain.positions import TextPositions

SUFFIX = ".ipynb"
_MARK = re.compile(r"# %% cell (\d+)$")
_PRELUDE = "display, get_ipython = print, lambda: None"
"""Statement that defines the names which IPython provides in a notebook."""
_MAGIC = re.compile(r"^[ \t]*(%%?[A-Za-z]|!|\?|[\w.]+\?\??$)")
_DISABLED = re.compile(r"(?<![^ \t])pass  # (?=%%?[A-Za-z]|!|\?|[\w.]+\?\??$)")
"""Pattern of the prefix ``pass  #`` that disables a magic, in the line of the magic."""
_PYTHON_CELL_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")
"""Cell magics whose cells contain Python."""


class NotANotebook(ValueError):
    """Raised if data is not a notebook of format 4."""


@dataclass(frozen=True)
class CellPlace:
    """A line of a notebook: the number of its cell, from 1, and of the line in the cell, from 0."""

    cell: int
    line: int

    @property
    def words(self) -> str:
        """Text such as ``cell 3:5``: the cell and, after the colon, the line counted from 1."""
        return f"cell {self.cell}:{self.line + 1}"


@dataclass(frozen=True)
class JoinedCells:
    """The Python text of a notebook's code cells. ``starts`` has the zero-based line at which each
    cell begins, below its comment."""

    text: str
    starts: tuple[int, ...]


def join_cells(cells: Iterable[tuple[int, str]]) -> JoinedCells:
    """Join code cells, given as pairs of number and source; lines with magics become comments."""
    lines, starts = [_PRELUDE], []
    for number, source in cells:
        lines.append(f"# %% cell {number}")
        starts.append(len(lines))
        lines += _cell_lines(source)
    return JoinedCells("\n".join(lines) + "\n", tuple(starts))


def notebook_to_python(data: str) -> str:
    """Convert the code of a notebook file to one Python text.

    Raises:
        NotANotebook: The data is not a notebook of format 4.
    """
    try:
        cells = json.loads(data)["cells"]
        code = [
            (number, "".join(cell["source"]))
            for number, cell in enumerate(cells, 1)
            if cell["cell_type"] == "code"
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise NotANotebook(str(error)) from error
    return join_cells(code).text


def split_cells(text: str) -> dict[int, str]:
    """Return the sources of the code cells in the Python text of a notebook, by cell number.

    Lines that a rewrite put above the first cell are added to it. Cells with a magic for another
    language stay comments.
    """
    cells: dict[int, list[str]] = {}
    current: list[str] = []
    for line in text.removesuffix("\n").split("\n"):
        mark = _MARK.match(line)
        if mark is not None:
            current = cells[int(mark[1])] = [] if cells else current
        elif line != _PRELUDE:
            current.append(_DISABLED.sub("", line))
    return {number: "\n".join(lines) for number, lines in cells.items()}


def find_cell_in_file(path: str, text: TextPositions, line: int) -> CellPlace | None:
    """Return the cell and line for a zero-based line of a file's text.

    The result is None if the file at ``path`` is not a notebook.
    """
    return find_cell(text, line) if path.endswith(SUFFIX) else None


def find_cell(text: TextPositions, line: int) -> CellPlace | None:
    """Return the cell and line for a zero-based line of the Python text of a notebook.

    The result is None above the first cell.
    """
    for above in range(min(line, len(text) - 1), -1, -1):
        found = _MARK.match(text.line(above))
        if found is not None:
            return CellPlace(int(found[1]), max(line - above - 1, 0))
    return None


def _cell_lines(source: str) -> list[str]:
    lines = source.split("\n")
    head = next((line.split(" ")[0] for line in lines if line.strip()), "")
    if head.startswith("%%") and head not in _PYTHON_CELL_MAGICS:
        return [f"# {line}" for line in lines]
    return [_disable_magic(line) for line in lines]


def _disable_magic(line: str) -> str:
    if _MAGIC.match(line) is None:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}pass  # {line.strip()}"
