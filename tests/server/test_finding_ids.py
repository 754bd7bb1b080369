"""Ids of findings: unique in a file, and stable while other lines change."""

from __future__ import annotations

from fullgraph.domain.findings import FileFinding, find_by_id
from fullgraph.session.findings import merge_findings
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Finding, Position, Range, place_words


def finding(line: int, code: str = "graph-break/GB0059", words: str = "") -> Finding:
    range_ = Range(Position(line, 0), Position(line, 5))
    identity = f"{code}@{place_words(range_)}{words}"
    return Finding(code, f"Breaks on line {line}", range_, "f", identity=identity)


def merged(*findings: Finding) -> tuple[FileFinding, ...]:
    return merge_findings(findings, Settings())


def test_findings_of_one_file_have_different_ids() -> None:
    items = merged(finding(1), finding(2), finding(2, words=" other"), finding(3, "op/missing"))
    assert len({item.id for item in items}) == len(items) == 4


def test_an_id_is_the_same_when_the_finding_moves() -> None:
    before, after = merged(finding(1), finding(5)), merged(finding(4), finding(9))
    assert [item.id for item in before] == [item.id for item in after]


def test_an_id_does_not_depend_on_other_kinds_of_findings() -> None:
    (alone,) = merged(finding(5))
    assert find_by_id(merged(finding(1, "op/missing"), finding(5)), alone.id) is not None


def test_an_unknown_id_is_not_found() -> None:
    assert find_by_id(merged(finding(1)), "0") is None
