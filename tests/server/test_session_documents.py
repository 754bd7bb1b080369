"""Texts as the editor has them, and findings that move with them."""

from __future__ import annotations

import random

import pytest

from fullgraph.domain.positions import Encoding
from fullgraph.incremental.relocation import Relocation
from fullgraph.incremental.text_maps import AppliedEdit
from fullgraph.session.documents import Document, TextChange, path_of
from fullgraph_engine.protocol import (
    Finding,
    Fix,
    Frame,
    Position,
    Range,
    Related,
    TargetReport,
    TextEdit,
)

UNITS = {Encoding.UTF8: "utf-8", Encoding.UTF16: "utf-16-le", Encoding.UTF32: "utf-32-le"}
SIZE = {Encoding.UTF8: 1, Encoding.UTF16: 2, Encoding.UTF32: 4}
ALPHABET = "abxé😀ü\u2028\x0c \n"


def document(text: str, encoding: Encoding = Encoding.UTF16) -> Document:
    return Document("file:///m.py", text, 1, encoding)


def place(text: str, offset: int, encoding: Encoding) -> tuple[int, int]:
    before = text[:offset]
    rest = before[before.rfind("\n") + 1 :]
    return before.count("\n"), len(rest.encode(UNITS[encoding])) // SIZE[encoding]


def span(first: tuple[int, int], last: tuple[int, int]) -> Range:
    return Range(Position(*first), Position(*last))


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("seed", range(20))
def test_random_edits_give_the_text_that_the_editor_has(encoding: Encoding, seed: int) -> None:
    rng = random.Random(seed)
    text = "".join(rng.choice(ALPHABET) for _ in range(60))
    doc = document(text, encoding)
    for version in range(2, 30):
        first, last = sorted(rng.randint(0, len(text)) for _ in range(2))
        new = "".join(rng.choice(ALPHABET) for _ in range(rng.randint(0, 4)))
        change = TextChange(new, place(text, first, encoding), place(text, last, encoding))
        edits = doc.apply_changes([change], version)
        text = text[:first] + new + text[last:]
        assert doc.text == text
        # What the edit says in bytes is where the new text is.
        for edit in edits:
            lines = doc.text.encode().split(b"\n")
            end = edit.new_end
            raw = b"\n".join([*lines[: end.line], lines[end.line][: end.byte]])
            assert raw.decode() == text[: first + len(new)]


@pytest.mark.parametrize("seed", range(20))
def test_random_edits_move_a_finding_with_its_code(seed: int) -> None:
    rng = random.Random(seed)
    text = "é1\nüü2\nxx MARK yy\n😀3\n4\n"
    doc = document(text)
    found = Finding("a/b", "m", span((2, 3), (2, 7)))
    for version in range(2, 40):
        mark = text.index("MARK")
        first, last = sorted(rng.randint(0, len(text)) for _ in range(2))
        if (first < mark + 4 and last > mark) or (first > mark and first < mark + 4):
            continue
        new = "".join(rng.choice(ALPHABET) for _ in range(rng.randint(0, 3)))
        change = TextChange(new, place(text, first, doc.encoding), place(text, last, doc.encoding))
        text = text[:first] + new + text[last:]
        for edit in doc.apply_changes([change], version):
            found = Relocation("/m.py", edit).relocate_value(found)
        start, end = found.range.start, found.range.end
        assert start.line == end.line
        line = doc.positions.line(start.line).encode()
        assert line[start.byte : end.byte] == b"MARK"


def test_a_whole_text_is_an_edit_of_what_differs() -> None:
    doc = document("a\nb\nc\n")
    (edit,) = doc.apply_changes([TextChange("a\nbé\nx\nc\n")], 2)
    assert edit == AppliedEdit(Position(1, 1), Position(1, 1), Position(2, 1))
    assert doc.text == "a\nbé\nx\nc\n"
    assert doc.apply_changes([TextChange("a\nbé\nx\nc\n")], 3) == []
    assert doc.version == 3


@pytest.mark.parametrize("text", ["", "a", "aa", "aab", "baa", "b\nb\n"])
@pytest.mark.parametrize("other", ["", "a", "aa", "ab", "b\n", "b\nb\nb\n"])
def test_whole_texts_that_begin_and_end_alike(text: str, other: str) -> None:
    doc = document(text)
    edits = doc.apply_changes([TextChange(other)], 2)
    assert doc.text == other
    assert bool(edits) == (text != other)


