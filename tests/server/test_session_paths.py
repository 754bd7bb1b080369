"""What was found on other paths than that of the probe, and lines that no path came to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fullgraph.domain.positions import TextPositions
from fullgraph.incremental.relocation import Relocation
from fullgraph.incremental.text_maps import AppliedEdit
from fullgraph.render.summary import lens_title, lens_tooltip, target_line
from fullgraph.results.file_results import Results
from fullgraph.session.findings import merge_findings
from fullgraph.session.settings import Settings
from fullgraph.session.unit_view import untraced_findings
from fullgraph_engine.protocol import (
    Coverage,
    Finding,
    FindingFound,
    PathReport,
    Position,
    ProbeInfo,
    Range,
    RunId,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
    TracePath,
)
from fullgraph_engine.protocol.paths import PathAnswer, PathValue

TRAINING = TracePath(training=True)
NO_MASK = TracePath(values=(PathValue("mask", None),))
PLACE = Range(Position(1, 0), Position(1, 5))


A_FIRST, B_FIRST = RunId("A"), RunId("B")
A_PATHS, B_PATHS = RunId("A", 0, "paths"), RunId("B", 0, "paths")


def found(target: str, run: RunId, path: TracePath | None = None) -> Finding:
    return Finding(
        "graph-break/x", "Break", PLACE, target, identity="x", run=run, path=path, mode="fake"
    )


def shown(*findings: Finding) -> str:
    (merged,) = merge_findings(findings, Settings(), ("A", "B"))
    assert bool(merged.finding.only) == (merged.finding.message != "Break")
    return merged.finding.message


def test_what_is_there_on_one_path_alone_says_so() -> None:
    assert shown(found("A", A_PATHS, TRAINING)) == "Break, only in training mode"


def test_what_one_target_has_on_every_path_is_no_matter_of_paths() -> None:
    assert shown(found("A", A_PATHS, TRAINING), found("B", B_FIRST)) == "Break"
    assert shown(found("A", A_FIRST), found("A", A_FIRST, TRAINING)).endswith(
        "only in training mode"
    )


def test_two_paths_are_both_named() -> None:
    both = shown(found("A", A_PATHS, TRAINING), found("B", B_PATHS, NO_MASK))
    assert both == "Break, only in training mode or if `mask` is None"


def test_a_path_in_words() -> None:
    answers = tuple(PathAnswer(PLACE, True, f"`{name}` is true") for name in "ab")
    path = dataclasses.replace(NO_MASK, training=False, answers=answers)
    assert path.words == (
        "in evaluation mode, if `mask` is None, where `a` is true and `b` is true"
    )


def report(**facts: object) -> TargetReport:
    made = TargetReport("A", "module", PLACE, "traced", coverage=covered((0, 1, 2), (3, 8)))
    return dataclasses.replace(made, **facts)  # type: ignore[arg-type]


def covered(traced: Iterable[int], untraced: Iterable[int]) -> Coverage:
    """Of lines of which an instruction is in the first four bytes."""
    places = [
        [Range(Position(line, 0), Position(line, 4)) for line in lines]
        for lines in (traced, untraced)
    ]
    return Coverage.from_ranges(*places)


def test_a_later_report_of_a_probe_replaces_the_earlier_one() -> None:
    results = Results()
    results.begin_run()
    results.apply_event(TargetsFound(1, (TargetInfo("A", "module", PLACE),)))
    results.apply_event(TargetDone(1, report()))
    results.apply_event(TargetDone(1, report(coverage=covered((0, 1, 2, 3), (8,)))))
    assert [one.report.lines_traced for one in results.reports()] == [4]


def test_what_other_paths_had_found_stays_until_all_is_traced_again() -> None:
    results = Results()
    for _ in range(2):
        results.begin_run()
        results.apply_event(TargetsFound(1, (TargetInfo("A", "module", PLACE),)))
        results.apply_event(TargetDone(1, report()))
        if not results.findings():
            results.apply_event(FindingFound(1, found("A", A_PATHS, TRAINING)))
            results.complete_run()
    assert [finding.only for finding in results.findings()] == ["in training mode"]
    results.complete_run()
    assert not results.findings()


def test_untraced_lines_move_with_the_text() -> None:
    def lines(edit: AppliedEdit) -> tuple[int, ...]:
        return Relocation("/m.py", edit).relocate_value(report()).untraced

    assert lines(AppliedEdit(Position(5, 0), Position(5, 0), Position(7, 0))) == (3, 10)
    assert lines(AppliedEdit(Position(8, 0), Position(8, 4), Position(8, 2))) == (3,)
    assert lines(AppliedEdit(Position(9, 0), Position(9, 0), Position(10, 0))) == (3, 8)


def test_untraced_lines_are_faded_in_blocks() -> None:
    text = TextPositions("def f(x):\n    a\n    b\n    c\n    d\n")
    reports = [
        report(coverage=covered((), (1, 2, 4))),
        report(coverage=covered((4,), (1, 2)), probe_number=1),
    ]
    (one,) = untraced_findings(["A"], reports, text)
    assert one.finding.range == Range(Position(1, 4), Position(2, 5))
    assert one.finding.unnecessary
    assert len(list(untraced_findings(["A"], reports[:1], text))) == 2
    assert not list(untraced_findings(["B"], reports, text))


def test_the_tooltip_says_what_was_traced() -> None:
    paths = (
        PathReport("in training mode", "traced"),
        PathReport("if `mask` is None", "failed", "it raised ValueError: no mask"),
    )
    assert lens_tooltip(report(paths=paths)) == (
        "2 of 5 lines were not reached: lines 4 and 9\n"
        "also in training mode\n"
        "not if `mask` is None: it raised ValueError: no mask"
    )
    assert lens_tooltip(report(coverage=None)) == ""
    assert "lines traced 3 of 5" in target_line(report())


def test_a_title_has_room_for_short_inputs() -> None:
    def shown(inputs: str, init: str = "") -> tuple[str, str]:
        made = report(coverage=None, probe=ProbeInfo("convention", inputs, init, "line 3"))
        return lens_title(made).partition(" breaks · ")[2], lens_tooltip(made)

    many = ", ".join(f"i64[{size}]" for size in range(20))
    assert shown("f32[2]", "dim=16") == ("init(dim=16) f32[2] from line 3", "")
    assert shown("f32[2]", many) == ("init(…) f32[2] from line 3", f"init({many}) f32[2]")
    assert shown(many) == (
        "i64[0], i64[1], i64[2], i64[3], i64[4], i64[5], i64[6], i64[7] … from line 3",
        many,
    )
