"""The table of torch versions is what the results say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import table
from table import Cell

OLD = Cell("2.9.1", "3.12", 300, ("a::b",), 2, ("breaks with numbers",))
NEW = Cell("2.13.0", "3.11", 310)


def test_a_result_replaces_the_one_of_the_same_versions_only(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert table.read(path) == ()
    again = Cell("2.13.0", "3.11", 309, ("c::d",))
    table.write(path, table.with_cell((NEW, OLD), again))
    assert table.read(path) == (OLD, again)


def test_rows_are_torches_newest_first() -> None:
    assert table.rendered((OLD, NEW)).splitlines()[2:] == [
        "| 2.13.0 |  | 310 passed |  |  | nothing |",
        "| 2.9.1 |  |  | **1 failed**, 300 passed, 2 skipped |  | breaks with numbers |",
    ]


def test_only_what_stands_between_the_comments_is_replaced() -> None:
    text = f"before\n{table.BEGIN}\nold\n{table.END}\nbehind\n"
    assert table.replaced(text, "new\n") == f"before\n{table.BEGIN}\nnew\n{table.END}\nbehind\n"
    with pytest.raises(ValueError, match="No place for the table"):
        table.replaced("before", "new")


def test_the_documented_table_is_that_of_the_results() -> None:
    results = Path(__file__).with_name("results.json")
    document = Path(__file__).parents[2] / "docs" / "torch-versions.md"
    text = document.read_text(encoding="utf-8")
    assert table.replaced(text, table.rendered(table.read(results))) == text
