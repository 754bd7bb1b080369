"""Positions, ranges and frames in the analyzed text."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Position:
    """A position in the analyzed text: zero-based line, zero-based UTF-8 byte offset."""

    line: int
    byte: int


@dataclass(frozen=True, order=True)
class Range:
    """A half-open range: ``end`` is the first position after it."""

    start: Position
    end: Position


def node_range(node: ast.stmt | ast.expr | ast.alias | ast.arg | ast.keyword) -> Range:
    """Return the range of a syntax node.

    ``ast`` counts lines from one and columns in UTF-8 bytes.
    """
    return Range(
        Position(node.lineno - 1, node.col_offset),
        Position((node.end_lineno or node.lineno) - 1, node.end_col_offset or node.col_offset),
    )


def count_equal_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many lines at the beginning, and how many at the end, two texts have in common."""
    most = min(len(old), len(new))
    first = next((n for n in range(most) if old[n] != new[n]), most)
    last = next((n for n in range(most - first) if old[-1 - n] != new[-1 - n]), most - first)
    return first, last


@dataclass(frozen=True)
class Frame:
    """One frame of a stack of the user's code; every list of frames has the outermost first.

    Lines are zero-based. Without column positions, ``end_byte`` is -1 and ``byte`` is the
    indentation.
    """

    path: str
    function: str
    line: int
    byte: int = 0
    end_line: int = -1
    end_byte: int = -1
    text: str = ""


def place_words(range_: Range) -> str:
    """Return a range as text for a finding's identity.

    The text contains the positions, so that the server can move it after an edit above the range.
    """
    start, end = range_.start, range_.end
    return f"{start.line}:{start.byte}-{end.line}:{end.byte}"
