"""What a recording holds, and that recording changes nothing."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import markers

from fullgraph_engine import tracing
from fullgraph_engine.torch_internals import frames
from fullgraph_engine.tracing import drive, recorder
from fullgraph_engine.tracing.recording import Break, Recording

pytestmark = [pytest.mark.real_engine, pytest.mark.usefixtures("fresh_tracer")]
ENGINE = Path(__file__).parents[3] / "engine"
HERE = __file__
COLUMNS = sys.version_info >= (3, 11)
TORCH = markers.torch_version()
BRANCHING = "GB0170" if TORCH >= (2, 9) else ""
"""The number of a jump on data: torch 2.8 has none for it."""


def line_of(words: str) -> int:
    """Zero-based line of this file that holds these words, and no other does."""
    lines = Path(HERE).read_text().split("\n")
    (found,) = [n for n, line in enumerate(lines) if words in line and "line_of" not in line]
    return found


def trace(function: Any, *args: Any, **options: Any) -> Recording:
    with tracing.tensor_mode(False):
        return tracing.trace(function, args, {}, **options)


def apart(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python of its own, with the engine on its path."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={"PYTHONPATH": str(ENGINE), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# -- breaks -----------------------------------------------------------------------------------


def shows(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    print("shown", end="")  # the break of shows
    return x * 2


def calls_shows(x: torch.Tensor) -> torch.Tensor:
    return shows(x).relu()  # the call of shows


def test_a_break_has_its_number_its_words_and_its_place() -> None:
    (found, again) = trace(calls_shows, torch.ones(3)).breaks
    assert found.id == "GB0059"
    assert found.href.endswith("/gb0059.html")
    assert found.kind == "Failed to trace builtin operator"
    assert "`print`" in found.causes[0].explanation
    assert found.causes[0].hints
    assert "builtin print" in found.causes[0].context
    assert found.outcome == "resumed"
    assert [frame.function for frame in found.stack] == ["calls_shows", "shows"]
    assert [frame.path for frame in found.stack] == [HERE, HERE]
    assert [frame.line for frame in found.stack] == [
        line_of("# the call of shows"),
        line_of("# the break of shows"),
    ]
    if COLUMNS:
        assert [(frame.byte, frame.end_byte) for frame in found.stack] == [(11, 19), (4, 26)]
    # The same break, for the frame that runs by itself after it.
    assert (found.inlined, again.inlined) == (2, 1)
    assert found.stack == again.stack
    assert found.frame != again.frame


def test_breaks_are_told_while_the_call_is_running() -> None:
    heard: list[str] = []

    def talks(x: torch.Tensor) -> torch.Tensor:
        print(end="")
        heard.append("after the first")
        print(end="")
        return x + 1

    def hear(record: Break) -> None:
        heard.append(record.id)

    trace(talks, torch.ones(3), on_break=hear)
    # What is appended in a frame is appended after it was traced up to its break.
    assert heard == ["GB0059", "GB0059", "after the first"]


def test_a_break_that_leads_to_another_keeps_both() -> None:
    def loops(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = x + 1
            print(end="")
        return x

    (found,) = trace(loops, torch.ones(3)).breaks
    assert found.outcome == "frame-skipped"
    assert [cause.kind for cause in found.causes] == [
        "Failed to trace builtin operator",
        "graph break in loop",
    ]
    assert found.id == "GB0059"


def test_a_data_dependent_jump_has_its_number() -> None:
    def decides(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1

    (found,) = trace(decides, torch.ones(3)).breaks
    assert (found.id, found.kind) == (BRANCHING, "Data-dependent branching")


# -- frames, graphs, ops ----------------------------------------------------------------------


def test_frames_go_by_the_names_that_the_user_gave() -> None:
    recording = trace(calls_shows, torch.ones(3))
    assert {frame.function for frame in recording.frames} == {"calls_shows", "shows"}
    assert {frame.path for frame in recording.frames} == {HERE}
    assert all(frame.outcome == "compiled" for frame in recording.frames)
    assert len({frame.id for frame in recording.frames}) == len(recording.frames)
    assert {graph.frame for graph in recording.graphs} <= {f.id for f in recording.frames}


def test_a_frame_without_operations_is_skipped_with_its_reason() -> None:
    def shape(x: torch.Tensor) -> int:
        return x.shape[0]

    recording = trace(shape, torch.ones(3))
    (skip,) = recording.skips
    assert (skip.function, skip.path, skip.resumed) == ("shape", HERE, False)
    assert frames.is_skip_without_ops(skip.reason)
    assert [frame.outcome for frame in recording.frames] == ["skipped"]


def test_what_is_left_behind_a_break_is_told_from_a_whole_function() -> None:
    def ends(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        print(end="")
        return x

    (skip,) = trace(ends, torch.ones(3)).skips
    assert (skip.function, skip.resumed) == ("ends", True)


def test_ops_have_columns_and_sizes() -> None:
    def two(x: torch.Tensor) -> torch.Tensor:
        return x.relu() @ x.T  # both operators

    x = torch.ones(3, 5)
    recording = trace(two, x, dynamic=[(x, 0)])
    (graph,) = recording.graphs
    by_target = {op.target: op for op in graph.ops}
    relu = by_target["relu"]
    (frame,) = relu.stack
    assert (frame.path, frame.line) == (HERE, line_of("# both operators"))
    if COLUMNS:
        assert (frame.byte, frame.end_byte) == (15, 23)
    symbolic, hints = graph.sizes[relu.name]
    assert hints == (3, 5)
    assert symbolic[1] == "5"
    assert symbolic[0].startswith("s")
    assert relu.result == f"f32[{symbolic[0]}, 5]"
    assert recording.op_count == len(graph.ops)


# -- guards, symbols, specializations ---------------------------------------------------------


def test_guards_have_a_kind_an_expression_a_source_and_a_stack() -> None:
    def scaled(x: torch.Tensor, factor: int) -> torch.Tensor:
        return x * factor  # uses the factor

    recording = trace(scaled, torch.ones(3), 7)
    (guard,) = [g for g in recording.guards if g.source == "L['factor']" and "7" in str(g)]
    assert guard.kind
    assert any("7" in expression for expression in guard.expressions)
    assert [f.line for f in guard.stack if f.path == HERE] == [line_of("# uses the factor")]
    tensor = [g for g in recording.guards if g.source == "L['x']"]
    assert any(g.kind == "TENSOR_MATCH" for g in tensor)


def test_what_is_guarded_twice_is_of_the_first_place() -> None:
    """As where both are on one line, which torch does not tell apart."""
    layer = torch.nn.LayerNorm(4)

    def both(x: torch.Tensor) -> torch.Tensor:
        y = layer(x)  # guards its eps
        return y + layer(x)

    guards = trace(both, torch.ones(3, 4)).guards
    lines = {
        frame.line
        for guard in guards
        for frame in guard.stack
        if guard.source.endswith(".eps") and frame.path == HERE
    }
    assert lines == {line_of("# guards its eps")}


@pytest.mark.skipif(not COLUMNS, reason="bytecode has no columns")
def test_expressions_that_begin_and_end_in_the_same_columns_are_told_apart() -> None:
    layers = torch.nn.ModuleList([torch.nn.ReLU()])

    # fmt: off
    def chosen(x: torch.Tensor) -> torch.Tensor:
        return layers[  # the choice
            0
        ](
            x.sin()
        )  # the end of the call
    # fmt: on

    ends = {
        guard.stack[-1].end_line
        for guard in trace(chosen, torch.ones(3)).guards
        if guard.stack and guard.stack[-1].line == line_of("# the choice")
    }
    call = line_of("# the end of the call")
    assert {call, call - 2} <= ends


def test_shape_guards_have_the_line_that_made_them() -> None:
    def long(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 2:  # asks for the length
            return x + 1
        return x

    x = torch.ones(5)
    guards = trace(long, x, dynamic=[(x, 0)]).guards
    # Up to torch 2.9 it is a guard beside the range of the size.
    bound = "3 <= L['x'].size()[0]" if TORCH >= (2, 10) else "L['x'].size()[0] > 2"
    assert any(
        g.expressions == (bound,)
        and [(f.path, f.line) for f in g.stack] == [(HERE, line_of("# asks for the length"))]
        for g in guards
    )


def test_symbols_say_what_they_stand_for() -> None:
    x = torch.ones(5, 4)
    recording = trace(shows, x, dynamic=[(x, 0)])
    assert {(s.source, s.hint) for s in recording.symbols} == {("L['x'].size()[0]", 5)}
    assert recording.specializations == []


def test_a_specialization_names_symbol_value_and_place() -> None:
    def pinned(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y.view(6, 4)  # pins it

    x = torch.ones(6, 4)
    (event,) = trace(pinned, x, dynamic=[(x, 0)]).specializations
    assert (event.source, event.value) == ("L['x'].size()[0]", "6")
    assert event.reason
    assert event.stack[-1].line == line_of("# pins it")
    if COLUMNS:
        assert (event.stack[-1].byte, event.stack[-1].end_byte) == (15, 27)
    assert all("symbolic_shapes" not in frame.path for frame in event.stack)


def test_a_size_stays_symbolic_behind_a_break() -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        print(end="")
        return x + y

    x = torch.ones(6)
    recording = trace(halves, x, dynamic=[(x, 0)])
    assert len(recording.graphs) == 2
    assert recording.specializations == []


def test_runtime_asserts_on_unbacked_symbols() -> None:
    def sized(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        size: Any = (n * 2).item()  # nobody knows how much
        torch._check(size < 100)  # but not too much
        return x.sum() + torch.zeros(size).sum()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        recording = trace(sized, torch.ones(3), torch.tensor(4))
    assert recording.breaks == []
    (limit,) = [item for item in recording.asserts if "100" in item.expression]
    assert [frame.line for frame in limit.stack] == [line_of("# but not too much")]
    (unbacked,) = [symbol for symbol in recording.symbols if symbol.hint is None]
    assert unbacked.name in limit.expression
    assert [frame.line for frame in unbacked.stack] == [line_of("# nobody knows how much")]


def test_another_int_recompiles_with_its_reason() -> None:
    def scaled(x: torch.Tensor, factor: int) -> torch.Tensor:
        return x * factor

    x = torch.ones(3)
    assert trace(scaled, x, 3).recompiles == []
    (recompile,) = trace(scaled, x, 4).recompiles
    assert (recompile.function, recompile.path) == ("scaled", HERE)
    assert any("factor" in reason and "3" in reason for reason in recompile.reasons)
    # The second compilation made it symbolic: a third value fits.
    assert trace(scaled, x, 5).recompiles == []


# -- operators --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library() -> Iterator[Any]:
    lib = torch.library.Library("tracingtest", "DEF")
    lib.define("one(Tensor x) -> Tensor")
    lib.define("two(Tensor x) -> Tensor")
    lib.define("two.scaled(Tensor x, float s) -> Tensor")
    lib.define("good(Tensor x) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    for name in ("one", "two", "good"):
        lib.impl(name, lambda x: x + 1, "CompositeExplicitAutograd")
        torch.library.register_fake(f"tracingtest::{name}", torch.empty_like, lib=lib)
    lib.impl("two.scaled", lambda x, s: x * s, "CompositeExplicitAutograd")
    torch.library.register_fake(
        "tracingtest::two.scaled", lambda x, s: torch.empty_like(x), lib=lib
    )
    yield torch.ops.tracingtest
    lib._destroy()


def test_every_way_to_call_an_operator_is_resolved(library: Any) -> None:
    def calls(x: torch.Tensor) -> torch.Tensor:
        x = library.one.default(x)
        x = library.one(x)
        x = library.two(x, 2.0)
        return library.good(x)

    found = [
        (op.name, op.compliant, op.resolution, op.stack[-1].line)
        for op in trace(calls, torch.ones(3)).custom_ops
    ]
    first = line_of("x = library.one.default(x)")
    assert found == [
        ("tracingtest.one.default", False, "overload", first),
        ("tracingtest.one.default", False, "single overload", first + 1),
        ("tracingtest.two.scaled", False, "resolved packet", first + 2),
        ("tracingtest.good.default", True, "single overload", first + 3),
    ]


def test_watching_operators_leaves_dynamos_own_sets_complete(library: Any) -> None:
    seen: list[tuple[int, int]] = []
    original = recorder.Recorder.record_graph

    def record_graph(self: Any, output: Any, module: Any) -> None:
        seen.append((len(output.non_compliant_ops), len(output.compliant_custom_ops)))
        original(self, output, module)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder.Recorder, "record_graph", record_graph)
        trace(lambda x: library.good(library.two(library.one(x))), torch.ones(3))
    assert seen == [(2, 1)]


# -- failures ---------------------------------------------------------------------------------


def test_an_error_of_eager_code_has_its_line() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        torch._dynamo.graph_break()
        raise ValueError(x.shape)  # cannot work

    failure = trace(fails, torch.ones(3)).failure
    assert failure is not None
    assert failure.kind == "ValueError"
    assert failure.stack[-1].line == line_of("# cannot work")


def test_an_error_of_the_tracer_has_its_line_and_its_own_words() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        return x @ x.T @ torch.ones(7, 7)  # does not fit

    failure = trace(fails, torch.ones(3, 3)).failure
    assert failure is not None
    assert (failure.phase, failure.kind) == ("tracer", "RuntimeError")
    assert "3" in failure.message and "7" in failure.message
    assert "Explanation:" not in failure.message
    # Up to torch 2.10 it is no graph break.
    kinds = ["RuntimeError when making fake tensor call"] if TORCH >= (2, 11) else []
    assert [cause.kind for cause in failure.causes] == kinds
    assert failure.stack[-1].line == line_of("# does not fit")


def test_leaving_the_program_is_a_failure_too() -> None:
    def leaves(x: torch.Tensor) -> torch.Tensor:
        raise SystemExit(3)

    failure = trace(leaves, torch.ones(3)).failure
    assert failure is not None
    assert failure.kind == "SystemExit"


# -- fake tensors -----------------------------------------------------------------------------


def asks(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:  # the question
        x = x + 1
    print(end="")
    return x * x.max().item()


def test_a_value_that_a_fake_tensor_lacks_is_chosen_and_recorded() -> None:
    with tracing.tensor_mode(True) as mode:
        assert mode is not None
        mode.restart()
        mode.prefer_real = False
        recording = tracing.trace(asks, (torch.randn(4),), {})
    assert [b.id for b in recording.breaks] == [BRANCHING, "GB0059", "GB0124"]
    assert recording.failure is None
    assert len(recording.chosen) == 2
    assert recording.chosen[0].stack[-1].line == line_of("# the question")
    real = trace(asks, torch.rand(4))
    assert [b.id for b in real.breaks] == [b.id for b in recording.breaks]


def test_where_real_tensors_are_better_the_run_says_so() -> None:
    with tracing.tensor_mode(True) as mode:
        assert mode is not None
        mode.restart()
        mode.prefer_real = True
        try:
            with pytest.raises(tracing.ValueNeeded):
                tracing.trace(asks, (torch.randn(4),), {})
        finally:
            mode.prefer_real = False


# -- recording disturbs nothing ---------------------------------------------------------------


def test_a_recording_is_plain_data() -> None:
    recording = trace(calls_shows, torch.ones(3))
    copy = pickle.loads(pickle.dumps(recording))
    assert copy == recording
    assert b"torch" not in type(recording).__module__.encode()


@pytest.mark.parametrize(
    "method",
    ["record_break", "record_skip", "record_graph", "record_guards", "note_unsupported"],
)
def test_a_mistake_of_the_recorder_changes_nothing(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[Any] = []

    def whole(x: torch.Tensor) -> None:
        for block in (shows, calls_shows):
            print(end="")
            results.append(block(x))

    def wrong(*_args: Any) -> None:
        raise ZeroDivisionError("in the recorder")

    clean = trace(whole, torch.ones(3))
    torch._dynamo.reset()
    monkeypatch.setattr(recorder.Recorder, method, wrong)
    disturbed = trace(whole, torch.ones(3))
    assert disturbed.failure is None
    assert any("in the recorder" in words for words in disturbed.losses)
    assert [f.outcome for f in disturbed.frames] == [f.outcome for f in clean.frames]
    first, second, *again = results
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])


def test_a_mistake_of_the_listener_changes_nothing() -> None:
    def wrong(_record: Break) -> None:
        raise ZeroDivisionError("in the listener")

    recording = trace(shows, torch.ones(3), on_break=wrong)
    assert recording.failure is None
    assert len(recording.graphs) == 2
    assert any("in the listener" in words for words in recording.losses)


def test_without_a_recorder_the_hooks_are_silent() -> None:
    trace(shows, torch.ones(3))
    assert recorder.active_recorder() is None
    result = torch.compile(shows, backend="eager")(torch.ones(3))
    assert torch.equal(result, torch.full((3,), 4.0))


def test_what_the_file_compiles_is_traced_without_a_compiler() -> None:
    ran = apart(
        """
        import sys
        import torch
        from fullgraph_engine import tracing

        tracing.warm_up()

        @torch.compile(mode="max-autotune", fullgraph=False)
        def fast(x):
            print("inside")
            return x.sin() * 2

        def outer(x):
            return fast(x) + 1

        recording = tracing.trace(outer, (torch.ones(3),), {})
        assert recording.failure is None, recording.failure
        print(sorted({b.id for b in recording.breaks}), recording.op_count)
        names = ("compile_fx", "graph", "scheduler", "lowering")
        print([name for name in names if f"torch._inductor.{name}" in sys.modules])
        """
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split("\n")[-3:-1] == ["['GB0059'] 3", "[]"]


def test_loops_that_wait_for_a_value_end_with_fake_tensors() -> None:
    with tracing.tensor_mode(True) as mode:
        assert mode is not None
        for _ in range(2):
            mode.restart()
            x, steps = torch.rand(4), 0
            while True:
                steps += 1
                if (x.sum() > 3).item():
                    break
            while x.sum() < 1:
                steps += 1000
            while x.max().item() > 1e-9:
                steps += 1
            while x.max().item() < 50:
                steps += 1
            assert 0 < steps < 1000


@pytest.mark.parametrize("in_program", [True, False])
def test_views_of_intermediate_tensors_refer_to_them_only_outside_of_programs(
    monkeypatch: pytest.MonkeyPatch, in_program: bool
) -> None:
    """Inductor returns such views as tensors of their own, and views of inputs as views."""
    monkeypatch.setattr(drive.NoBackend, "calls_user_backend", in_program)

    def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x + 1).chunk(2)[1], x.chunk(2)[1]

    made, given = torch.compile(halves, backend=drive.NoBackend())(torch.arange(4.0))
    assert made.tolist() == [3, 4]
    assert (made._base is None) == in_program
    assert given._base is not None
