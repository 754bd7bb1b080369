"""What runs saw of a text stays where it was seen while the text is edited."""

from __future__ import annotations

import pytest

from fullgraph.domain.positions import Encoding
from fullgraph.operators import Seen
from fullgraph.results.file_results import Results
from fullgraph.results.seen import seen_in
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.documents import Document, TextChange
from fullgraph.session.request import TraceInputs
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import (
    Position,
    Range,
    SeenKind,
    SeenValue,
    Status,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
    ValuesSeen,
)

TEXT = """\
def f(x, w):
    y = "é" + x.sum(0)
    z = (w
         .exp().log())
    return z.view(1)

def g(x):
    return x.max()
"""


class Edited:
    """A document with results, as a unit holds them."""

    def __init__(self, text: str = TEXT) -> None:
        self.document = Document("file:///m.py", text, 1, Encoding.UTF32)
        self.results = Results()

    def range(self, words: str) -> Range:
        """Where the words stand, of which the text has one."""
        text = self.document.text
        assert text.count(words) == 1, words
        return Range(self._position(text.index(words)), self._position(text.index(words), words))

    def _position(self, offset: int, words: str = "") -> Position:
        before = self.document.text[:offset] + words
        line = before.count("\n")
        return Position(line, len(before.rpartition("\n")[2].encode()))

    def expression(self, kind: SeenKind, words: str, context: str = "") -> SeenValue:
        """The words at the start of a context that the text has once."""
        start = self.range(context or words).start
        offset = self.document.text.index(context or words)
        return SeenValue(Range(start, self._position(offset, words)), kind)

    def local(self, kind: SeenKind, name: str, function: str) -> SeenValue:
        head = self.range(f"def {function}(")
        start = Position(head.start.line, head.start.byte + len("def "))
        end = Position(start.line, start.byte + len(function))
        return SeenValue(Range(start, end), kind, name, function)

    def run(self, **seen: tuple[SeenValue, ...]) -> None:
        """A run of targets, in which all tell what they saw."""
        self.begin(*seen)
        for target, values in seen.items():
            self.tell(target, *values)
            self.done(target)
        self.results.complete_run()

    def begin(self, *names: str) -> None:
        self.results.begin_run()
        infos = tuple(TargetInfo(name, "function", self.range("def f")) for name in names)
        self.results.apply_event(TargetsFound(1, infos))

    def tell(self, target: str, *values: SeenValue) -> None:
        self.results.apply_event(ValuesSeen.from_values(1, target, values))

    def done(self, target: str, status: Status = "traced") -> None:
        report = TargetReport(target, "function", self.range("def f"), status)
        self.results.apply_event(TargetDone(1, report))

    def edit(self, old: str, new: str) -> None:
        """Replace words that the text has once, as a client that sends whole texts does."""
        self.range(old)
        text = self.document.text.replace(old, new)
        edits = self.document.apply_changes([TextChange(text)], self.document.version + 1)
        self.results.apply_edits(edits, self.document.name)

    def seen(self) -> Seen:
        return seen_in(self.document.positions, self.results.seen.values())

    def spans(self) -> set[tuple[str, SeenKind]]:
        text = self.document.text
        return {(text[span.start : span.end], span.kind) for span in self.seen().values}


def traced() -> Edited:
    edited = Edited()
    edited.run(
        f=(
            edited.expression("tensor", "x", "x.sum"),
            edited.expression("tensor", "w\n         .exp()"),
            edited.expression("other", "z", "z.view"),
            edited.local("tensor", "x", "f"),
            edited.local("module", "w", "f"),
        ),
        g=(edited.expression("tensor", "x", "x.max"), edited.local("tensor", "x", "g")),
    )
    return edited


ALL = {("x", "tensor"), ("w\n         .exp()", "tensor"), ("z", "other")}
LOCALS = {("f", "x"): "tensor", ("f", "w"): "module", ("g", "x"): "tensor"}


def test_offsets_are_of_code_points() -> None:
    edited = traced()
    assert edited.spans() == ALL
    assert edited.seen().locals == LOCALS
    starts = {span.start for span in edited.seen().values}
    assert {TEXT.index("x.sum"), TEXT.index("x.max"), TEXT.index("z.view")} <= starts


def test_line_ends_of_two_characters() -> None:
    text = TEXT.replace("\n", "\r\n")
    edited = Edited(text)
    edited.run(g=(SeenValue(Range(Position(7, 11), Position(7, 12)), "tensor"),))
    (span,) = edited.seen().values
    assert (span.start, span.end) == (text.index("x.max"), text.index("x.max") + 1)


