"""Diffs as models write them: with wrong line numbers, without numbers, with stripped lines."""

from __future__ import annotations

import random

import pytest

from fullgraph.domain.notebooks import join_cells
from fullgraph.mcp.answers import Refused
from fullgraph.mcp.diffs import apply_cell_diffs, apply_diff
from fullgraph.render.diffs import file_diff, unified_diff

TEXT = "one\ntwo\n\nfour\nfive\n"


@pytest.mark.parametrize(
    ("diff", "after"),
    [
        pytest.param(
            "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n",
            "one\n2\n\nfour\nfive\n",
            id="exact",
        ),
        pytest.param("@@ -40,2 +40,2 @@\n one\n-two\n+2\n", "one\n2\n\nfour\nfive\n", id="number"),
        pytest.param("@@\n one\n-two\n+2\n", "one\n2\n\nfour\nfive\n", id="without-number"),
        pytest.param("@@ -2,3 +2,3 @@\n-two\n+2\n\n four", "one\n2\n\nfour\nfive\n", id="stripped"),
        pytest.param("@@ -5 +5,2 @@\n five\n+six\n", "one\ntwo\n\nfour\nfive\nsix\n", id="at-end"),
        pytest.param("@@ -0,0 +1 @@\n+zero\n", "zero\none\ntwo\n\nfour\nfive\n", id="at-start"),
        pytest.param(
            "@@ -1 +1 @@\n-one\n+1\n@@ -4,2 +4,1 @@\n-four\n five\n",
            "1\ntwo\n\nfive\n",
            id="two-hunks",
        ),
        pytest.param(
            "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+--- one\n",
            "--- one\ntwo\n\nfour\nfive\n",
            id="dashes",
        ),
    ],
)
def test_diff_is_applied(diff: str, after: str) -> None:
    assert apply_diff(TEXT, diff) == after


@pytest.mark.parametrize(
    ("diff", "words"),
    [
        ("", "no hunk with changes"),
        ("@@ -1 +1 @@\n one\n", "no hunk with changes"),
        ("@@ -1 +1 @@\n-three\n+3\n", "expects `three`"),
        ("@@\n+new\n", "must match exactly one place"),
    ],
)
def test_diff_that_does_not_fit_is_refused(diff: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        apply_diff(TEXT, diff)


def test_hunk_that_fits_twice_needs_its_line_number() -> None:
    text = "a\nb\na\nb\n"
    assert apply_diff(text, "@@ -3 +3 @@\n-a\n+c\n") == "a\nb\nc\nb\n"
    with pytest.raises(Refused, match="exactly one place"):
        apply_diff(text, "@@\n-a\n+c\n")


def test_diffs_of_random_texts_are_applied() -> None:
    chance = random.Random(3)
    for _ in range(500):
        before = [chance.choice(["", "a", "b", "-- c", "++ d", "@@ e"]) for _ in range(12)]
        after = list(before)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(after))
            after[at : at + chance.randrange(3)] = [f"new {chance.random()}"] * chance.randrange(3)
        ends = ["\n".join(lines) + chance.choice(["", "\n"]) for lines in (before, after)]
        if ends[0].endswith("\n") != ends[1].endswith("\n"):
            ends = [f"{text}\n" for text in ends]
        if ends[0] != ends[1]:
            assert apply_diff(ends[0], unified_diff("f.py", *ends)) == ends[1]


def test_diffs_of_cells_of_a_notebook_are_applied() -> None:
    loop = "for i in x:\n    !ls\n    y = 2\n"
    cells = {1: "%matplotlib inline\nx = 1", 3: "%%bash\nls", 4: loop}
    before = join_cells(cells.items()).text
    changed = {**cells, 1: "%matplotlib inline\nx = 3", 4: loop.replace("y", "z")}
    after = join_cells(changed.items()).text
    diff = file_diff("a.ipynb", before, after)
    assert " %matplotlib inline\n-x = 1\n+x = 3\n" in diff
    assert "cell 4" in diff and "cell 3" not in diff
    assert apply_cell_diffs(before, diff) == after
    with pytest.raises(Refused, match="cell 7"):
        apply_cell_diffs(before, diff.replace("cell 4", "cell 7"))
    with pytest.raises(Refused, match="number"):
        apply_cell_diffs(before, unified_diff("a.ipynb", "x = 1\n", "x = 2\n"))


def test_import_that_a_rewrite_adds_to_a_notebook_is_in_the_first_cell() -> None:
    before = join_cells([(2, "x = 1"), (3, "y = 1")]).text
    diff = file_diff("a.ipynb", before, "import math\n" + before)
    assert "cell 2" in diff and "+import math\n x = 1\n" in diff
