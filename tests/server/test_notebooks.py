"""Notebooks as one text of Python, and the cells that its lines come from."""

from __future__ import annotations

import json

import pytest

from fullgraph.domain.notebooks import CellPlace, NotANotebook, find_cell, notebook_to_python
from fullgraph.domain.positions import TextPositions


def notebook(*cells: str) -> str:
    """Return a notebook of code cells; ``#md`` begins a text cell."""
    return json.dumps(
        {
            "cells": [
                {
                    "cell_type": "markdown" if cell.startswith("#md") else "code",
                    "source": cell.splitlines(keepends=True),
                }
                for cell in cells
            ]
        }
    )


def test_code_cells_come_in_order_below_their_numbers() -> None:
    lines = notebook_to_python(notebook("import torch", "#md text", "x = 1\ny = 2")).split("\n")
    assert lines[1:] == ["# %% cell 1", "import torch", "# %% cell 3", "x = 1", "y = 2", ""]


@pytest.mark.parametrize("magic", ["%matplotlib inline", "!pip install x", "?print", "x.y??"])
def test_magics_are_skipped(magic: str) -> None:
    assert f"pass  # {magic}" in notebook_to_python(notebook(f"{magic}\nx = 1"))


def test_a_cell_of_another_language_is_skipped_and_a_timed_one_is_not() -> None:
    text = notebook_to_python(notebook("%%bash\nrm x", "%%time\ny = 1"))
    assert "# rm x" in text and "\ny = 1\n" in text
    compile(text, "notebook", "exec")


def test_a_remainder_is_no_magic() -> None:
    assert "x = (7\n  % 2)" in notebook_to_python(notebook("x = (7\n  % 2)"))


def test_a_line_has_its_place_in_a_cell() -> None:
    text = TextPositions(notebook_to_python(notebook("a = 1", "#md", "b = 2\nc = 3")))
    assert find_cell(text, 0) is None
    assert find_cell(text, 2) == CellPlace(1, 0)
    assert find_cell(text, 5) == CellPlace(3, 1)
    assert CellPlace(3, 1).words == "cell 3:2"


@pytest.mark.parametrize("data", ["", "[]", "{}", '{"cells": [{}]}'])
def test_what_is_not_a_notebook_is_refused(data: str) -> None:
    with pytest.raises(NotANotebook):
        notebook_to_python(data)
