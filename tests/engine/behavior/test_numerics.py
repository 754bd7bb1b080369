"""The judgment whether compiled code computes the right numbers."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.behaving import Comparer

from fullgraph_engine import targets
from fullgraph_engine.behavior.budget import ProcessorBudget
from fullgraph_engine.behavior.compiled_calls import describe_deviation, prepare_comparison
from fullgraph_engine.behavior.numerics import (
    JudgedNumerics,
    WrongOperationSearch,
    compare_calls,
    operation_name,
)
from fullgraph_engine.behavior.observing import DoublePrecisionMode
from fullgraph_engine.host import frames
from fullgraph_engine.protocol import Analyze, FindingFound, Limits, NumericsJudged
from fullgraph_engine.tracing import nodes
from fullgraph_engine.tracing.drive import use_real_backends


@pytest.fixture(scope="module")
def comparer() -> Iterator[Comparer]:
    host = Comparer()
    yield host
    host.close()


def model(x: torch.Tensor) -> torch.Tensor:
    h = x.sin()
    h = torch.relu(h) + 1
    h = h.cos().tanh()
    return h * 2


def compile_wrongly(operation: str) -> Callable[[torch.fx.GraphModule], Callable[..., Any]]:
    """Return a compiler that adds 1 to the results of the operation with the given name."""

    def compile_graph(graph: torch.fx.GraphModule) -> Callable[..., Any]:
        class Wrong(torch.fx.Interpreter):
            def run_node(self, n: torch.fx.Node) -> Any:
                result = super().run_node(n)
                return result + 1 if operation_name(n) == operation else result

        return Wrong(graph).run

    return compile_graph


@pytest.mark.parametrize(
    ("operation", "line"), [("sin", "h = x.sin()"), ("tanh", "h = h.cos().tanh()")]
)
def test_the_first_wrong_operation_is_found(operation: str, line: str) -> None:
    search = WrongOperationSearch(0, ProcessorBudget(60.0), compile_wrongly(operation))
    torch._dynamo.reset()
    x = torch.randn(4, requires_grad=True)
    with use_real_backends():
        torch.compile(model, backend=search.backend)(x)
    assert search.found is not None
    assert operation_name(search.found) == operation
    stack = nodes.parse_stack_text(search.found.stack_trace or "")
    (frame,) = frames.add_source_lines(stack)[-1:]
    assert frame.path == __file__
    assert frame.text.strip() == line
    assert line in Path(__file__).read_text().splitlines()[frame.line]


def test_right_operations_are_not_blamed() -> None:
    search = WrongOperationSearch(0, ProcessorBudget(60.0), compile_wrongly("no operation"))
    torch._dynamo.reset()
    with use_real_backends():
        torch.compile(model, backend=search.backend)(torch.randn(4))
    assert search.found is None


def test_random_numbers_in_float64_are_those_of_single_precision() -> None:
    x = torch.linspace(0.1, 1, 64)
    calls: list[Callable[[torch.Tensor], torch.Tensor]] = [
        torch.randn_like,
        torch.bernoulli,
        lambda one: torch.nn.functional.dropout(one, 0.5),
    ]
    for call in calls:
        torch.manual_seed(1)
        single = call(x)
        torch.manual_seed(1)
        with DoublePrecisionMode():
            double = call(x.double())
        assert double.dtype == torch.float64
        assert torch.allclose(single.double(), double), call


def test_other_random_numbers_are_no_reference() -> None:
    x = torch.ones(3)
    other = torch.full((3,), 7.0, dtype=torch.float64)
    assert "in eager mode and" in describe_deviation(x, x + 0.5, [other], [other + 1e-9])
    assert describe_deviation(x, x + 1e-5, [other], [other + 1e-9]) == ""


Graph = torch.fx.GraphModule


def test_dropout_in_evaluation_mode_returns_its_argument_in_float64() -> None:
    x = torch.ones(3, dtype=torch.float64)
    with DoublePrecisionMode():
        assert torch.nn.functional.dropout(x, 0.5, training=False) is x


def test_casts_to_sixteen_bits_do_not_round_in_float64() -> None:
    x = torch.linspace(0.1, 1, 64, dtype=torch.float64)
    casts: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda one: one.to(torch.float16).float(),
        lambda one: one.bfloat16(),
        lambda one: one.half().to(torch.float32),
    ]
    for cast in casts:
        with DoublePrecisionMode():
            assert torch.equal(cast(x), x)
    with DoublePrecisionMode():
        assert torch.arange(3).to(torch.float16).dtype == torch.float64


def compile_with_change(change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return a backend that changes the first result of each graph."""

    def backend(graph: Graph, _: Sequence[Any]) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            first, *rest = graph.forward(*inputs)
            return [change(first), *rest]

        return run

    return backend


