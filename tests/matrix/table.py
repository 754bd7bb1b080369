"""Results of the tests with one torch and one Python each, and the table that shows them.

``results.json`` is what was found, one cell for a torch and a Python; the table in the
documentation, between two comments, is made from it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

BEGIN, END = "<!-- matrix:begin -->", "<!-- matrix:end -->"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


@dataclass(frozen=True)
class Cell:
    """What came of the tests: ``failed`` names them, ``degraded`` features that torch lacks."""

    torch: str
    python: str
    passed: int
    failed: tuple[str, ...] = ()
    skipped: int = 0
    degraded: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        counts = [f"**{len(self.failed)} failed**"] if self.failed else []
        counts.append(f"{self.passed} passed")
        counts += [f"{self.skipped} skipped"] if self.skipped else []
        return ", ".join(counts)


def read(path: Path) -> tuple[Cell, ...]:
    """The cells of a file of results; none where there is no such file."""
    if not path.exists():
        return ()
    plain = json.loads(path.read_text(encoding="utf-8"))
    lists = ("failed", "degraded")
    return tuple(
        Cell(**{name: tuple(value) if name in lists else value for name, value in cell.items()})
        for cell in plain
    )


def write(path: Path, cells: Iterable[Cell]) -> None:
    """In the order of versions, so that another cell changes no line of these."""
    plain = [dataclasses.asdict(cell) for cell in sorted(cells, key=_newest_last)]
    path.write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")


def with_cell(cells: Iterable[Cell], new: Cell) -> tuple[Cell, ...]:
    """Another result takes the place of what the same torch and Python gave before."""
    kept = (cell for cell in cells if (cell.torch, cell.python) != (new.torch, new.python))
    return (*kept, new)


def rendered(cells: Iterable[Cell]) -> str:
    """The table: a row for each torch, the newest first, and a column for each Python."""
    rows: dict[str, dict[str, Cell]] = {}
    for cell in sorted(cells, key=_newest_last, reverse=True):
        rows.setdefault(cell.torch, {})[cell.python] = cell
    heads = ("torch", *(f"Python {python}" for python in PYTHONS), "degraded")
    lines = [_row(heads), _row("---" for _ in heads)]
    for torch, row in rows.items():
        tested = (row[python].words if python in row else "" for python in PYTHONS)
        degraded = sorted({feature for cell in row.values() for feature in cell.degraded})
        lines.append(_row((torch, *tested, "; ".join(degraded) or "nothing")))
    return "\n".join(lines) + "\n"


def replaced(text: str, table: str) -> str:
    """A document with another table between the comments.

    Raises:
        ValueError: the document lacks one of them.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"No place for the table: it goes between {BEGIN} and {END}.")
    return f"{before}{begin}\n{table}{end}{after}"


def _newest_last(cell: Cell) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return _numbers(cell.torch), _numbers(cell.python)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
