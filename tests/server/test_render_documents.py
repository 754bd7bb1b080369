"""Documents from the events of runs."""

from __future__ import annotations

import ast

import pytest

from fullgraph.render import documents
from fullgraph.render.documents import DocumentDraft
from fullgraph_engine.documents import DocumentRequest
from fullgraph_engine.protocol import (
    Analyzed,
    DocumentsWritten,
    GuardsFound,
    Position,
    ProbeInfo,
    Range,
    RunId,
    TargetDone,
    TargetReport,
    TargetsFound,
)
from fullgraph_engine.protocol.documents import DocumentKind, DocumentPart
from fullgraph_engine.protocol.guards import FoundGuard, GuardedFrame

NAME = Range(Position(0, 6), Position(0, 9))


FIRST, SECOND = RunId("Net"), RunId("Net", 1)
AGAIN, AGAIN_1 = RunId("Net", 0, "second"), RunId("Net", 1, "second")


def part(run: RunId, text: str, attempt: str = "fake 1", kind: DocumentKind = "graph") -> object:
    return DocumentsWritten(0, "Net", run, attempt, (DocumentPart(kind, "A title", text),))


def done(status: str = "traced", error: str | None = None, number: int = 0) -> TargetDone:
    probe = ProbeInfo("comment", "f32[4]", source=f"line {number + 3}")
    return TargetDone(
        0,
        TargetReport(
            "Net",
            "module",
            NAME,
            status,  # type: ignore[arg-type]
            probe=probe,
            error=error,
            probe_number=number,
        ),
    )


def text(kind: DocumentKind, *events: object, source: str = "") -> str:
    draft = DocumentDraft(kind, "Net", source)
    for event in events:
        draft.apply_event(event)  # type: ignore[arg-type]
    return draft.build_text("model.py")


def guards(line: int, source: str, number: int = 0) -> GuardsFound:
    cause = Range(Position(line, 0), Position(line, 1))
    guard = FoundGuard("TENSOR_MATCH", source, (f"{source} == 1",), cause=0)
    last = Range(Position(2, 0), Position(2, 1))
    frame = GuardedFrame("forward", "", 0, last, "0/0", 1, (cause,), (guard,))
    return GuardsFound.from_frames(0, "Net", (frame,), probe_number=number)


def test_parts_come_in_order_and_a_later_attempt_replaces_an_earlier() -> None:
    found = text(
        "graph",
        part(FIRST, "wrong = 1\n"),
        part(FIRST, "one = 1\n", "real 1"),
        part(FIRST, "two = 2\n", "real 1"),
        done(),
    )
    ast.parse(found)
    assert "wrong" not in found and found.endswith("\n\n\none = 1\n\n\ntwo = 2\n")


def test_probes_are_told_apart() -> None:
    found = text(
        "graph",
        part(SECOND, "two = 2\n"),
        part(FIRST, "one = 1\n"),
        done(),
        done(),
    )
    assert found.index("# With probe 1:\n\n\none = 1") < found.index("# With probe 2:\n\n\ntwo = 2")
    assert found.count("# f32[4] from line 3") == 2


def test_the_run_with_one_probe() -> None:
    draft = DocumentDraft("graph", "Net")
    for event in (
        *(
            part(FIRST, "one = 1\n"),
            part(SECOND, "two = 2\n"),
            part(AGAIN_1, "more = 3\n"),
        ),
        *(done("crashed", "Killed."), done(number=1)),
    ):
        draft.apply_event(event)  # type: ignore[arg-type]
    second = draft.for_probe(1).build_text("model.py")
    assert "two = 2" in second and "more = 3" in second and "one = 1" not in second
    assert "from line 4" in second and "from line 3" not in second
    assert "With probe" not in second and "Killed" not in second
    assert "Killed" in draft.for_probe(0).build_text("model.py")
    # There is no third one any more.
    assert draft.for_probe(2).build_text("model.py") == draft.build_text("model.py")


def test_the_guards_of_the_run_with_one_probe() -> None:
    draft = DocumentDraft("guards", "Net", "class Net:\n    one\n    two\n")
    for event in (guards(1, "L['x']"), done(), guards(2, "L['y']", 1), done(number=1)):
        draft.apply_event(event)
    second = draft.for_probe(1).build_text("model.py")
    assert "y == 1" in second and "x == 1" not in second and "With probe" not in second


def test_a_second_run_with_dynamic_dimensions_says_so() -> None:
    parts = (
        part(FIRST, "a\n", kind="events"),
        part(AGAIN, "b\n", kind="events"),
    )
    found = text("events", *parts, done())
    assert "Second trace, with dynamic first dimensions:\n\nA title\n=======\nb\n" in found
    assert "With probe" not in found


def test_how_it_ended_is_said_below() -> None:
    assert text("graph", part(FIRST, "x = 1\n"), done("crashed", "Killed.\nmore")).endswith(
        "x = 1\n\n# The run failed, so something may be missing: Killed.\n"
    )
    assert "may be missing" not in text("graph", part(FIRST, "x = 1\n"), done())
    assert text("bytecode", done("no-probe")).endswith("`# fullgraph: f32[4, 16]`.\n")
    assert text("bytecode", done()).endswith("Dynamo compiled no function.\n")
    cancelled = text("graph", part(FIRST, "x = 1\n"), Analyzed(0, "", 0.0, cancelled=True))
    assert cancelled.endswith("x = 1\n\n# It was cancelled before it was complete.\n")
    gone = text("graph", TargetsFound(0, ()), Analyzed(0, "", 0.0))
    assert gone.endswith("# There is no target `Net` in this file.\n")


def test_guards_of_each_probe_beside_their_lines() -> None:
    source = "class Net:\n    one\n    two\n"
    found = text(
        "guards",
        guards(1, "L['x']"),
        done(),
        guards(2, "L['y']"),
        done(),
        source=source,
    )
    assert found.index("With probe 1") < found.index("line 2: one") < found.index("x == 1")
    assert found.index("With probe 2") < found.index("line 3: two") < found.index("y == 1")


def test_too_many_parts_are_cut_visibly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_TEXT", 20)
    parts = [part(FIRST, f"number_{number} = 1\n") for number in range(9)]
    found = text("graph", *parts, done())
    assert "number_1" in found and "number_2" not in found
    assert found.endswith("# Only the first 2 parts are shown.\n")


def test_a_run_writes_up_to_a_limit_and_says_so() -> None:
    told: list[tuple[str, DocumentPart]] = []
    commission = DocumentRequest(("graph",), lambda *one: told.append(one), most=30)
    commission.begin_attempt("1")
    commission.write_part("bytecode", "not wanted", "x")
    for _ in range(4):
        commission.write_part("graph", "title", "line = 1\nline = 2\n")
    assert [attempt for attempt, _ in told] == ["1", "1"]
    assert told[0][1].text == "line = 1\nline = 2\n"
    assert told[1][1].text == "line = 1\n\n# Only the first 30 characters are shown.\n"
    assert not commission.wants_kind("graph")
    commission.begin_attempt("2")
    assert commission.wants_kind("graph")
