"""Where in a text something stands."""

from __future__ import annotations

import pytest

from fullgraph_engine.findings.places import SourceText
from fullgraph_engine.protocol import Frame, Position, Range

TEXT = "def f(x):\n    if x:\n        return g(x)\n"


@pytest.mark.parametrize(
    ("frame", "end"),
    [
        (Frame("/a.py", "f", 2, 15, 2, 19), Position(2, 19)),
        (Frame("/a.py", "f", 2, 8, 2, 19), Position(2, 19)),
        # The end is on a later line, which torch did not keep.
        (Frame("/a.py", "f", 1, 4, 1, 19), Position(1, 9)),
        (Frame("/a.py", "f", 1), Position(1, 9)),
    ],
)
def test_a_range_ends_where_its_line_does(frame: Frame, end: Position) -> None:
    assert SourceText("/a.py", TEXT).range_of(frame) == Range(
        Position(frame.line, frame.byte or 4), end
    )
