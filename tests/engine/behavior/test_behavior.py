"""Whether a changed text behaves as the original: planted rewrites, right and wrong ones."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from tests.engine.behaving import Comparer
from tests.engine.behavior_pairs import REFUSED, RIGHT, Pair

from fullgraph_engine.protocol import Analyze, Compared, Limits, Measured, Observe

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(600)]

SECONDS = 3.0


@pytest.fixture(scope="module")
def comparer() -> Iterator[Comparer]:
    host = Comparer()
    yield host
    host.close()


QUICK = ("in place after the branch", "NaN gradients of the untaken side", "where for if")
"""Those that are tried each time; all of them take two minutes."""


def pairs(several: list[Pair]) -> list[ParameterSet]:
    return [
        pytest.param(pair, id=pair.name, marks=() if pair.name in QUICK else (pytest.mark.slow,))
        for pair in several
    ]


@pytest.mark.parametrize("pair", pairs(REFUSED))
def test_a_wrong_rewrite_is_refused(comparer: Comparer, pair: Pair) -> None:
    compared = comparer.compare(pair.original, pair.changed, pair.target, seconds=SECONDS)
    assert (compared.outcome, comparer.log) == (pair.outcome, ""), compared
    assert {pair.aspect} - {""} <= set(compared.aspects), compared
    assert compared.reason.endswith(".")


@pytest.mark.parametrize("pair", pairs(RIGHT))
def test_a_right_rewrite_is_the_same(comparer: Comparer, pair: Pair) -> None:
    compared = comparer.compare(pair.original, pair.changed, pair.target, seconds=SECONDS)
    assert (compared.outcome, comparer.log) == ("same", ""), compared
    assert compared.exact == (pair.outcome == "exact"), compared
    assert compared.reason == ""
    assert len(compared.cases) >= 8


def test_inputs_are_made_at_random_where_that_is_asked_for(comparer: Comparer) -> None:
    text = "import torch\ndef f(x):  # fullgraph: x=f32[4]\n    return x * 2\n"
    compared = comparer.compare(text, text.replace("x * 2", "x + x"), "f", at_random=5)
    assert (compared.outcome, len(compared.cases)) == ("same", 6)
    assert {case.values for case in compared.cases} == {"given", "random"}


def test_what_raises_in_place_of_a_result_differs_in_nothing_else(comparer: Comparer) -> None:
    text = "import torch\ndef f(x):  # fullgraph: x=f32[4]\n    return x * 2\n"
    changed = text.replace("x * 2", "x.view(4) * 2")
    compared = comparer.compare(text, changed, "f", seconds=SECONDS)
    assert (compared.outcome, compared.aspects) == ("differs", ("outcome",))
    assert {case.aspects for case in compared.cases} == {(), ("outcome",)}


def test_inputs_with_which_a_loop_does_not_end_are_left_out(comparer: Comparer) -> None:
    text = """
import torch
def f(x):  # fullgraph: x=f32[4]
    while True:
        x = x / 2
        if x.abs().max() < 1:
            break
    return x
"""
    compared = comparer.compare(text, text.replace("x / 2", "x * 0.5"), "f", seconds=SECONDS)
    assert compared.outcome == "same", compared
    assert "nan" not in {case.values for case in compared.cases}


LARGE = """
import torch
def f(x, y):  # fullgraph: x=f32[3, 512, 512], y=f32[512, 512, 3]
    for _ in range(600):
        x = x.sin()
    return (x + 1).sum(0) + y.sum(2)
