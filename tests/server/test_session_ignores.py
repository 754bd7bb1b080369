"""``# fullgraph: ignore``: what it hides, and how it is written."""

from __future__ import annotations

import pytest

from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.positions import TextPositions
from fullgraph.session.ignores import ignore_fix, remove_ignored
from fullgraph_engine.protocol import Finding, Position, Range

CODE = "graph-break/GB0025"


def finding(text: str, code: str = CODE) -> Finding:
    """One on the words from ``f(`` to the last bracket behind it."""
    start, end = text.index("f("), text.rindex(")") + 1
    positions = TextPositions(text)
    return Finding(code, "m", Range(positions.position_at(start), positions.position_at(end)))


def hidden(text: str, code: str = CODE) -> bool:
    item = FileFinding(finding(text, code), Severity.WARNING, (), "")
    return remove_ignored((item,), TextPositions(text)) == ()


@pytest.mark.parametrize(
    "text",
    [
        "f()  # fullgraph: ignore",
        "f()  #fullgraph:ignore",
        "f()  # fullgraph: ignore[]",
        "f()  # fullgraph: ignore[GB0025]",
        "f()  # fullgraph: ignore[graph-break]",
        "f()  # fullgraph: ignore[recompile, graph-break/GB0025]  # it is slow anyway",
        "f()  # noqa: F821  # fullgraph: ignore[GB0025]\ng",
        "f(  # fullgraph: ignore[GB0025]\n    a,\n)",
        "f(\n    a,\n)  # fullgraph: ignore[GB0025]",
        "é = f()  # fullgraph: ignore\r\n",
    ],
)
def test_it_hides(text: str) -> None:
    assert hidden(text)


def test_the_former_name_of_a_code_hides_it() -> None:
    text = "f()  # fullgraph: ignore[guard/specialised-dimension]"
    assert hidden(text, "guard/specialized-dimension")


@pytest.mark.parametrize(
    "text",
    [
        "f()  # fullgraph: ignore[GB0026]",
        "f()  # fullgraph: ignore[graph]",
        "f()  # fullgraph: ignored",
        "f()  # ignore",
        "f()\n# fullgraph: ignore",
        "f(\n    a,  # fullgraph: ignore\n)",
    ],
)
def test_it_does_not_hide(text: str) -> None:
    assert not hidden(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("f()", "f()  # fullgraph: ignore[graph-break/GB0025]"),
        ("if f():\n    pass", "if f():  # fullgraph: ignore[graph-break/GB0025]\n    pass"),
        ("f(\n  a)  # é\n", "f(\n  a)  # é  # fullgraph: ignore[graph-break/GB0025]\n"),
        ("f()  # fullgraph: ignore[a]", "f()  # fullgraph: ignore[a, graph-break/GB0025]"),
        ("f()  # fullgraph: ignore[]", "f()  # fullgraph: ignore[graph-break/GB0025]"),
        ("f() + \\\n  1", None),
        ('f() + """\n"""', None),
    ],
)
def test_it_is_written_behind_the_line(text: str, written: str | None) -> None:
    positions = TextPositions(text)
    fix = ignore_fix(finding(text), positions)
    if written is None:
        assert fix is None
        return
    assert fix is not None
    assert fix.title == "Ignore graph-break/GB0025 on this line"
    (edit,) = fix.edits
    start, end = positions.offset(edit.range.start), positions.offset(edit.range.end)
    assert text[:start] + edit.text + text[end:] == written
    assert hidden(written)


def test_what_is_wrong_with_a_probe_is_mended_instead() -> None:
    text = "# fullgraph: f(x)"
    place = Range(Position(0, 13), Position(0, 17))
    assert ignore_fix(Finding("probe/invalid", "m", place), TextPositions(text)) is None
