"""The judgment whether compiled code computes the right numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.behaving import Comparer

from fullgraph_engine.behavior.budget import ProcessorBudget
from fullgraph_engine.behavior.compiled_calls import describe_deviation
from fullgraph_engine.behavior.numerics import WrongOperationSearch, operation_name
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
