"""Paths in Dynamo's words: as short as they are still clear."""

from __future__ import annotations

import dataclasses

import pytest

from fullgraph.domain.paths import short_path, shorten_paths
from fullgraph.session.findings import merge_findings
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Finding, Position, Range, Related

FOLDER = "/home/some one/project"
PLACE = Range(Position(3, 0), Position(3, 9))


@pytest.mark.parametrize(
    ("words", "short"),
    [
        ("Called frame at /home/some one/project/a/b.py:12", "Called frame at a/b.py:12"),
        (
            "name: f, filename: `/opt/x/lib/python3.11/copy.py`, skip",
            "name: f, filename: `copy.py`, skip",
        ),
        ("/v/lib/python3.12/site-packages/torch/nn/f.py:3;", "torch/nn/f.py:3;"),
        ("'D:\\py\\Lib\\site-packages\\torch\\a.py'", "'torch\\a.py'"),
        ("/x/engine/fullgraph_engine/a.py and /x/y.py", "fullgraph_engine/a.py and /x/y.py"),
        ("in /usr/lib/python3.11/a.py, /v/site-packages/b.py", "in a.py, b.py"),
        # No path, or one of something else.
        ("see https://x.org/lib/python3.11/a.html", "see https://x.org/lib/python3.11/a.html"),
        ("/home/some one/project-2/a.py", "/home/some one/project-2/a.py"),
        ("/mnt/home/some one/project/a.py", "/mnt/home/some one/project/a.py"),
        ("a / b", "a / b"),
    ],
)
def test_words_have_short_paths(words: str, short: str) -> None:
    assert shorten_paths(words, FOLDER) == short
    assert shorten_paths(short, FOLDER) == short


@pytest.mark.parametrize("path", [f"{FOLDER}/a.py", "/v/site-packages/torch/a.py", "/other/a.py"])
def test_a_path_is_as_short_in_words_as_alone(path: str) -> None:
    assert shorten_paths(f"at {path}", FOLDER) == f"at {short_path(path, FOLDER)}"


def finding(code: str) -> Finding:
    words = f"in {FOLDER}/a.py"
    related = (Related(f"{FOLDER}/b.py", PLACE, words),)
    return Finding(
        code,
        words,
        PLACE,
        explanation=words,
        hints=(words,),
        context=words,
        notes=(words,),
        related=related,
        identity=words,
    )


def test_findings_are_shown_with_short_paths_and_keep_what_they_are() -> None:
    told = finding("graph-break/GB0008")
    (item,) = merge_findings([told], Settings(), folder=FOLDER)
    shown, words = item.finding, "in a.py"
    assert (shown.message, shown.explanation, shown.context) == (words,) * 3
    assert (shown.hints, shown.notes) == ((words,), (words,))
    (related,) = shown.related
    # A place to go to is no word.
    assert (related.message, related.path) == (words, f"{FOLDER}/b.py")
    assert (shown.identity, shown.range) == (told.identity, PLACE)


def test_what_user_code_says_stays() -> None:
    told = dataclasses.replace(finding("trace/eager-error"), hints=())
    (item,) = merge_findings([told], Settings(), folder=FOLDER)
    assert item.finding.message == told.message
