"""Recordings of a ShapeEnv: replay of all events and of some, and comparison of two."""

from __future__ import annotations

import dataclasses
import gc
import logging
import re
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.source import LocalSource
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from fullgraph_engine import shapes, tracing
from fullgraph_engine.shapes import comparison, explanation, upstream

pytestmark = [pytest.mark.real_engine, pytest.mark.usefixtures("fresh_tracer")]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(16, 8))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = (x + y) @ self.w
        if x.shape[0] > 5:
            z = z + 1
        return z.view(x.shape[0] * 2, -1)


def record_net(**options: Any) -> tuple[shapes.Tape, tracing.Recording]:
    x, y = torch.randn(4, 16), torch.randn(4, 16)
    dynamic = [(tensor, dim) for tensor in (x, y) for dim in (0, 1)]
    with tracing.tensor_mode(False), shapes.record_tapes(**options) as tapes:
        recording = tracing.trace(Net(), (x, y), {}, dynamic=dynamic)
    (tape,) = tapes
    return tape, recording


@pytest.fixture(scope="module")
def tape() -> shapes.Tape:
    torch._dynamo.reset()
    return record_net()[0]


def without(tape: shapes.Tape, index: int) -> shapes.Tape:
    def rest(items: list[Any]) -> list[Any]:
        return [item for number, item in enumerate(items) if number != index]

    return shapes.Tape(
        0, rest(tape.events), rest(tape.places), settings=tape.settings, live=tape.live
    )


def event_of(tape: shapes.Tape, words: str) -> int:
    (found,) = [e.index for e in shapes.build_timeline(tape).events if e.words.startswith(words)]
    return found


def difference_from_live(tape: shapes.Tape) -> comparison.Divergence | None:
    """How the state after a replay of all events differs from the state that the run left."""
    assert tape.live is not None
    return comparison.first_difference(comparison.summarize(tape, tape.live), summary_of(tape))


def symbol_of(tape: shapes.Tape, source: str) -> str:
    env = shapes.replay_tape(tape)
    return str(env.source_to_var[source])


def test_all_events_lead_to_the_live_state(tape: shapes.Tape) -> None:
    assert tape.function == "forward"
    assert difference_from_live(tape) is None


def test_looking_at_a_size_does_not_change_what_it_is_about(tape: shapes.Tape) -> None:
    """A size that is asked for its expression simplifies itself, and its ShapeEnv remembers."""
    env = ShapeEnv()

    def size(name: str, value: int) -> Any:
        source = LocalSource(name)
        symbol = env.create_symbol(value, source, dynamic_dim=DimDynamic.DYNAMIC)
        return env.create_symintnode(symbol, hint=value, source=source)

    a, b = size("a", 10), size("b", 6)
    assert a + b == 16
    assert b == 6
    before = dict(env.replacements)
    assert str(upstream.expression_of(a)) == str(env.source_to_var["L['a']"])
    assert env.replacements == before
    assert a.node.expr == 10
    assert env.replacements != before, "then the test above shows nothing"

    shapes.build_timeline(tape)
    explanation.explain_all(tape)
    summary = comparison.summarize(tape, shapes.replay_tape(tape))
    comparison.first_difference(summary, summary)
    assert difference_from_live(tape) is None


def test_every_prefix_replays_and_grows_towards_the_end(tape: shapes.Tape) -> None:
    guards = [len(shapes.replay_tape(tape, end).guards) for end in range(1, len(tape.events) + 1)]
    assert guards == sorted(guards)
    assert guards[0] == 0
    assert guards[-1] == len(tape.live.guards) > 2  # type: ignore[union-attr]


def test_a_prefix_leaves_no_guards_suppressed(tape: shapes.Tape) -> None:
    enters = [n for n in range(len(tape.events)) if tape.method_name(n) == "_suppress_guards_enter"]
    assert enters
    shapes.replay_tape(tape, enters[0] + 1)
    assert not ShapeEnv._suppress_guards_tls()
    assert not getattr(symbolic_shapes.TLS, "suppress_guards_stack", [])


def summary_of(tape: shapes.Tape) -> comparison.Summary:
    """The summary of a tape in another process: it was saved and loaded."""
    summary = comparison.summarize(tape, shapes.replay_tape(tape))
    return comparison.load(comparison.save(summary))


