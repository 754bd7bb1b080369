"""What is shown while results of one text replace those of the text before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fullgraph.incremental import ParsedText, same_code
from fullgraph.incremental.text_maps import AppliedEdit, CodeMap
from fullgraph.results.file_results import Results
from fullgraph.session.findings import merge_findings
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import (
    CalledAgain,
    Finding,
    FindingFound,
    Position,
    ProbeInfo,
    Range,
    Status,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
    TraceStepsFound,
    place_words,
)
from fullgraph_engine.protocol.trace_steps import TraceStep

PROBE = ProbeInfo("harvest", "f32[2]")


def at(line: int) -> Range:
    return Range(Position(line, 0), Position(line, 5))


def found(message: str, target: str, line: int, code: str = "graph-break/x") -> FindingFound:
    return FindingFound(1, Finding(code, message, at(line), target))


def done(target: str, line: int = 0, probe: int = 0) -> TargetDone:
    return TargetDone(1, TargetReport(target, "module", at(line), "traced", probe_number=probe))


def targets(*names: str) -> TargetsFound:
    return TargetsFound(1, tuple(TargetInfo(name, "module", at(0)) for name in names))


def messages(results: Results) -> list[str]:
    return sorted(finding.message for finding in results.findings())


def first_run() -> Results:
    results = Results()
    results.begin_run()
    for event in (
        targets("A", "B"),
        found("file", "", 0),
        found("a", "A", 1),
        done("A", 1),
        found("b", "B", 5),
        done("B", 5),
    ):
        results.apply_event(event)
    results.complete_run()
    return results


def test_a_target_is_replaced_when_it_is_done() -> None:
    results = first_run()
    results.begin_run()
    results.apply_event(targets("A", "B"))
    assert messages(results) == ["a", "b", "file"]
    results.apply_event(found("a2", "A", 2))
    assert messages(results) == ["a", "a2", "b", "file"]
    results.apply_event(done("A"))
    assert messages(results) == ["a2", "b", "file"]
    results.apply_event(done("B"))
    assert messages(results) == ["a2", "file"]
    results.complete_run()
    assert messages(results) == ["a2"]


def test_what_is_found_again_is_not_shown_twice_meanwhile() -> None:
    results = first_run()
    results.begin_run()
    results.apply_event(found("a", "A", 1))
    assert messages(results) == ["a", "b", "file"]


def test_what_moved_and_is_found_again_is_not_shown_twice_meanwhile() -> None:
    def at_line(line: int, message: str) -> FindingFound:
        where = at(line)
        same = f"graph-break/x@{place_words(where)}"
        return FindingFound(1, Finding("graph-break/x", message, where, "A", identity=same))

    results = Results()
    results.begin_run()
    for event in (targets("A"), at_line(3, "a"), done("A", 1)):
        results.apply_event(event)
    results.complete_run()
    results.apply_edits([AppliedEdit(Position(0, 0), Position(0, 0), Position(1, 0))], "a.py")
    results.begin_run()
    results.apply_event(at_line(4, "a, in other words"))
    assert messages(results) == ["a, in other words"]


def test_the_first_target_of_the_text_has_the_word_whichever_ends_first() -> None:
    def shown() -> list[tuple[str, tuple[str, ...]]]:
        merged = merge_findings(results.findings(), Settings(), results.names)
        return [(item.finding.target, item.targets) for item in merged]

    results = Results()
    results.begin_run()
    for event in (targets("A", "B"), found("x", "B", 5), done("B"), found("x", "A", 5), done("A")):
        results.apply_event(event)
    assert shown() == [("A", ("A", "B"))]
    results.complete_run()
    results.begin_run(only=["A"])
    for event in (targets("A"), found("x", "A", 5), done("A")):
        results.apply_event(event)
    results.complete_run()
    assert shown() == [("A", ("A", "B"))]


def test_a_target_that_is_no_more_goes_at_once() -> None:
    results = first_run()
    results.begin_run()
    results.apply_event(targets("A"))
    assert messages(results) == ["a", "file"]


def test_two_probes_of_a_target() -> None:
    results = Results()
    results.begin_run()
    for event in (found("one", "A", 1), done("A"), found("two", "A", 2), done("A", probe=1)):
        results.apply_event(event)
    results.complete_run()
    results.begin_run()
    results.apply_event(found("one", "A", 1))
    results.apply_event(done("A"))
    assert messages(results) == ["one", "two"]
    results.apply_event(done("A", probe=1))
    assert messages(results) == ["one"]


def test_a_run_that_was_ended_keeps_what_it_found() -> None:
    results = first_run()
    results.begin_run()
    results.apply_event(found("a2", "A", 2))
    results.apply_event(done("A"))
    results.interrupt_run()
    assert messages(results) == ["a2", "b", "file"]
    assert not any(shown.current for shown in results.reports())


def steps(*, probe: int = 0) -> TraceStepsFound:
    return TraceStepsFound(1, "A", (TraceStep("graph", "f", ops=2),), probe_number=probe)


@pytest.mark.parametrize(
    ("status", "stays"),
    [("traced", False), ("failed", False), ("timeout", True), ("crashed", True)],
)
def test_what_a_run_that_ends_by_itself_does_not_tell_again_is_gone(
    status: Status, stays: bool
) -> None:
    results = Results()
    results.begin_run()
    for event in (targets("A"), steps(), done("A")):
        results.apply_event(event)
    results.complete_run()
    results.begin_run()
    assert results.target_details("A").trace_steps
    results.apply_event(TargetDone(1, replace(done("A").report, status=status)))
    assert (results.target_details("A").trace_steps is not None) is stays
    results.complete_run()
    assert (results.target_details("A").trace_steps is not None) is stays


def test_what_was_told_of_a_probe_that_is_no_more_is_gone() -> None:
    results = Results()
    results.begin_run()
    second = TargetDone(1, replace(done("A").report, probe_number=1))
    for event in (targets("A"), done("A"), steps(probe=1), second):
        results.apply_event(event)
    results.complete_run()
    results.begin_run()
    for event in (targets("A"), done("A")):
        results.apply_event(event)
    assert results.target_details("A").trace_steps
    results.complete_run()
    assert not results.target_details("A").trace_steps


def test_results_of_before_may_come_while_a_run_goes_on() -> None:
    results, before = Results(), first_run()
    results.begin_run()
    results.adopt_targets(before, before.placed)
    assert messages(results) == ["a", "b", "file"]
    for event in (targets("A", "B"), steps(), done("A")):
        results.apply_event(event)
    results.complete_run()
    assert messages(results) == []
    assert results.target_details("A").trace_steps


def test_a_target_of_which_anything_has_no_place_is_left_out_of_another_text() -> None:
    results = first_run()
    results.begin_run()
    results.apply_event(found("a2", "A", 9))
    moves = same_code(ParsedText("x = 1\ny = 2\n"), ["# above", "x = 1", "y = 2"])
    assert moves is not None
    assert results.relocate_to(CodeMap(moves, ["# above", "x = 1", "y = 2"]), "/m.py").placed == {
        ""
    }


def test_what_is_taken_again_is_told_again() -> None:
    before = first_run()
    before.begin_run()
    for event in (targets("A"), steps(), TargetDone(1, replace(done("A").report, probe=PROBE))):
        before.apply_event(event)
    before.complete_run()
    results = before.snapshot()
    results.begin_run(called=before)
    assert results.apply_event(CalledAgain(1, "A", ("line 3",)))
    results.complete_run()
    assert results.target_details("A").trace_steps


def test_a_syntax_error_leaves_what_was_known() -> None:
    results = first_run()
    results.begin_run()
    results.apply_event(found("invalid", "", 3, code="trace/syntax-error"))
    assert results.unparsed
    results.interrupt_run()
    assert messages(results) == ["a", "b", "invalid"]
    results.begin_run()
    results.apply_event(found("still invalid", "", 7, code="trace/syntax-error"))
    results.interrupt_run()
    assert messages(results) == ["a", "b", "still invalid"]
    results.begin_run()
    assert not results.unparsed
    for event in (targets("A", "B"), found("a", "A", 1), done("A"), done("B")):
        results.apply_event(event)
    results.complete_run()
    assert messages(results) == ["a"]


def test_a_run_of_one_target_leaves_the_others() -> None:
    results = first_run()
    results.begin_run(only=["A"])
    results.apply_event(targets("A"))
    results.apply_event(done("A"))
    results.complete_run()
    assert messages(results) == ["b", "file"]
    assert [shown.current for shown in results.reports()] == [True, True]


def test_reports_are_current_until_the_next_edit() -> None:
    results = first_run()
    assert [shown.current for shown in results.reports()] == [True, True]
    edit = AppliedEdit(Position(3, 0), Position(3, 0), Position(4, 0))
    results.apply_edits([edit], "/m.py")
    assert [(s.current, s.report.range.start.line) for s in results.reports()] == [
        (False, 1),
        (False, 6),
    ]


def test_a_snapshot_stays_as_it_was() -> None:
    results = first_run()
    snapshot = results.snapshot()
    results.apply_edits([AppliedEdit(Position(0, 0), Position(9, 0), Position(0, 0))], "/m.py")
    assert messages(results) == []
    assert messages(snapshot) == ["a", "b", "file"]