"""


def test_inputs_that_take_long_are_made_smaller_for_all_cases_but_the_first(
    comparer: Comparer,
) -> None:
    compared = comparer.compare(LARGE, LARGE.replace("x + 1", "1 + x"), "f", seconds=10.0)
    assert (compared.outcome, comparer.log) == ("same", ""), compared
    first, *rest = [case.inputs for case in compared.cases]
    assert first == "x=f32[3, 512, 512], y=f32[512, 512, 3]"
    # Together, or they do not fit.
    assert "x=f32[3, 32, 32], y=f32[32, 32, 3]" in rest
    assert len(rest) >= 4 and not any("512" in one for one in rest)


def test_a_difference_at_the_sizes_of_the_probe_only(comparer: Comparer) -> None:
    changed = LARGE.replace("x + 1", "x + (1 if x.shape[1] < 100 else 2)")
    compared = comparer.compare(LARGE, changed, "f", seconds=10.0)
    assert compared.outcome == "differs", compared


def test_sizes_that_decide_what_is_done_stay(comparer: Comparer) -> None:
    text = LARGE.replace("    return", "    if x.shape[1] > 40:\n        x = x * 3\n    return")
    compared = comparer.compare(text, text.replace("x * 3", "x + x + x"), "f", seconds=10.0)
    inputs = {case.inputs for case in compared.cases if case.values == "given"}
    assert not any("[3, 32, 32]" in one for one in inputs), compared


ONE_SIDED = """
import torch
def f(x):  # fullgraph: x=f32[4, 3]
    return x.sin() - 1
"""


PRODUCT = """
import torch
def f(x):  # fullgraph: x=f32[4, 4]
    return x @ x
"""


def compile_changed(
    comparer: Comparer, original: str, changed: str, target: str = "f", **options: Any
) -> Compared:
    """Compare two texts in eager mode, and then the changed one with its compiled self."""
    limits = Limits(seconds=300.0)
    eager = comparer.compare(original, changed, target, limits=limits)
    assert eager.outcome == "same", eager
    cases = eager.packed_cases
    return comparer.compare(
        original, changed, target, cases=cases, seconds=60.0, limits=limits, **options
    )


DOUBLED_WHEN_COMPILED = "x @ x @ x if torch.compiler.is_compiling() else x @ x"
LONGEST = """
import torch
torch._dynamo.config.capture_scalar_outputs = {captured}
def f(x, n):  # fullgraph: x=f32[6, 4], n=i64[3]
    longest = int(n.max().clamp(0, 5))
    {check}
    return x.sin()[:longest] * 2
"""
BREAKS = LONGEST.format(captured=False, check="torch._check(longest <= 6)")
UNBOUNDED = LONGEST.format(captured=True, check="torch._check(longest <= 6)")
BOUNDED = LONGEST.format(
    captured=True, check="torch._check(longest <= 6); torch._check(longest >= 0)"
)


# Inductor turns products into calls of torch, and sines into C++, which takes long to compile.
@pytest.mark.parametrize("method", ["lowered", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("text", "body", "outcome"),
    [
        pytest.param(ONE_SIDED, "-(1 - x.sin())", "same", id="same"),
        pytest.param(PRODUCT, DOUBLED_WHEN_COMPILED, "differs", id="differs"),
    ],
)
def test_compiled_code_must_agree_with_eager_calls(
    comparer: Comparer, text: str, body: str, outcome: str, method: str
) -> None:
    head, _, _ = text.rpartition("return ")
    changed = f"{head}return {body}\n"
    compared = compile_changed(comparer, text, changed, compiled_by=method)
    assert compared.outcome == outcome, compared
    assert ("the compiled code returns results that differ" in compared.reason) == (
        outcome == "differs"
    )


LOSS = """
import torch
def f(x, y):  # fullgraph: x=f32[4, 3], y=f32[4, 3]
    return torch.nn.functional.mse_loss(x, y)
