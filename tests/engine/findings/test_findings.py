"""Every fixture's findings are the ones that its comments state, no more and no fewer."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import markers

from fullgraph.engines.engine import Engine
from fullgraph_engine.protocol import (
    Analyze,
    BreakCause,
    BreakCost,
    Failed,
    Finding,
    FindingFound,
    ForecastFound,
    Position,
    Range,
    Related,
    RunId,
    TargetDone,
    TargetReport,
)

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures" / "findings").glob("*.py"))


@pytest.fixture(scope="session")
def warm() -> Iterator[markers.WarmProcess]:
    process = markers.WarmProcess()
    yield process
    process.close()


@pytest.mark.real_engine
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_fixture(path: Path, warm: markers.WarmProcess) -> None:
    fixture = markers.read(path)
    if fixture.unfit:
        pytest.skip(fixture.unfit)
    if fixture.host_only:
        pytest.skip("statements of it raise")
    difference = markers.compare(fixture, warm.trace(fixture))
    assert not difference, f"\n{difference}"


@pytest.mark.slow
@pytest.mark.real_engine
@pytest.mark.timeout(600)
def test_fixtures_through_the_host() -> None:
    """What the editor and the command line are told is what the engine found."""
    fixtures = [markers.read(path) for path in FIXTURES]
    wanted = [fixture for fixture in fixtures if not fixture.unfit]
    differences = asyncio.run(differences_through_the_host(wanted))
    assert not differences, "\n\n" + "\n".join(differences)


async def differences_through_the_host(fixtures: Sequence[markers.Fixture]) -> list[str]:
    found = []
    engine = Engine(Path(sys.executable))
    await engine.start()
    await engine.ready()
    try:
        for fixture in fixtures:
            order = Analyze(
                request=0,
                generation=fixture.name,
                path=str(fixture.path),
                text=fixture.text,
                mode=fixture.mode,
                parts=fixture.parts,
                cwd=str(fixture.path.parent),
            )
            findings, reports = [], []
            async for event in engine.analyze(order):
                if isinstance(event, FindingFound):
                    findings.append(event.finding)
                elif isinstance(event, ForecastFound):
                    findings += event.findings
                elif isinstance(event, TargetDone):
                    reports.append(event.report)
                elif isinstance(event, Failed):
                    found.append(f"{fixture.name}: {event.reason}")
            traced = markers.Traced(tuple(findings), tuple(reports))
            found.append(markers.compare(fixture, traced))
    finally:
        await engine.close()
    return [difference for difference in found if difference]


# -- the markers themselves -------------------------------------------------------------------

TEXT = """\
def f(x):
    print(x)
    # ^^ graph-break/GB1 x2 @f "loud" related "other.py:5 reached" cause "place f" cost "met 2"
    return g(
    #      ^^> op/odd
        x
    )
