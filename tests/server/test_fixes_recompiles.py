"""Programs that recompile as in public reports: which change ends it, verified by running them.

``tests/fixtures/recompiles/`` has a program for each situation. The tests with ``slow`` fix all of
them; the figure that they check is printed in ``docs/fixes.md``.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.engine import markers

from fullgraph.domain.positions import text_hash
from fullgraph.engines import Engine
from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.fixing import APPLICABLE, Fixed, fixed
from fullgraph.fixes.outcomes import Fix, Refused
from fullgraph.fixes.program_verification import ProgramVerifier
from fullgraph.fixes.step_times import STEPS, StepTimes
from fullgraph.fixes.tracing import trace_file
from fullgraph_engine.protocol import Analyze, ProgramRequest

FOLDER = Path(__file__).parent.parent / "fixtures" / "recompiles"

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_spec("torch") is None, reason="there is no torch here"),
]

ONE_EDIT = {
    "annealed_temperature": "dynamic=True",
    "attended_lengths": "mark_dynamic(context, 1)",
    "automatic_dynamic_is_off": "dynamic=True",
    "backend_per_block": "_made_backend = lambda graph, inputs: graph.forward",
    "backend_per_call": "_compiled_attend = torch.compile(attend",
    "backend_per_iteration": "inspect(graph, inputs, False))\n    for _ in range(steps):",
    "block_names": "_uncompiled_value(scales, self)",
    "column_of_table": "table[:, torch.tensor([column - 1])].squeeze(1)",
    "compiled_in_loop": "dynamic=True",
    "config_per_call": "dynamic=True",
    "dynamic_is_off": "dynamic=True",
    "empty_cache_at_first": '"force_eager" if state.mean is None else "default"',
    "evaluation_between": 'set_stance("force_eager")',
    "first_view_in_cache": "self.values = values.clone()",
    "frozen_by_turns": "(compiled2 if compiled.linear.bias.requires_grad else compiled)(",
    "frozen_embedding": "hidden.detach().requires_grad_()",
    "global_step": "STEP = torch.tensor(0)",
    "growing_cache": "mark_dynamic(cache, 1)",
    "growing_skips": "compile(isolate_recompiles=True)",
    "half_precision_later": "(scale2 if x2.dtype == torch.float32 else scale)(x2)",
    "helper_compiled_per_call": "dynamic=True",
    "kept_losses": "_uncompiled_append(",
    "keyword_scale": "dynamic=True",
    "last_batch": "mark_dynamic(x, 0)",
    "last_row_alone": "mark_unbacked(rows2, 0)",
    "layer_number": 'register_buffer("number", torch.tensor(number)',
    "learning_rate_argument": "dynamic=True",
    "marked_later": "mark_dynamic(x, 0)\nprint(double(x).sum())\nprint",
    "mask_cache": "dynamic=True",
    "maximum_length": "dynamic=True",
    "metric_counter": 'register_buffer("updates", torch.tensor(0)',
    "moment_of_optimizer": '"force_eager" if not optimizer.state else "default"',
    "moving_average": 'register_buffer("count", torch.tensor(0)',
    "numbered_losses": "dict(enumerate(",
    "optimizer_schedule": "dynamic=True",
    "options_dictionary": "dynamic=True",
    "orthogonalized_parameters": "force_parameter_static_shapes = False",
    "policy_and_reference": "reference.compile(isolate_recompiles=True)",
    "position_argument": "dynamic=True",
    "prompt_and_token": "past = model2(past[:, None] + 1, past)",
    "single_item_first": "mark_unbacked(batch, 0)",
    "state_is_none_at_first": "torch.zeros_like(x) if state is None else state",
    "steps_of_solver": "y = _run_iteration(y)",
    "threshold_attribute": 'register_buffer("threshold", torch.tensor(threshold)',
    "transposed_cache": "k.contiguous()",
    "warmup_step": "model.step.fill_(step)",
}
"""Programs whose recompiles end by one verified edit, with a part of the new text."""
ISOLATED = (
    *("frozen_by_turns", "growing_skips", "half_precision_later", "policy_and_reference"),
    "prompt_and_token",
)
"""Programs whose fix needs ``isolate_recompiles``, which torch has since release 2.13."""
UNFIXED = ("number_of_features",)
"""Programs without a fix: another length of a list needs other code."""
QUICK = ("warmup_step", "transposed_cache")


@dataclass(frozen=True)
class Outcome:
    """A fixed program, and the messages of its recompiles before."""

    fixed: Fixed
    text: str

    @property
    def left(self) -> list[str]:
        """Messages of recompiles that the program had and still has."""
        mine = [one.finding for one in self.fixed.left]
        return [one.message for one in mine if one.code.startswith("recompile/")]


async def fix_program(engine: Engine, name: str, times: StepTimes | None = None) -> Outcome:
    path = FOLDER / f"{name}.py"
    text = path.read_text(encoding="utf-8")
    program = ProgramRequest(seconds=20.0)
    request = Analyze(0, text_hash(text), str(path), text, parts=("first",), program=program)
    return Outcome(await fixed(engine, request, grades=APPLICABLE, times=times), text)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    made = Engine(Path(sys.executable))
    await made.start()
    await made.ready()
    yield made
    await made.close()


def test_each_program_has_an_expectation() -> None:
    names = {path.stem for path in FOLDER.glob("*.py")}
    assert names == {*ONE_EDIT, *UNFIXED}
    assert len(ONE_EDIT) / len(names) >= 0.97


async def check_fix(engine: Engine, name: str) -> None:
    if name in ISOLATED and markers.torch_version() < (2, 13):
        pytest.skip("torch does not have isolate_recompiles")
    outcome = await fix_program(engine, name)
    edits = [fix for fix in outcome.fixed.applied if fix.findings[0].code.startswith("recompile")]
    assert len(edits) == 1
    assert ONE_EDIT[name] in outcome.fixed.text
    assert "recompile_limit" not in outcome.fixed.text
    for fix in edits:
        assert fix.grade == "unsafe"
        assert fix.doubt
        assert {one.outcome for one in fix.compared} == {"same"}
    # The number of a layer was the reason; the first layer is also compiled for another input.
    allowed = ["requires_grad"] if name == "layer_number" else []
    assert all(any(word in left for word in allowed) for left in outcome.left)


@pytest.mark.parametrize("name", QUICK)
async def test_recompiles_of_a_program_end(engine: Engine, name: str) -> None:
    await check_fix(engine, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*ONE_EDIT} - {*QUICK}))
async def test_recompiles_of_each_program_end(engine: Engine, name: str) -> None:
    await check_fix(engine, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", UNFIXED)
async def test_a_program_without_a_fix_stays_as_it_is(engine: Engine, name: str) -> None:
    outcome = await fix_program(engine, name)
    assert outcome.fixed.text == outcome.text
    assert outcome.left


async def test_the_seconds_of_each_step_are_measured(engine: Engine) -> None:
    times = StepTimes()
    await fix_program(engine, "transposed_cache", times)
    assert times.seconds["trace"] > 0
    assert times.seconds["candidates"] > 0
    assert times.seconds["retrace"] > 0
    assert times.words.split()[::4] == list(STEPS)


WRONG = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x if self.step % 2 else -x


net = torch.compile(Net())
results = [net(torch.ones(3)) for _ in range(6)]
"""