"""


@pytest.mark.parametrize(
    ("loss", "outcome"),
    [
        # torch fails to compile the gradient for an empty batch.
        pytest.param("-(-{})", "same", id="any sizes"),
        pytest.param(
            "{} * (2 if torch.compiler.is_compiling() and len(x) == 5 else 1)", "differs", id="one"
        ),
    ],
)
def test_the_compiled_code_is_called_with_other_sizes_than_0(
    comparer: Comparer, loss: str, outcome: str
) -> None:
    head, _, value = LOSS.rstrip().rpartition("return ")
    changed = f"{head}return {loss.format(value)}\n"
    compared = compile_changed(comparer, LOSS, changed, compiled_by="lowered")
    assert compared.outcome == outcome, compared


CHOSEN = """
import torch
torch._dynamo.config.capture_dynamic_output_shape_ops = True
def f(x, mask):  # fullgraph: x=f32[8], mask=b8[8]
    chosen = x[mask]
    if chosen.numel() == 0:
        chosen = x[:2] * 2
    return chosen.sum()
"""


@pytest.mark.parametrize(("none", "outcome"), [("x[:2] * 0", "same"), ("x[:2] * 2", "differs")])
def test_the_compiled_code_is_called_with_other_values(
    comparer: Comparer, none: str, outcome: str
) -> None:
    """Compiled code ignores the condition, which is true only for a mask without true elements."""
    original = CHOSEN.replace("x[:2] * 2", none)
    guarded = "torch.fx.experimental.symbolic_shapes.guard_or_false(chosen.numel() == 0)"
    changed = original.replace("chosen.numel() == 0", guarded).replace(
        "import torch\n", "import torch, torch.fx.experimental.symbolic_shapes\n"
    )
    compared = compile_changed(comparer, original, changed, compiled_by="lowered")
    assert compared.outcome == outcome, compared


def test_a_compiler_error_speaks_against_the_changed_code_only(comparer: Comparer) -> None:
    compared = compile_changed(comparer, BREAKS, UNBOUNDED, compiled_by="lowered")
    assert compared.outcome == "differs", compared
    assert "forward and backward, the compiled code raises" in compared.reason
    assert "data-dependent" in compared.reason
    compared = compile_changed(comparer, BREAKS, BOUNDED, compiled_by="lowered")
    assert compared.outcome == "same", compared
    # The original fails as well, so the change is not the cause.
    compared = compile_changed(comparer, UNBOUNDED, f"{UNBOUNDED}# \n", compiled_by="lowered")
    assert compared.outcome == "unverified", compared
    assert "Whether the original compiles could not be determined" in compared.reason


IN_TRAINING = """
import torch
class Noisy(torch.nn.Module):  # fullgraph: x=f32[4, 8]
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
    def forward(self, x):
        y = self.linear(x)
        {change}
        return y
"""


def test_modules_are_compiled_for_training(comparer: Comparer) -> None:
    original = IN_TRAINING.format(change="y = y.relu()")
    wrong = "y = y.relu() if not (self.training and torch.compiler.is_compiling()) else y"
    changed = IN_TRAINING.format(change=wrong)
    compared = compile_changed(comparer, original, changed, "Noisy", compiled_by="lowered")
    assert compared.outcome == "differs", compared
    assert "forward and backward" in compared.reason


@pytest.mark.slow
def test_targets_are_timed_in_eager_mode_and_compiled(comparer: Comparer) -> None:
    text = "import torch\ndef f(x):  # fullgraph: x=f32[64, 64]\n    return x @ x @ x\n"
    asked = Analyze(7, "1", "/nowhere/model.py", text, mode="real", parts=("measure",))
    asked = replace(asked, limits=Limits(seconds=300.0))
    # Preparing the compiler leaves the precompiled headers for all processes of the engine.
    (scratch,) = Path(tempfile.gettempdir()).glob(f"fullgraph-engine-{comparer.pid}-*")
    prepare = replace(asked, request=6, parts=("prepare",), observe=Observe(300.0, ()))
    assert not any(isinstance(one, Measured) for one in comparer.answers(prepare))
    assert list(scratch.glob("inductor/precompiled_headers/*.gch"))
    (measured,) = (one for one in comparer.answers(asked) if isinstance(one, Measured))
    found = measured.measurement
    assert (measured.target, found.device, found.reason, found.graphs) == ("f", "cpu", "", 1)
    assert found.eager is not None
    assert found.compiled is not None
    assert found.compiling is not None
    assert found.compiling > found.compiled > 0
    assert found.eager > 0
    assert found.costliest == "aten.mm"
    assert 0.3 < found.share <= 1


TWO_CALLS = """
import torch
class Loss(torch.nn.Module):
    '''
    >>> Loss()(torch.rand(4), torch.rand(4))
    >>> Loss("other")(torch.rand(4), torch.rand(4))
    '''
    def __init__(self, kind="usual"):
        super().__init__()
        self.kind = kind
    def forward(self, x, y):
        if self.kind == "usual":
            return (x - y).abs().mean()
        return self.other(x, y)
    def other(self, x, y):
        return (x - y).square().mean()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("last", "probes"), [(0, {0}), (1, {0, 1})])
