"""Graph breaks by what they come from and by what they cost, as the server shows them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.cli.conftest import CommandLine, on, script

from fullgraph.domain.causes import group_by_cause, rank_by_cost
from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.positions import TextPositions
from fullgraph.render.breaks import cause_words, cost_clause, cost_page
from fullgraph.render.terminal import FindingFile, finding_text
from fullgraph_engine.protocol import (
    BreakCause,
    BreakCost,
    Finding,
    FindingFound,
    Frame,
    GraphCut,
    TargetDone,
    TargetReport,
)

RETURN = "/x/lib/python3.11/site-packages/einops/einops.py"
PRINT = BreakCause("aa", "call", "print")
LIBRARY = BreakCause("bb", "library", "_prepare", RETURN, 511, "rearrange")
HOOK = BreakCause("cc", "hook", "_pre_forward", "/x/lib/python3.11/accelerate/hooks.py", 8)
PLACE = BreakCause("dd", "place", "Net.forward")


def item(line: int, *causes: BreakCause, cost: BreakCost | None = None) -> FileFinding:
    finding = Finding("graph-break/GB0059", "m", on(line, 0, 4), causes=causes, cost=cost)
    return FileFinding(finding, Severity.WARNING, ("Net",), "")


def firsts(*items: FileFinding) -> list[tuple[int, list[int]]]:
    """The lines of those that stand for a cause, each with the lines of the others."""
    return [
        (one.finding.range.start.line, [place.start.line for place in one.also])
        for one in group_by_cause(items)
        if one.same_as is None
    ]


def test_places_of_one_cause_belong_to_the_first() -> None:
    found = group_by_cause([item(1, PRINT), item(2, LIBRARY), item(3, PRINT), item(4, PRINT)])
    assert [one.same_as for one in found] == [None, None, on(1, 0, 4), on(1, 0, 4)]
    assert found[0].also == (on(3, 0, 4), on(4, 0, 4))
    assert found[1].also == ()


def test_what_has_a_cause_of_its_own_stands_for_it() -> None:
    both = item(2, PRINT, LIBRARY)
    assert firsts(item(1, PRINT), both, item(3, LIBRARY)) == [(1, []), (2, [3])]
    assert firsts(both, item(3, LIBRARY), item(4, PRINT)) == [(2, [3, 4])]


def test_what_has_no_causes_stays_by_itself() -> None:
    assert firsts(item(1), item(2), item(3, PRINT)) == [(1, []), (2, []), (3, [])]


def failure(line: int, path: str, raised: int, words: str = "KeyError: 'a'") -> FileFinding:
    frames = (Frame("/p/m.py", "forward", line), Frame(path, "find", raised))
    finding = Finding("trace/eager-error", f"The code raises here: {words}", on(line, 0, 4))
    return FileFinding(replace(finding, stack=frames), Severity.ERROR, ("Net",), "")


def test_exceptions_from_one_line_have_the_same_cause() -> None:
    same = [failure(1, "/p/o.py", 9), failure(2, "/p/o.py", 9)]
    others = [failure(3, "/p/o.py", 8), failure(4, "/p/q.py", 9), failure(5, "/p/o.py", 9, "E")]
    assert firsts(*same, *others) == [(1, [2]), (3, []), (4, []), (5, [])]
    found = group_by_cause(same)[0]
    place = FindingFile("m.py", "/p/m.py", TextPositions("x = 1\n" * 9))
    assert "= also: the same exception is raised at 3:1" in finding_text(found, place)


COSTS = [
    (
        BreakCost("f", cuts=(GraphCut("f", 120, 220),), graphs=2, ops=340),
        "cuts 340 ops into 120 + 220",
    ),
    (
        BreakCost(
            "f",
            met=12,
            cuts=(GraphCut("f", 2, 3, 12),),
            graphs=24,
            ops=60,
            sync="Tensor.item()",
            syncs=12,
        ),
        "cuts 5 ops into 2 + 3, syncs with the device (`Tensor.item()`), 12 times per call",
    ),
    (
        BreakCost("f", cuts=(GraphCut("f", 2, 3), GraphCut("g", 0, 9)), graphs=3, ops=14),
        "cuts 14 ops into 3 graphs",
    ),
    (
        BreakCost("f", eager=("f", "g"), dropped=34, sync="bool(Tensor)", syncs=3),
        "runs `f` and `g` in eager mode (34 ops traced before the break), "
        "syncs with the device 3 times (`bool(Tensor)`)",
    ),
    (BreakCost("f", cuts=(GraphCut("f", 7, 0),)), "does not split a graph, cheap"),
    (
        BreakCost("f", cuts=(GraphCut("f", 7, 1),), graphs=2, ops=8),
        "cuts 8 ops into 7 + 1, cheap",
    ),
]


@pytest.mark.parametrize(("cost", "words"), COSTS)
def test_a_cost_is_one_clause(cost: BreakCost, words: str) -> None:
    assert cost_clause(cost) == words


def test_a_page_says_all_of_a_cost() -> None:
    cost = BreakCost(
        "Net",
        met=2,
        cuts=(GraphCut("f", 2, 3), GraphCut("g", 0, 9, 2)),
        sync="Tensor.item()",
        syncs=2,
        resumes=2,
        guards=30,
    )
    assert cost_page(cost) == (
        "**Cost of this graph break** in one call of `Net`, reached 2 times\n\n"
        "- waits 2 times for the device: `Tensor.item()`\n"
        "- in `f`: cuts 5 ops into 2 + 3\n"
        "- in `g`: 9 ops after the break, none before, 2 times\n"
        "- 2 resume functions with 30 guards"
    )


def test_what_waits_for_the_device_costs_more_than_what_cuts_more() -> None:
    reads = item(1, cost=BreakCost("f", sync="Tensor.item()", syncs=1))
    cuts = item(2, cost=BreakCost("f", cuts=(GraphCut("f", 90, 80),)))
    often = item(3, cost=BreakCost("f", met=20, cuts=(GraphCut("f", 10, 50, 20),)))
    print_ = item(4, cost=BreakCost("f", cuts=(GraphCut("f", 90, 1),)))
    assert rank_by_cost([print_, item(5), cuts, often, reads]) == (reads, often, cuts, print_)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (PRINT, "the call of `print`"),
        (PLACE, "line 8"),
        (LIBRARY, "`_prepare` (einops/einops.py:512)"),
        (HOOK, "`_pre_forward` (accelerate/hooks.py:9), a hook or wrapper of a library"),
    ],
)
def test_a_cause_is_named(cause: BreakCause, words: str) -> None:
    assert cause_words(cause, 7) == words


def checked(command_line: CommandLine, *arguments: str, second: Any = LIBRARY) -> str:
    """A check of two files, each with two breaks of the same function of a library."""
    cost = BreakCost("f", met=3, cuts=(GraphCut("f", 2, 3, 3),), graphs=6, ops=15)
    for name, number in (("a.py", 0), ("b.py", 1)):
        found = [
            Finding(
                "graph-break/GB0059",
                "Graph break: Failed to format",
                on(line, 0, 4),
                "f",
                identity=str(line),
                causes=(LIBRARY if line == number else second,),
                cost=cost if line == number else None,
            )
            for line in (0, 1)
        ]
        report = TargetReport("f", "function", on(0, 0, 1), "traced")
        events = script(*(FindingFound(0, one) for one in found), TargetDone(0, report))
        command_line.write(name, f"call(1)\ncall(2)\n{events}")
    return command_line.check(*arguments, "a.py", "b.py").out


def test_check_shows_a_cause_once_with_its_places(command_line: CommandLine) -> None:
    out = checked(command_line)
    assert out.count("warning[graph-break/GB0059]") == 2
    assert "= cause: `_prepare` (einops/einops.py:512)\n" in out
    assert "= also: the same cause breaks graphs at 2:1\n" in out
    assert "= cost: cuts 5 ops into 2 + 3, 3 times per call\n" in out
    assert (
        "  2 places, 1 cause: `_prepare` (einops/einops.py:512): Failed to format\n"
        "  costliest: line 1, cuts 5 ops into 2 + 3, 3 times per call\n"
    ) in out
    assert "Found 4 warnings; 2 targets in 2 files, 1 cause of 4 graph breaks, " in out


def test_what_has_causes_of_its_own_is_shown_by_itself(command_line: CommandLine) -> None:
    out = checked(command_line, second=PLACE)
    assert out.count("warning[graph-break/GB0059]") == 4
    assert "places, 1 cause" not in out
    assert "= also" not in out


def test_json_has_every_finding_with_its_causes_and_cost(command_line: CommandLine) -> None:
    files = json.loads(checked(command_line, "--format", "json"))["files"]
    (first, second), (other, dear) = (file["findings"] for file in files)
    for one in (first, second, other, dear):
        (cause,) = one["causes"]
        assert cause["identity"] == "bb"
        assert (cause["kind"], cause["function"], cause["entry"]) == (
            "library",
            "_prepare",
            "rearrange",
        )
    assert second["cost"] is None and other["cost"] is None
    assert first["cost"] == dear["cost"]
    cost = first["cost"]
    assert (cost["rank"], cost["met"], cost["separated"], cost["worth_fixing"]) == (1, 3, 6, True)
    assert cost["cuts"] == [{"function": "f", "before": 2, "after": 3, "runs": 3}]


def test_the_annotation_of_another_place_names_the_first(command_line: CommandLine) -> None:
    out = checked(command_line, "--format", "github")
    assert "::Same cause as line 1: Failed to format\n" in out
