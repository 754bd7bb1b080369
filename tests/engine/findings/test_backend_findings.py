"""Problems of AOTAutograd and Inductor that were planted in files are found at their lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import markers

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures" / "backend").glob("*.py"))

_SHORT = ("complex_numbers",)
"""Fixtures with few targets. The others take longer than the tests of each commit may."""


@pytest.fixture(scope="module")
def warm() -> Iterator[markers.WarmProcess]:
    process = markers.WarmProcess()
    yield process
    process.close()


@pytest.mark.real_engine
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in _SHORT else pytest.mark.slow)
        for path in FIXTURES
    ],
)
def test_fixture(path: Path, warm: markers.WarmProcess) -> None:
    fixture = markers.read(path)
    if fixture.unfit:
        pytest.skip(fixture.unfit)
    difference = markers.compare(fixture, warm.trace(fixture))
    assert not difference, f"\n{difference}"


def test_each_public_report_has_a_marker() -> None:
    """The fixture has a function or module for each of 30 reports, with a marker in each."""
    fixture = markers.read(next(path for path in FIXTURES if path.stem == "public_reports"))
    starts = [
        number
        for number, line in enumerate(fixture.text.split("\n"))
        if line.strip().startswith("# fullgraph: ") and "[" in line
    ]
    found = {
        sum(start < marker.line for start in starts)
        for marker in fixture.markers
        if marker.code.startswith("backend/")
    }
    assert len(starts) == 30
    assert found == set(range(1, 31))