async def test_a_change_of_the_results_is_refused(engine: Engine) -> None:
    """Only eager mode would change the sign, if compiled code left out the counter."""
    program = ProgramRequest(seconds=20.0)
    request = Analyze(0, "1", "/nowhere/model.py", WRONG, parts=("first",), program=program)
    outcome = await fixed(engine, request, grades=APPLICABLE)
    assert "not torch.compiler.is_compiling()" not in outcome.text


LAYERS = """\
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x)).exp() * x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(8))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return nn.functional.layer_norm(x, (4,)) * 2


def train():
    net = torch.compile(Net())
    for _ in range(2):
        net(torch.ones(2, 4)).sum().backward()


train()
"""


async def test_compiled_layers_are_compared_with_the_compiled_model(engine: Engine) -> None:
    """No global variable of the program keeps its results."""
    program = ProgramRequest(seconds=60.0, compiler="aot")
    request = Analyze(
        0, "1", "/nowhere/m.py", LAYERS, parts=("first",), program=program, compiler="aot"
    )
    (finding,) = [
        one
        for one in (await trace_file(engine, request)).findings
        if one.code == "backend/repeated-block"
    ]
    text = LAYERS.replace(
        "    net = torch.compile(Net())\n",
        "    net = Net()\n    for layer in net.layers:\n        layer.compile()\n",
    )
    verifier = ProgramVerifier(engine, request, StepTimes())
    right = await verifier.verify(Candidate("r", "r", text, uncompiles_target=True), finding)
    assert isinstance(right, Fix)
    (compared,) = right.compared
    assert (right.grade, compared.outcome) == ("unsafe", "same")
    text = text.replace("(4,)) * 2", "(4,)) * 2.01")
    wrong = await verifier.verify(Candidate("w", "w", text, uncompiles_target=True), finding)
    assert isinstance(wrong, Refused)
    assert wrong.why == "The result 1 of Net has different values."