@pytest.mark.parametrize(
    ("old", "new", "gone"),
    [
        ("def f(", "# above\n\ndef f(", set()),
        ("x.sum(0)", "v.sum(0)", {"x.s"}),
        ("x.sum(0)", "x.sum(0, 1)", set()),
        (".sum", ".sümme", set()),
        ('"é"', '"éé🎉" + 1', set()),
        ("\n    z =", "\n\n\n    z =", set()),
        (".exp()", ".sin()", {"w\n"}),
        ("    return z.view(1)\n", "", {"z.v"}),
        ('    y = "é" + x.sum(0)\n    z', "    q", {"x.s"}),
        ("sum(0)\n    z =", "sum(0); z =", set()),
    ],
)
def test_an_edit_moves_what_it_does_not_touch(old: str, new: str, gone: set[str]) -> None:
    edited = traced()
    edited.edit(old, new)
    text = edited.document.text
    wanted = {text.index(start) for start in {"x.s", "w\n", "z.v", "x.m"} - gone}
    assert {span.start for span in edited.seen().values} == wanted
    assert edited.spans() <= ALL
    assert edited.seen().locals == LOCALS


def test_every_character_typed_keeps_what_is_elsewhere() -> None:
    edited = traced()
    before = "    return z.view(1)"
    for typed in ("y.r", "y.re", "y.rel", "y.relu", "y.relu()", "y.relu()\n    y.a"):
        after = f"    {typed}\n    return z.view(1)"
        edited.edit(before, after)
        before = after
        assert edited.spans() == ALL
    text = edited.document.text
    wanted = {text.index(start) for start in ("x.sum", "w\n", "z.view", "x.max")}
    assert {span.start for span in edited.seen().values} == wanted


def test_a_function_that_is_renamed_takes_its_locals_along() -> None:
    edited = traced()
    edited.edit("def f(", "def h(")
    assert edited.seen().locals == {("g", "x"): "tensor"}


def test_kinds_that_do_not_agree() -> None:
    edited = Edited()
    edited.run(
        f=(
            edited.expression("tensor", "x", "x.sum"),
            edited.expression("other", "x", "x.sum"),
            edited.expression("tensor", "z", "z.view"),
            edited.local("tensor", "x", "f"),
            edited.local("other", "x", "f"),
            edited.local("tensor", "w", "f"),
        ),
        g=(
            edited.expression("module", "z", "z.view"),
            edited.expression("tensor", "x", "x.max"),
            edited.local("tensor", "w", "f"),
        ),
    )
    (span,) = edited.seen().values
    assert span.start == TEXT.index("x.max")
    assert edited.seen().locals == {("f", "w"): "tensor"}


def test_a_new_run_replaces_what_its_targets_saw() -> None:
    edited = traced()
    edited.begin("f", "g")
    edited.tell("f", edited.expression("module", "x", "x.sum"))
    assert ("x", "module") in edited.spans()
    assert edited.seen().locals == {("g", "x"): "tensor"}


def test_probes_of_one_target_add_up() -> None:
    edited = Edited()
    edited.begin("f")
    edited.tell("f", edited.local("tensor", "x", "f"), edited.local("tensor", "w", "f"))
    edited.tell("f", edited.local("tensor", "x", "f"), edited.local("other", "w", "f"))
    edited.tell("f", edited.local("other", "z", "f"), edited.expression("tensor", "x", "x.sum"))
    assert edited.seen().locals == {("f", "x"): "tensor", ("f", "z"): "other"}
    assert edited.spans() == {("x", "tensor")}


def test_a_run_that_dies_leaves_what_was_known() -> None:
    edited = traced()
    edited.begin("f", "g")
    edited.done("f", "crashed")
    edited.done("g", "timeout")
    edited.results.complete_run()
    assert edited.seen().locals == LOCALS


def test_a_target_that_is_no_more_takes_along_what_it_saw() -> None:
    edited = traced()
    edited.begin("g")
    assert edited.seen().locals == {("g", "x"): "tensor"}


def test_a_file_without_targets_has_seen_nothing() -> None:
    edited = traced()
    edited.results.begin_run()
    edited.results.complete_run()
    assert edited.seen() == Seen()


def test_a_snapshot_stays_as_it_was() -> None:
    edited = traced()
    kept = edited.results.snapshot()
    edited.edit("def f(", "\n\ndef h(")
    assert edited.seen().locals == {("g", "x"): "tensor"}
    assert seen_in(Edited().document.positions, kept.seen.values()).locals == LOCALS


def test_a_unit_looks_once_for_each_text_and_result() -> None:
    edited = traced()
    unit = AnalysisUnit(edited.document, TraceInputs(Settings(), ()), lambda unit, event: None)
    assert unit.view.seen_values() == Seen()
    unit.traces.shown.replace(edited.results)
    first = unit.view.seen_values()
    assert first.locals == LOCALS
    assert unit.view.seen_values() is first
    edited.edit("def g(", "\ndef g(")
    second = unit.view.seen_values()
    assert max(span.start for span in second.values) == edited.document.text.index("x.max")
    edited.run(f=(edited.local("tensor", "z", "f"),))
    assert unit.view.seen_values().locals == {("f", "z"): "tensor"}
