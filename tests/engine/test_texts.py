"""Texts of the user's objects: of any length, and raising."""

from __future__ import annotations

import json

from fullgraph_engine import protocol, texts
from fullgraph_engine.protocol import (
    Finding,
    FindingFound,
    Log,
    Position,
    Range,
    SeenValue,
    ValuesSeen,
)


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def test_what_an_exception_says_is_cut_and_never_raises() -> None:
    assert texts.error_message(ValueError("short")) == "short"
    assert texts.error_message(None) == ""
    assert texts.error_message(Silent()) == ""
    long = texts.error_message(ValueError("m" * 30_000_000))
    assert long.startswith("mmm") and long.endswith("(29,998,000 more characters)")


def test_an_exception_is_described_as_python_does() -> None:
    assert texts.type_and_message(ValueError("no")) == "ValueError: no"
    assert texts.type_and_message(Silent()) == "Silent"


def test_a_value_is_shown_by_its_type_where_its_repr_raises() -> None:
    assert texts.safe_repr([1]) == "[1]"
    assert texts.safe_repr(Odd()) == "<Odd>"


def finding(**fields: object) -> FindingFound:
    place = Range(Position(0, 0), Position(0, 1))
    return FindingFound(1, Finding("trace/eager-error", "m", place, **fields))  # type: ignore[arg-type]


def test_no_text_of_a_finding_makes_a_line_that_is_too_long() -> None:
    told = finding(context="c" * 1_000_000, hints=("h" * 1_000_000, "short"))
    line = protocol.encode(told)
    assert len(line) < 20_000
    back = protocol.decode(line)
    assert isinstance(back, FindingFound)
    assert back.finding.hints[1] == "short"
    assert back.finding.context.endswith("(992,000 more characters)")


def test_a_message_of_ordinary_length_is_as_it_was() -> None:
    told = finding(context="c" * 9_000)
    assert protocol.decode(protocol.encode(told)) == told


def test_what_is_packed_is_never_cut() -> None:
    places = [Range(Position(line, 0), Position(line, 1)) for line in range(9999)]
    values = [SeenValue(place, "other", f"{place.start.line}") for place in places]
    told = ValuesSeen.from_values(1, "f", values)
    assert len(told.packed) > 200_000
    back = protocol.decode(protocol.encode(told))
    assert isinstance(back, ValuesSeen)
    assert len(back.unpack_values()) == len(values)


def test_output_is_cut_by_whoever_reads_it() -> None:
    told = Log(1, "stdout", "x" * 200_000)
    assert json.loads(protocol.encode(told))["text"] == told.text


def test_escape_sequences_of_terminals_are_removed() -> None:
    link = "\x1b]8;;https://pytorch.org\x1b\\a link\x1b]8;;\x07"
    assert texts.plain(f"\x1b[1;31mred\x1b[0m, {link}, [31m\x1b[K") == "red, a link, [31m"
    assert texts.error_message(ValueError("\x1b[93mwarning\x1b[0m")) == "warning"