def test_places_outside_of_the_text_are_its_end() -> None:
    doc = document("ab\ncd")
    doc.apply_changes([TextChange("!", (0, 99), (0, 99))], 2)
    doc.apply_changes([TextChange("?", (99, 0), (99, 0))], 3)
    assert doc.text == "ab!\ncd?"


def test_halves_of_a_character_that_come_one_by_one_are_one() -> None:
    doc = document("\ud83d'")
    doc.apply_changes([TextChange("\ude00", (0, 1), (0, 1))], 2)
    assert doc.text == "😀'"
    assert doc.hash == document("😀'").hash


@pytest.mark.parametrize("encoding", list(Encoding))
def test_offsets_are_the_places_of_the_client(encoding: Encoding) -> None:
    text = "x = '😀é'\n\ny = 2  # ü\n"
    open_ = document(text, encoding)
    for offset in range(len(text) + 1):
        assert open_.position_at(offset) == place(text, offset, encoding)
        assert open_.offset_at(*place(text, offset, encoding)) == offset
    assert open_.offset_at(99, 0) == len(text)
    assert document("a\r\nb\rc").offset_at(2, 0) == 5


def test_the_focus_is_the_line_of_the_last_edit() -> None:
    doc = document("a\nb\nc\n")
    doc.apply_changes([TextChange("x", (2, 0), (2, 1))], 2)
    assert doc.focus == 2


def test_a_generation_tells_versions_and_texts_apart() -> None:
    doc = document("a")
    before = doc.generation
    doc.apply_changes([TextChange("b")], 2)
    assert doc.generation != before
    doc.apply_changes([TextChange("\ud800")], 3)
    assert doc.generation.startswith("3:")


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b.py", "/a/b.py"),
        ("file:///a%20b/%C3%BC.py", "/a b/ü.py"),
        ("file:///a/c%23.py", "/a/c#.py"),
        ("untitled:Untitled-1", None),
    ],
)
def test_paths_of_uris(uri: str, path: str | None) -> None:
    assert (None if path is None else str(path_of(uri))) == path


def test_names_of_texts_without_a_path() -> None:
    assert Document("untitled:Untitled-1", "", 1, Encoding.UTF8).name == "Untitled-1"


INSERT_ABOVE = AppliedEdit(Position(0, 0), Position(0, 0), Position(2, 0))


def test_all_that_points_into_the_file_moves() -> None:
    finding = Finding(
        "a/b",
        "m",
        span((3, 4), (3, 8)),
        related=(
            Related("/m.py", span((5, 0), (5, 2)), "here"),
            Related("/other.py", span((5, 0), (5, 2)), "there"),
        ),
        fixes=(Fix("fix", (TextEdit(span((3, 4), (3, 8)), "x"),)),),
        stack=(Frame("/m.py", "f", 7, end_line=7), Frame("/other.py", "g", 7)),
    )
    moved = Relocation("/m.py", INSERT_ABOVE).relocate_value(finding)
    assert moved.range.start == Position(5, 4)
    assert [related.range.start.line for related in moved.related] == [7, 5]
    assert moved.fixes[0].edits[0].range.start.line == 5
    assert [frame.line for frame in moved.stack] == [9, 7]
    assert [frame.end_line for frame in moved.stack] == [9, -1]


def test_a_fix_whose_place_was_edited_is_not_offered() -> None:
    finding = Finding(
        "a/b",
        "m",
        span((3, 4), (3, 8)),
        fixes=(Fix("fix", (TextEdit(span((0, 0), (0, 4)), "x"),)),),
    )
    edit = AppliedEdit(Position(0, 1), Position(0, 2), Position(0, 1))
    assert Relocation("/m.py", edit).relocate_value(finding).fixes == ()


@pytest.mark.parametrize(
    ("start", "end", "kept"),
    [
        ((3, 0), (3, 4), True),
        ((3, 4), (3, 4), True),
        ((3, 8), (3, 9), True),
        ((3, 5), (3, 5), False),
        ((3, 3), (3, 5), False),
        ((2, 0), (4, 0), False),
    ],
)
def test_an_edit_beside_or_inside(start: tuple[int, int], end: tuple[int, int], kept: bool) -> None:
    edit = AppliedEdit(Position(*start), Position(*end), Position(*start))
    finding = Finding("a/b", "m", span((3, 4), (3, 8)))
    report = TargetReport("Net", "module", span((3, 4), (3, 8)), "traced")
    shown = (finding, report)
    assert bool(Relocation("/m.py", edit).relocate_value(shown)) is kept
