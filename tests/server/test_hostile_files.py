"""Hostile files in an editor: one or two of each category, of which ``make soak`` opens all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from tests.soak.hostile.acts import CATEGORIES, cases
from tests.soak.hostile.editor import Editor
from tests.soak.hostile.surroundings import Surroundings

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="layers of Linux"),
    pytest.mark.skipif(find_spec("torch") is None, reason="there is no torch here"),
]

CHOSEN = (
    ("loops", "a loop that catches all, in a run"),
    ("recursion", "without a limit"),
    ("memory", "one large file"),
    ("processes", "a daemon"),
    ("processes", "a shell"),
    ("exits", "the parent, in C and in a run"),
    ("exits", "os._exit that looks like success"),
    ("descriptors", "the last words are forged"),
    ("descriptors", "messages of other types than they are"),
    ("monkeypatching", "the engine's sandbox is opened"),
    ("files", "removing all that there is, in C"),
    ("files", "secrets in its own memory"),
    ("network", "a local socket, in C"),
    ("privileges", "memory of the process beside is written"),
    ("objects", "a representation that ends the process"),
    ("native", "exchanging two files"),
)


@pytest.fixture(scope="module")
def editor() -> Iterator[Editor]:
    surroundings = Surroundings()
    try:
        opened = Editor(surroundings)
        yield opened
        assert opened.close() == ""
    finally:
        surroundings.close()


def test_there_is_one_of_each_category() -> None:
    assert {category for category, _ in CHOSEN} == set(CATEGORIES)


@pytest.mark.parametrize(("category", "name"), CHOSEN, ids=[" ".join(one) for one in CHOSEN])
def test_a_hostile_file_is_contained_and_explained(
    editor: Editor, category: str, name: str
) -> None:
    (case,) = (one for one in cases(category) if one.name == name)
    outcome = editor.run(category, case)
    assert (outcome.verdict, outcome.detail) == ("contained", "")