def test_a_target_is_timed_with_its_later_probes(
    comparer: Comparer, last: int, probes: set[int]
) -> None:
    asked = Analyze(8 + last, "1", "/nowhere/model.py", TWO_CALLS, mode="real", parts=("measure",))
    order = Observe(300.0, (), last_probe=last)
    asked = replace(asked, limits=Limits(seconds=300.0), observe=order)
    measured = [one for one in comparer.answers(asked) if isinstance(one, Measured)]
    assert {one.run.probe for one in measured} == probes


def test_a_target_is_called_as_its_later_probes_say(comparer: Comparer) -> None:
    """Which of them are needed is known of the original's trace."""
    changed = TWO_CALLS.replace("square()", "abs()")
    first = comparer.compare(TWO_CALLS, changed, "Loss", seconds=SECONDS)
    assert first.outcome == "unverified" and "not executed" in first.reason, first
    both = comparer.compare(TWO_CALLS, changed, "Loss", seconds=SECONDS, last_probe=1)
    assert both.outcome == "differs", both


LOGGED = """
import logging
import torch
logger = logging.getLogger(__name__)
class Net(torch.nn.Module):
    def forward(self, x):
        logger.info("x has shape %s", x.shape)
        return x * 2
if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    Net()(torch.randn(4, 8))
"""


def test_log_handlers_of_the_main_block_still_have_their_stream(comparer: Comparer) -> None:
    changed = LOGGED.replace("x * 2", "2 * x").replace("logger.info", "\n        logger.info")
    compared = comparer.compare(LOGGED, changed, "Net", seconds=SECONDS)
    assert (compared.outcome, comparer.log) == ("same", ""), compared


PROBABILITIES = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, n):
        if n.sum() == 0:
            return x * 2
        return x.log()
def get_inputs():
    return [torch.rand(4) / 2 + 0.1, torch.rand(2)]
"""


def test_cases_with_numbers_that_the_example_does_not_suggest_are_marked(
    comparer: Comparer,
) -> None:
    branch = PROBABILITIES[PROBABILITIES.index("        if n") : PROBABILITIES.index("def get_")]
    chosen = "        return torch.where(n.sum() == 0, x * 2, x.log())\n"
    changed = PROBABILITIES.replace(branch, chosen)
    compared = comparer.compare(PROBABILITIES, changed, "Model", seconds=SECONDS)
    # With zeros, the gradient of the logarithm is NaN.
    assert {(one.values, one.aspects) for one in compared.cases if not one.same} == {
        ("zero", ("gradient",))
    }
    outside = {one.values: one.outside for one in compared.cases if "dtype" not in one.conditions}
    assert outside["zero"] and outside["negative"] and not outside["random"]


def test_an_example_with_negative_numbers_suggests_no_range(comparer: Comparer) -> None:
    text = PROBABILITIES.replace("torch.rand(4) / 2 + 0.1, torch.rand(2)", "torch.arange(-2., 2)")
    text = text.replace("x, n", "x").replace("n.sum()", "x.sum()")
    compared = comparer.compare(text, text.replace("x * 2", "x + x"), "Model", seconds=SECONDS)
    assert len(compared.cases) > 8 and not any(one.outside for one in compared.cases)