def compile_with_rounding(graph: Graph, _: Sequence[Any]) -> Callable[..., Any]:
    """Compile a graph so that it rounds otherwise."""

    def run(*inputs: Any) -> Any:
        noise = torch.Generator().manual_seed(99)
        return graph.forward(
            *(
                one * (1 + 1e-7 * torch.randn(one.shape, generator=noise))
                if isinstance(one, torch.Tensor) and one.is_floating_point()
                else one
                for one in inputs
            )
        )

    return run


def without_writes(graph: Graph, _: Sequence[Any]) -> Callable[..., Any]:
    """Compile a graph so that it does not change its inputs."""
    return lambda *inputs: graph.forward(
        *(one.clone() if isinstance(one, torch.Tensor) else one for one in inputs)
    )


def judge(text: str, name: str, backend: Any) -> JudgedNumerics:
    """Return the judgment on one target of a file that ``backend`` compiles."""
    module = types.ModuleType("judged")
    sys.modules["judged"] = module
    exec(compile(text, "judged.py", "exec"), module.__dict__)
    found = {one.name: one for one in targets.discover(text, "judged.py").targets}
    probe = targets.plan_probes(found[name], module.__dict__)[0]
    tracee = targets.Tracee(found[name], probe, module.__dict__, "judged.py", text, "real")
    prepare_comparison()
    with use_real_backends():
        return compare_calls(tracee, backend)


UNIT_VECTORS = """
import torch
def f(x):  # fullgraph: x=f32[500, 40]
    y = x / x.norm(dim=-1, keepdim=True)
    return (y * y).sum(-1) >= 1.0
"""
ANGLES = UNIT_VECTORS.replace("(y * y).sum(-1) >= 1.0", "torch.acos((y * y).sum(-1))")
LEVELS = """
import torch
def f(x):  # fullgraph: x=f32[500, 40]
    return torch.floor(x.softmax(-1).cumsum(-1) * 1000)
"""
SIGNS = UNIT_VECTORS.replace("(y * y).sum(-1) >= 1.0", "y.sum(-1) > 0")
LOGARITHMS = UNIT_VECTORS.replace("(y * y).sum(-1) >= 1.0", "torch.log(x)")
LARGEST = """
import torch
def f(x):  # fullgraph: x=f32[16, 8]
    return x.argmax(-1)
"""