def test_every_event_that_did_something_is_missed_and_named(tape: shapes.Tape) -> None:
    events = shapes.build_timeline(tape).events
    marked = [e for e in events[1:] if any(effect.kind != "symbol" for effect in e.effects)]
    assert len(marked) >= 3
    whole = summary_of(tape)
    for event in marked:
        shorter = summary_of(without(tape, event.index))
        found = comparison.first_difference(whole, shorter)
        assert found is not None, event.words
        assert (found.index, found.kind) == (event.index, "dropped")
        assert found.event.startswith(f"{event.method}(")
        assert found.differences
        added = comparison.first_difference(shorter, whole)
        assert added is not None
        assert (added.index, added.kind) == (event.index, "added")


def test_the_fields_that_differ_are_named_with_what_differs_in_them(tape: shapes.Tape) -> None:
    dropped = next(
        event.index
        for event in shapes.build_timeline(tape).events
        if any(effect.kind == "guard" and "5" in effect.words for effect in event.effects)
    )
    found = comparison.first_difference(summary_of(tape), summary_of(without(tape, dropped)))
    assert found is not None
    differences = {difference.field: difference for difference in found.differences}
    assert differences.keys() >= {"guards", "var_to_range"}
    assert re.fullmatch(r"s\d+ <= 5", differences["guards"].left)
    assert differences["guards"].left not in differences["guards"].right
    assert differences["axioms"].left


def test_runs_of_the_same_code_do_not_differ(tape: shapes.Tape) -> None:
    assert tape.live is not None
    live = comparison.summarize(tape, tape.live)
    assert comparison.first_difference(live, summary_of(tape)) is None
    torch._dynamo.reset()
    again = record_net()[0]
    assert again.live is not None
    assert comparison.first_difference(live, comparison.summarize(again, again.live)) is None


def test_the_same_events_with_another_state_are_told_apart(tape: shapes.Tape) -> None:
    summary = summary_of(tape)
    found = comparison.first_difference(summary, dataclasses.replace(summary, state={}))
    assert found is not None
    assert (found.kind, found.event) == ("same", "")
    assert "guards" in {difference.field for difference in found.differences}


def test_code_that_only_moved_is_the_same(tape: shapes.Tape) -> None:
    first = tape.events[0]
    moved = {**(first.kwargs or {}), "co_fields": {"co_firstlineno": 1}}
    events = [dataclasses.replace(first, kwargs=moved), *tape.events[1:]]
    other = shapes.Tape(0, events, tape.places, settings=tape.settings)
    assert comparison.first_difference(summary_of(tape), summary_of(other)) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "events": []}'])
def test_a_text_that_is_no_summary_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(comparison.SavedEventsError) as caught:
        comparison.load(text)
    assert str(caught.value).endswith(".")


def test_a_replay_that_fails_says_where_and_why(tape: shapes.Tape) -> None:
    broken = without(tape, 1)  # nobody made the sizes of the first input
    with pytest.raises(shapes.ReplayError) as caught:
        shapes.replay_tape(broken)
    assert caught.value.index > 0
    assert caught.value.method == broken.method_name(caught.value.index)
    assert str(caught.value).endswith(".")
    assert str(caught.value).startswith(f"Event {caught.value.index} (")
    line = shapes.build_timeline(broken)
    assert f"Event {caught.value.index} (" in line.note
    assert len(line.events) == caught.value.index


def test_a_timeline_is_plain_and_has_lines(tape: shapes.Tape) -> None:
    events = shapes.build_timeline(tape).events
    assert [event.index for event in events] == list(range(len(tape.events)))
    pinned = next(e for e in events if any("-> 16" in effect.words for effect in e.effects))
    assert pinned.words.startswith("evaluate_expr Eq(")
    assert "(solve)" in pinned.words
    assert pinned.operator is not None
    assert pinned.operator.name == "matmul"
    assert pinned.stack[-1].path == __file__
    assert ("16" in dict(pinned.hints).values()) and pinned.symbols
    assert len(shapes.build_timeline(tape, limit=5).events) == 5
    assert "Only the first 5 of" in shapes.build_timeline(tape, limit=5).note


def test_a_tape_that_is_too_long_is_cut_and_says_so() -> None:
    tape, recording = record_net(limit=10)
    assert recording.failure is None
    assert len(tape.events) == len(tape.places) == 10
    assert tape.note == "Only the first 10 events of this ShapeEnv were kept."
    assert difference_from_live(tape) is not None
    assert shapes.build_timeline(tape).note == tape.note


