"""Findings of many runs become the findings of one file."""

import dataclasses
from typing import Any

from fullgraph.domain.codes import Severity
from fullgraph.session.findings import merge_findings
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import (
    BreakCause,
    BreakCost,
    Finding,
    Position,
    Range,
    Related,
    RunId,
)

PLACE = Range(Position(4, 2), Position(4, 9))
BREAK = Finding("graph-break/GB0059", "Broken", PLACE, "Net", identity="a", run=RunId("Net"))


def change(finding: Finding = BREAK, **values: Any) -> Finding:
    return dataclasses.replace(finding, **values)


def test_one_place_reached_by_two_targets_is_one_finding() -> None:
    (item,) = merge_findings(
        [change(count=3), change(target="Other", run=RunId("Net", 1), count=2, notes=("n",))],
        Settings(),
    )
    assert item.finding.count == 5
    assert item.finding.target == "Net"
    assert item.targets == ("Net", "Other")
    assert item.finding.notes == ("n",)


def test_the_first_target_and_run_have_the_word_whichever_ends_first() -> None:
    words = [RunId("Later"), RunId("Net", 1), RunId("Net")]
    found = [change(message=str(run), target=run.target, run=run) for run in words]
    for told in (found, found[::-1]):
        (item,) = merge_findings(told, Settings(), ("Net", "Later"))
        assert (item.finding.message, item.targets) == ("Net#0", ("Net", "Later"))


def test_within_a_run_the_last_word_replaces_the_earlier_ones() -> None:
    (item,) = merge_findings(
        [change(count=1), change(count=4), change(run=RunId("Net", 1), count=2)], Settings()
    )
    assert item.finding.count == 6


def test_what_a_run_has_taken_back_is_not_shown() -> None:
    back = [change(count=1), change(count=0)]
    assert merge_findings(back, Settings()) == ()
    (item,) = merge_findings(
        [*back, change(run=RunId("Net", 1), count=2, target="Other")], Settings()
    )
    assert (item.finding.count, item.targets) == (2, ("Other",))


def test_what_differs_in_code_place_or_identity_stays_apart() -> None:
    elsewhere = Range(Position(5, 2), Position(5, 9))
    items = merge_findings(
        [
            BREAK,
            change(code="graph-break/GB0060"),
            change(range=elsewhere, run=RunId("Net", 1)),
            change(identity="b"),
        ],
        Settings(),
    )
    assert len(items) == 4


def test_related_places_are_listed_once() -> None:
    related = Related("/a.py", PLACE, "here")
    other = Related("/b.py", PLACE, "there")
    (item,) = merge_findings(
        [change(related=(related,)), change(run=RunId("Net", 1), related=(related, other))],
        Settings(),
    )
    assert item.finding.related == (related, other)


def test_causes_of_all_runs_are_kept_and_the_highest_cost() -> None:
    printed, read = BreakCause("1", "call", "print"), BreakCause("2", "place", "forward")
    cheap, dear = BreakCost("Net"), BreakCost("Other", sync="Tensor.item()", syncs=1)
    (item,) = merge_findings(
        [
            change(causes=(printed,), cost=cheap),
            change(run=RunId("Net", 1), causes=(printed, read), cost=dear),
            change(run=RunId("Net", 2)),
        ],
        Settings(),
    )
    assert item.finding.causes == (printed, read)
    assert item.finding.cost == dear


def test_a_finding_is_of_real_tensors_only_if_no_fake_run_had_it() -> None:
    real = change(mode="real")
    assert merge_findings([real], Settings())[0].finding.mode == "real"
    assert merge_findings([real, change(run=RunId("Net", 1))], Settings())[0].finding.mode == "fake"


def test_severity_and_link_come_from_the_table_unless_chosen() -> None:
    (item,) = merge_findings([BREAK], Settings())
    assert item.severity is Severity.WARNING
    assert item.href.endswith("/gb0059.html")
    (item,) = merge_findings(
        [change(href="https://x")], Settings(severity={"GB0059": Severity.ERROR})
    )
    assert (item.severity, item.href) == (Severity.ERROR, "https://x")


def test_what_is_off_ignored_or_not_selected_is_not_there() -> None:
    guard = change(code="guard/type-match")
    assert merge_findings([guard], Settings()) == ()
    assert merge_findings([guard], Settings(severity={"guard": Severity.HINT})) != ()
    assert merge_findings([BREAK], Settings(ignore=("graph-break",))) == ()
    assert merge_findings([BREAK], Settings(select=("op",))) == ()


def test_findings_come_in_the_order_of_the_text_and_the_loudest_first() -> None:
    later = change(range=Range(Position(9, 0), Position(9, 1)), identity="z", run=RunId("0"))
    error = change(code="trace/eager-error")
    assert [item.finding.code for item in merge_findings([later, BREAK, error], Settings())] == [
        "trace/eager-error",
        "graph-break/GB0059",
        "graph-break/GB0059",
    ]


def test_a_finding_without_hints_gets_the_next_step_of_its_code() -> None:
    (item,) = merge_findings([change(code="trace/timeout")], Settings())
    assert item.finding.hints == ("Use smaller example inputs, or raise the setting `timeout`.",)
    (item,) = merge_findings([change(code="trace/timeout", hints=("Wait.",))], Settings())
    assert item.finding.hints == ("Wait.",)
