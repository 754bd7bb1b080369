"""Code frames: the marks must stand below what they mark."""

import pytest

from fullgraph.domain.positions import TextPositions
from fullgraph.render import cells
from fullgraph.render.excerpt import Excerpt, margin_width
from fullgraph.render.paint import Paint, Style
from fullgraph_engine.protocol import Position, Range, TextEdit


def place(text: str, part: str) -> Range:
    """The range of ``part`` in ``text``, which it must be in once."""
    assert text.count(part) == 1
    before = text[: text.index(part)]

    def position(upto: str) -> Position:
        line = upto.rpartition("\n")[2]
        return Position(upto.count("\n"), len(line.encode()))

    return Range(position(before), position(before + part))


def drawn(text: str, where: Range, code: int = 160) -> str:
    excerpt = Excerpt(Paint(code=code), margin_width(where))
    return "\n".join(excerpt.mark_range(TextPositions(text), where, Style.ERROR))


def test_a_range_in_one_line_has_its_neighbors_for_context() -> None:
    text = "def f(x):\n    y = g(x).item()\n    return y\n"
    assert drawn(text, place(text, "g(x).item()")) == (
        "  |\n"
        "1 | def f(x):\n"
        "2 |     y = g(x).item()\n"
        "  |         ^^^^^^^^^^^\n"
        "3 |     return y\n"
        "  |"
    )


def test_blank_neighbors_are_left_out_and_the_margin_fits_the_largest_number() -> None:
    text = "\n" * 9 + "x = y.item()\n\n"
    assert drawn(text, place(text, "y.item()")) == (
        "   |\n10 | x = y.item()\n   |     ^^^^^^^^\n   |"
    )


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("\t\tx = y.item()", "y.item()"),
        ("名前 = 値.item()", "値.item()"),
        ("s, x = '🎉', y.item()", "y.item()"),
        ("s, x = '👩\u200d👩\u200d👧', y.item()", "y.item()"),
        ("s, x = '👍🏽', y.item()", "y.item()"),
        ("s, x = '❤\ufe0f', y.item()", "y.item()"),
        ("s, x = 'e\u0301', y.item()", "y.item()"),
        ("s, x = '\u202e', y.item()", "y.item()"),
        ("s, x = '\x1b', y.item()", "y.item()"),
    ],
    ids=["tabs", "east asian", "emoji", "family", "skin", "heart", "combining", "bidi", "escape"],
)
def test_marks_stand_below_what_they_mark(line: str, part: str) -> None:
    _, code, marks, _ = drawn(line, place(line, part)).split("\n")
    shown = cells.printable(part)
    assert code.endswith(shown)
    assert cells.width(marks) == cells.width(code)
    assert len(marks) - len(marks.rstrip("^")) == cells.width(shown)
    assert "\x1b" not in code and "\u202e" not in code


def test_an_empty_range_still_has_a_mark() -> None:
    lines = drawn("x = (", Range(Position(0, 5), Position(0, 5))).split("\n")
    assert lines[2] == "  |      ^"


def test_a_place_that_is_not_in_the_text_draws_nothing() -> None:
    assert drawn("x\n", Range(Position(40, 0), Position(40, 3))) == ""
    assert drawn("", Range(Position(0, 0), Position(0, 0))) != ""


def test_a_range_over_lines_is_bracketed_from_its_start_to_its_end() -> None:
    text = "def f(x):\n    return g(\n        x,\n        1,\n    )\n"
    assert drawn(text, place(text, "g(\n        x,\n        1,\n    )")) == (
        "  |\n"
        "1 |   def f(x):\n"
        "2 |       return g(\n"
        "  |  ____________^\n"
        "3 | |         x,\n"
        "4 | |         1,\n"
        "5 | |     )\n"
        "  | |_____^\n"
        "  |"
    )


def test_a_range_that_starts_its_line_is_bracketed_from_the_margin() -> None:
    text = "class A:\n    def f(self):\n        return 1\n"
    assert drawn(text, place(text, "def f(self):\n        return 1")) == (
        "  |\n"
        "1 |   class A:\n"
        "2 | /     def f(self):\n"
        "3 | |         return 1\n"
        "  | |________________^\n"
        "  |"
    )


def test_a_long_range_is_folded_but_keeps_its_end() -> None:
    text = "x = [\n" + "".join(f"    {n},\n" for n in range(20)) + "]\n"
    lines = drawn(text, place(text, text[4:-1])).split("\n")
    assert [line[:2].strip() for line in lines] == ["", "1", "", "2", "3", "4", "", "22", "", ""]
    assert lines[6] == "   | | …"


def test_a_range_up_to_the_start_of_a_line_does_not_show_that_line() -> None:
    lines = drawn("a\nb\nc\n", Range(Position(0, 0), Position(1, 0)))
    assert lines == "  |\n1 | a\n  | ^\n2 | b\n  |"


def test_a_very_long_line_is_cropped_around_the_range() -> None:
    text = "x = [" + "1, " * 400 + "y.item(), " + "2, " * 400 + "]"
    _, code, marks, _ = drawn(text, place(text, "y.item()"), code=80).split("\n")
    assert cells.width(code) <= 82
    assert code.startswith("1 | …") and code.endswith("…")
    start = len(marks) - 8
    assert marks.endswith("^" * 8)
    assert code[start : start + 8] == "y.item()"


def test_an_insertion_is_shown_with_the_line_that_follows() -> None:
    text = "import torch\nclass Net:\n    pass\n"
    edit = TextEdit(Range(Position(1, 0), Position(1, 0)), "# fullgraph: f32[8]\n")
    lines = Excerpt(Paint(), 1).draw_edit(TextPositions(text), edit)
    assert lines == [
        "  |",
        "1 | import torch",
        "2 + # fullgraph: f32[8]",
        "3 | class Net:",
        "  |",
    ]


def test_a_replacement_shows_what_goes_and_what_comes() -> None:
    text = "a = 1\nb = x.item()\nc = 3\n"
    edit = TextEdit(place(text, "x.item()"), "x")
    assert Excerpt(Paint(), 1).draw_edit(TextPositions(text), edit) == [
        "  |",
        "1 | a = 1",
        "2 - b = x.item()",
        "2 + b = x",
        "3 | c = 3",
        "  |",
    ]


def test_words_that_do_not_fit_stay_whole() -> None:
    link = "https://example.org/" + "x" * 60
    assert cells.wrap(f"  see {link} for more", 30) == ["  see", f"  {link}", "  for more"]


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("abc", 3),
        ("名前", 4),
        ("🎉", 2),
        ("❤\ufe0f", 2),
        ("👩\u200d👩\u200d👧", 2),
        ("e\u0301", 1),
        ("\t", 4),
        ("ｱ", 1),
    ],
)
def test_cells_are_those_of_a_terminal(text: str, width: int) -> None:
    assert cells.width(text) == width
