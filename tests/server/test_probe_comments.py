"""Probe comments in texts that may be unfinished: where they are, and what they belong to."""

from __future__ import annotations

import pytest

from fullgraph.domain.positions import TextPositions
from fullgraph.probes import ProbeComment, comment_on, comments_of, definition_of

TEXT = """\
import torch

# fullgraph: off
# A note.
# fullgraph: f32[4]
#fullgraph:f32[b=2, 4]
@decorated(
    1,
)
class Net:
    # fullgraph: f32[8]
    def forward(self, x): ...

y = "# fullgraph: f32[4]"
def f(x):  # fullgraph: i64[3]
    return (

# nothing is below
"""
LINES = TextPositions(TEXT)


def line_of(needle: str) -> int:
    return TEXT[: TEXT.index(needle)].count("\n")


@pytest.mark.parametrize(
    ("needle", "start", "text", "directive"),
    [
        ("# fullgraph: off", 13, "off", "off"),
        ("# fullgraph: f32[4]\n#", 13, "f32[4]", ""),
        ("#fullgraph", 11, "f32[b=2, 4]", ""),
        ("def f(", 24, "i64[3]", ""),
    ],
)
def test_comments(needle: str, start: int, text: str, directive: str) -> None:
    comment = comment_on(LINES, line_of(needle))
    assert comment == ProbeComment(line_of(needle), start, text)
    assert comment.directive == directive


@pytest.mark.parametrize("needle", ["import", "# A note", 'y = "#'])
def test_other_lines_have_none(needle: str) -> None:
    assert comment_on(LINES, line_of(needle)) is None
    assert comment_on(LINES, 1000) is None


def test_what_they_belong_to() -> None:
    net = line_of("class Net")
    above = [line for line in range(net) if LINES.line(line).startswith(("#", "@"))]
    assert [definition_of(LINES, line) for line in above] == [net] * 5
    assert definition_of(LINES, net) == net
    assert definition_of(LINES, line_of("    # fullgraph: f32[8]")) == line_of("def forward")
    assert definition_of(LINES, line_of("return")) == line_of("return")
    # A comment at the end of a text is of nothing.
    last = line_of("# nothing")
    assert definition_of(LINES, last) == last


def test_those_of_a_definition() -> None:
    of_net = comments_of(LINES, line_of("class Net"))
    assert [comment.text for comment in of_net] == ["f32[4]", "f32[b=2, 4]"]
    assert [comment.text for comment in comments_of(LINES, line_of("def f("))] == ["i64[3]"]