def test_recording_changes_nothing_and_keeps_no_tensor() -> None:
    plain = plain_trace()
    torch._dynamo.reset()
    before = fake_tensors()
    x, y = torch.randn(4, 16), torch.randn(4, 16)
    model = Net()
    kept: list[weakref.ref[Any]] = [
        weakref.ref(x),
        weakref.ref(y),
        weakref.ref(model.w),
        weakref.ref(model),
    ]
    with tracing.tensor_mode(False), shapes.record_tapes() as tapes:
        recording = tracing.trace(model, (x, y), {}, dynamic=[(x, 0), (y, 0), (x, 1), (y, 1)])
    del x, y, model
    torch._dynamo.reset()
    gc.collect()
    assert [reference() for reference in kept] == [None] * 4
    assert fake_tensors() <= before
    assert tapes[0].events
    assert ShapeEnv().should_record_events is False
    for mine, other in (
        (recording.guards, plain.guards),
        (recording.specializations, plain.specializations),
        (recording.symbols, plain.symbols),
        (recording.graphs, plain.graphs),
    ):
        assert [strip(item) for item in mine] == [strip(item) for item in other]


def fake_tensors() -> int:
    gc.collect()
    return sum(type(item).__name__ == "FakeTensor" for item in gc.get_objects())


def strip(item: Any) -> Any:
    return {name: value for name, value in vars(item).items() if name not in ("stack", "ops")}


def plain_trace() -> tracing.Recording:
    x, y = torch.randn(4, 16), torch.randn(4, 16)
    with tracing.tensor_mode(False):
        return tracing.trace(Net(), (x, y), {}, dynamic=[(x, 0), (y, 0), (x, 1), (y, 1)])


# -- sizes that depend on data ------------------------------------------------------------


def takes_some(x: torch.Tensor) -> torch.Tensor:
    n = x.sum().item()  # made
    torch._check(n >= 3)  # checked
    if n == 7:  # asked
        return x * 2
    return x + n


def test_an_unbacked_size_has_its_line_its_checks_and_what_would_settle_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    x = torch.arange(4)
    with (
        torch._dynamo.config.patch(capture_scalar_outputs=True),
        caplog.at_level(logging.ERROR, "torch.fx.experimental.recording"),
        tracing.tensor_mode(False),
        shapes.record_tapes() as tapes,
    ):
        recording = tracing.trace(takes_some, (x,), {})
    assert recording.breaks
    assert not [r for r in caplog.records if "failed while running" in r.getMessage()]
    lines = Path(__file__).read_text().split("\n")

    def line(words: str) -> int:
        (found,) = [n for n, text in enumerate(lines) if text.endswith(words)]
        return found

    tape = next(tape for tape in tapes if shapes.find_data_dependent(tape))
    (size,) = shapes.find_unbacked(tape)
    assert size.name == "n"
    assert size.frame is not None
    assert size.frame.line == line("# made")
    (checked,) = size.checks
    assert checked.words == "n >= 3"
    assert checked.frame is not None
    assert checked.frame.line == line("# checked")
    question = shapes.find_data_dependent(tape)[0]
    assert question.frame is not None
    assert question.frame.line == line("# asked")
    assert question.torch_checks == ("torch._check(n == 7)", "torch._check(n != 7)")
    assert question.text.startswith("The code needs the value of `n == 7` at line")
    assert "`n` comes from" in question.text


def keeps_positive(x: torch.Tensor) -> torch.Tensor:
    y = x[x > 0]
    if y.shape[0] > 3:
        return y + 1
    return y


def test_a_size_that_an_operator_gives_is_called_after_its_result() -> None:
    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        tracing.tensor_mode(False),
        shapes.record_tapes() as tapes,
    ):
        tracing.trace(keeps_positive, (torch.randn(7),), {})
    tape = next(tape for tape in tapes if shapes.find_data_dependent(tape))
    (question,) = shapes.find_data_dependent(tape)
    assert question.words == "y.shape[0] > 3"
    columns = sys.version_info >= (3, 11)
    assert question.symbols[0].code == ("x[x > 0]" if columns else "y = x[x > 0]")
    assert difference_from_live(tape) is None