@pytest.mark.parametrize("text", [UNIT_VECTORS, ANGLES, LEVELS], ids=["compare", "nan", "floor"])
def test_elements_that_rounding_moves_across_a_limit_are_not_wrong(text: str) -> None:
    assert judge(text, "f", compile_with_rounding).verdict.outcome == "rounding"


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (SIGNS, torch.logical_not),
        (LOGARITHMS, lambda y: torch.full_like(y, torch.nan)),
        (LEVELS, lambda y: y + 10),
        (LARGEST, lambda y: (y + 1) % 8),
    ],
    ids=["compare", "nan", "floor", "argmax"],
)
def test_stable_elements_that_change_are_wrong(
    text: str, change: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    assert judge(text, "f", compile_with_change(change)).verdict.outcome == "wrong"


@pytest.mark.parametrize("value", ["inf", "nan", "-inf"])
def test_infinities_and_nan_that_change_are_wrong(value: str) -> None:
    text = f"""
import torch
def f(x):  # fullgraph: x=f32[8]
    return torch.cat([x * 0 + float("{value}"), x])
"""
    assert judge(text, "f", "eager").verdict.outcome == "equal"
    verdict = judge(text, "f", compile_with_change(lambda y: y.nan_to_num(nan=1.0))).verdict
    assert verdict.outcome == "wrong"
    assert f"which is {value} in eager mode and" in verdict.reason


def test_one_wrong_element_among_many_that_are_rounded_is_wrong() -> None:
    def change(y: torch.Tensor) -> torch.Tensor:
        y = y * (1 + 1e-7 * torch.randn(y.shape, generator=torch.Generator().manual_seed(3)))
        y[3, 4] += 0.01
        return y

    text = """
import torch
def f(x):  # fullgraph: x=f32[100, 40]
    return x.cos()
"""
    assert judge(text, "f", compile_with_change(change)).verdict.outcome == "wrong"


def test_results_of_a_singular_matrix_are_unreliable() -> None:
    text = """
import torch
def f(x):  # fullgraph: x=f32[8, 3]
    return torch.linalg.inv(x @ x.T)
"""
    verdict = judge(text, "f", compile_with_change(lambda y: y * 1e6)).verdict
    assert verdict.outcome == "unknown"
    assert "no result is reliable" in verdict.reason


def test_code_that_does_not_run_in_float64_has_no_reference() -> None:
    text = """
import torch
def f(x):  # fullgraph: x=f32[8]
    if x.dtype != torch.float32:
        raise TypeError("expected float32")
    return x * 2
"""
    verdict = judge(text, "f", compile_with_change(lambda y: y + 1)).verdict
    assert verdict.outcome == "unknown"
    assert "The code does not run in float64" in verdict.reason


def test_sixteen_bits_do_not_allow_a_tenth() -> None:
    text = """
import torch
def f(x):  # fullgraph: x=bf16[64, 64]
    return x.tanh()
"""
    assert judge(text, "f", compile_with_change(lambda y: y * 0.9)).verdict.outcome == "wrong"


AVERAGE = """
import torch
class Average(torch.nn.Module):  # fullgraph: forward(x=f32[8, 4])
    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.zeros(4))
    def forward(self, x):
        self.average.lerp_(x.mean(0), 0.1)
        return x * 2
"""


def test_a_buffer_that_is_not_updated_is_wrong() -> None:
    assert judge(AVERAGE, "Average", "eager").verdict.outcome == "equal"
    judged = judge(AVERAGE, "Average", without_writes)
    assert judged.verdict.outcome == "wrong"
    assert judged.operation == "lerp_"
    assert judged.stack[-1].line == 7


WRITTEN = """
import torch
def f(x):
    y = x * 2
    x.fill_(1.0)
    return y
x = torch.ones(8)
torch.compile(f, backend="eager")(x)
"""


def test_inputs_that_a_call_writes_to_get_other_values_too() -> None:
    def late(graph: Graph, _: Sequence[Any]) -> Callable[..., Any]:
        """Read the input after writing to it."""

        def run(x: torch.Tensor) -> Any:
            graph.forward(x)
            return graph.forward(x)

        return run

    assert judge(WRITTEN, "f", "eager").verdict.outcome == "equal"
    assert judge(WRITTEN, "f", late).verdict.outcome == "wrong"


def test_a_result_that_is_overwritten_later_is_blamed_on_the_later_operation() -> None:
    def compile_graph(graph: Graph) -> Callable[..., Any]:
        class Overwriting(torch.fx.Interpreter):
            def run_node(self, n: torch.fx.Node) -> Any:
                result = super().run_node(n)
                if operation_name(n) == "zero_":
                    for value in self.env.values():
                        value.zero_()
                return result

        return Overwriting(graph).run

    def overwritten(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        x.zero_()
        return y.cos() + 1

    search = WrongOperationSearch(0, ProcessorBudget(60.0), compile_graph)
    torch._dynamo.reset()
    with use_real_backends():
        torch.compile(overwritten, backend=search.backend)(torch.randn(4))
    assert search.found is not None
    assert operation_name(search.found) == "zero_"


def test_a_graph_that_is_captured_wrongly_is_not_blamed_on_the_backend() -> None:
    text = """
import torch
def f(x):  # fullgraph: x=f32[8]
    if torch.compiler.is_compiling():
        return x * 1.01
    return x
"""
    judged = judge(text, "f", "eager")
    assert judged.verdict.outcome == "wrong"
    assert judged.is_captured_wrong
    wrong = judge(text.replace("1.01", "1"), "f", compile_with_change(lambda y: y + 1))
    assert wrong.verdict.outcome == "wrong"
    assert not wrong.is_captured_wrong


def test_other_shapes_are_wrong_even_if_eager_calls_differ() -> None:
    text = """
import torch
calls = [0]
def f(x):  # fullgraph: x=f32[8]
    return x + torch.rand(8, generator=torch.Generator().manual_seed(count()))
@torch.compiler.disable
def count():
    calls[0] += 1
    return calls[0]
"""
    assert judge(text, "f", "eager").verdict.outcome == "unknown"
    judged = judge(text, "f", compile_with_change(lambda y: y[:4]))
    assert judged.verdict.outcome == "wrong"
    assert "other shapes or dtypes" in judged.verdict.reason


WRONG_LOWERING = """
import torch
import torch._inductor.lowering as lowering
lowering.lowerings[torch.ops.aten.sin.default] = lowering.lowerings[torch.ops.aten.cos.default]
def f(x):  # fullgraph: x=f32[8, 8]
    h = x.relu() + 1
    h = h.sin()
    return h.sum(-1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("line", ["h = h.sin()", "h = h.exp()"])
def test_results_of_inductor_are_judged(comparer: Comparer, line: str) -> None:
    text = WRONG_LOWERING.replace("h = h.sin()", line)
    asked = Analyze(7, "1", "/nowhere/model.py", text, mode="real", parts=("numerics",))
    events = list(comparer.answers(replace(asked, limits=Limits(seconds=300.0))))
    (judged,) = (one.verdict for one in events if isinstance(one, NumericsJudged))
    findings = [one.finding for one in events if isinstance(one, FindingFound)]
    if "exp" in line:
        assert judged.outcome in ("equal", "rounding")
        assert findings == []
    else:
        assert judged.outcome == "wrong"
        (finding,) = findings
        assert finding.code == "numerics/wrong-result"
        assert text.split("\n")[finding.range.start.line].strip() == line
        assert "`sin`" in finding.message
