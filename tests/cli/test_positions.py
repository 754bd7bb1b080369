"""Bytes and characters in one line, however wide its characters are."""

import pytest

from fullgraph.domain.positions import Encoding, TextPositions
from fullgraph_engine.protocol import Position

LINES = {
    "ascii": "x = y + 1",
    "latin": "größe = für(x)",
    "east asian": "名前 = 値 + x",
    "emoji": "s = '🎉' + '👩\u200d👩\u200d👧' + x",
    "tabs": "\t\tx = y",
    "half a pair": "x = '\ud83d' + y",
    "empty": "",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize("encoding", list(Encoding))
def test_every_character_boundary_survives_the_way_there_and_back(
    line: str, encoding: Encoding
) -> None:
    text = TextPositions(f"first\n{line}\nlast")
    for index in range(len(line) + 1):
        byte = len(line[:index].encode("utf-8", "surrogatepass"))
        number, character = text.character(Position(1, byte), encoding)
        assert number == 1
        assert text.position(1, character, encoding) == Position(1, byte)


def test_the_three_units_count_differently() -> None:
    text = TextPositions("s = '🎉é' + x")
    x = Position(0, len("s = '🎉é' + ".encode()))
    assert text.character(x, Encoding.UTF8) == (0, 15)
    assert text.character(x, Encoding.UTF16) == (0, 12)
    assert text.character(x, Encoding.UTF32) == (0, 11)


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (Position(-1, 5), (0, 0)),
        (Position(0, -3), (0, 0)),
        (Position(0, 99), (0, 2)),
        (Position(1, 1), (1, 0)),
        (Position(1, 4), (1, 2)),
        (Position(7, 0), (1, 2)),
    ],
    ids=["line before", "byte before", "byte after", "inside a character", "end", "line after"],
)
def test_places_outside_become_the_nearest_inside(
    position: Position, expected: tuple[int, int]
) -> None:
    assert TextPositions("ab\n🎉").character(position, Encoding.UTF16) == expected


def test_client_offsets_outside_become_the_nearest_inside() -> None:
    text = TextPositions("ab\n🎉x")
    assert text.position(0, 99, Encoding.UTF16) == Position(0, 2)
    assert text.position(1, 1, Encoding.UTF16) == Position(1, 0)
    assert text.position(9, 0, Encoding.UTF16) == Position(1, 5)
    assert text.position(-1, 4, Encoding.UTF16) == Position(0, 0)


def test_only_what_ends_a_line_of_python_ends_a_line() -> None:
    text = TextPositions("a\x0cb\u2028c\x1cd\r\ne\rf\ng")
    assert [text.line(number) for number in range(len(text))] == [
        "a\x0cb\u2028c\x1cd",
        "e",
        "f",
        "g",
    ]