#<^^^^ a/b since 3.8 before 3.99
#<^^^^ a/c since 3.99
#<^^^^ a/d before 3.8
#<^^^^ a/e since torch 2.0 before torch 99.0 since 3.8
#<^^^^ a/f since torch 99.0
#<^^^^ a/g before torch 2.0
#<^^^^ a/h since 3.99 since torch 2.0
# status: f traced
# breaks: f 2
# breaks: f 3 since torch 99.0
# breaks: f 4 since torch 2.0 before 3.8
"""


def finding(code: str, start: tuple[int, int], end: tuple[int, int], **values: object) -> Finding:
    place = Range(Position(*start), Position(*end))
    made = Finding(code, "words", place, "f", identity=f"{code}{start}", run=RunId("f"))
    return dataclasses.replace(made, **values)  # type: ignore[arg-type]


def fitting() -> tuple[Finding, ...]:
    far = Related("/lib/other.py", Range(Position(4, 0), Position(4, 1)), "reached from here")
    return (
        finding(
            "graph-break/GB1",
            (1, 6),
            (1, 8),
            count=2,
            hints=("too loud",),
            related=(far,),
            causes=(BreakCause("1", "place", "f"),),
            cost=BreakCost("f", met=2),
        ),
        finding("op/odd", (3, 11), (5, 5)),
        finding("a/b", (6, 0), (6, 6)),
        finding("a/e", (6, 0), (6, 6)),
    )


def difference(tmp_path: Path, *findings: Finding, text: str = TEXT, **values: object) -> str:
    path = tmp_path / "fixture.py"
    path.write_text(text)
    place = Range(Position(0, 4), Position(0, 5))
    report = TargetReport("f", "function", place, "traced", breaks=2)
    report = dataclasses.replace(report, **values)  # type: ignore[arg-type]
    return markers.compare(markers.read(path), markers.Traced(findings, (report,)), columns=True)


def test_what_is_marked_and_found_is_no_difference(tmp_path: Path) -> None:
    assert difference(tmp_path, *fitting()) == ""


@pytest.mark.parametrize("absent", range(4))
def test_a_marked_finding_that_is_not_found_is_missing(tmp_path: Path, absent: int) -> None:
    kept = [one for number, one in enumerate(fitting()) if number != absent]
    assert difference(tmp_path, *kept).count("missing, line ") == 1


def test_a_found_finding_that_is_not_marked_is_unexpected(tmp_path: Path) -> None:
    extra = finding("graph-break/GB1", (1, 4), (1, 12))
    words = difference(tmp_path, *fitting(), extra)
    assert "unexpected, line 2" in words
    assert '#   ^^^^^^^^ graph-break/GB1 @f "words"' in words


@pytest.mark.parametrize(
    ("number", "values", "said"),
    [
        (0, {"count": 3}, "x2 expected, x3 found"),
        (0, {"target": "g"}, "@f expected, @g found"),
        (0, {"hints": ()}, 'not said: "loud"'),
        (0, {"related": ()}, "not related"),
        (0, {"causes": (BreakCause("1", "call", "f"),)}, "not its cause"),
        (0, {"cost": BreakCost("f", met=1)}, "not its cost"),
        (0, {"range": Range(Position(1, 6), Position(1, 9))}, "another range"),
        (0, {"range": Range(Position(1, 6), Position(2, 8))}, "another range"),
        (0, {"range": Range(Position(1, 5), Position(1, 8))}, "another range"),
        (1, {"range": Range(Position(3, 11), Position(3, 13))}, "another range"),
        (2, {"range": Range(Position(6, 1), Position(6, 6))}, "another range"),
    ],
)
def test_every_part_of_a_marker_counts(
    tmp_path: Path, number: int, values: dict[str, object], said: str
) -> None:
    findings = list(fitting())
    findings[number] = dataclasses.replace(findings[number], **values)  # type: ignore[arg-type]
    words = difference(tmp_path, *findings)
    assert said in words
    assert words.count(", line ") == 1


def test_reports_count_as_well(tmp_path: Path) -> None:
    assert "traced expected, failed found" in difference(tmp_path, *fitting(), status="failed")
    assert "breaks of f: 2 expected, 1 found" in difference(tmp_path, *fitting(), breaks=1)
    assert "inputs of f: i64[2] expected, none found" in difference(
        tmp_path, *fitting(), text=f"{TEXT}# inputs: f i64[2]\n"
    )
    assert "no target f" in difference(tmp_path, *fitting(), name="g")


def test_a_later_word_of_a_run_replaces_and_another_run_adds(tmp_path: Path) -> None:
    first, *rest = fitting()
    earlier = dataclasses.replace(first, count=1)
    assert difference(tmp_path, earlier, first, *rest) == ""
    other = dataclasses.replace(first, run=RunId("f", 1), count=1)
    assert difference(tmp_path, earlier, other, *rest) == ""


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n#^^ no code here\n",
        "#^^ a/b\n",
        'x = 1\n#^^ a/b "open\n',
        "x = 1\n#^^ a/b since now\n",
        "x = 1\n#^^ a/b since torch\n",
        "# torch: 2.0\n",
        "# modus: fake\n",
        "# mode: fast\n",
    ],
)
def test_what_cannot_be_read_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fixture.py"
    path.write_text(text)
    with pytest.raises(markers.BadFixture):
        markers.read(path)
