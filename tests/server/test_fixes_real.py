"""Fixes with torch: what is offered, and what is refused."""

from __future__ import annotations

import collections
import functools
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fullgraph.engines import Engine
from fullgraph.fixes.rewrites import packed
from fullgraph.fixes.tracing import trace_file
from fullgraph.fixes.verification import Search, Verifier
from fullgraph_engine.protocol import Analyze, Finding, Part

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_engine,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_spec("torch") is None, reason="there is no torch here"),
]


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    made = Engine(Path(sys.executable))
    await made.start()
    await made.ready()
    yield made
    await made.close()


async def searched(engine: Engine, text: str, code: str, *parts: Part) -> dict[str, Search]:
    """What becomes of the candidates for findings of a code, by target."""
    request = Analyze(0, "1", "/nowhere/model.py", text, parts=parts)
    verifier = Verifier(engine, request)
    return {
        finding.target: await verifier.fixes(finding, [finding.target])
        for finding in (await trace_file(engine, request)).findings
        if finding.code == code
    }


async def first_break(engine: Engine, request: Analyze) -> Finding:
    found = (await trace_file(engine, request)).findings
    return next(one for one in found if one.code.startswith("graph-break"))


EXPORTED = """\
import torch


def few(x, mask):
    rows = x[mask]
    # too many
    if rows.shape[0] > 100:
        rows = rows[:100]
    return rows.sum()


def some(x, n):
    k = n.item()
    if k > 2:
        return x * 2
    return x


def parts(x, n):
    a, b = n.tolist()
    return x.split([a, b])[0]


torch.compile(few)(torch.rand(8, 4), torch.rand(8) > 0.3)
torch.compile(some)(torch.rand(8, 4), torch.tensor(3))
torch.compile(parts)(torch.rand(8, 4), torch.tensor([3, 5]))
"""


async def test_checks_for_export(engine: Engine) -> None:
    found = await searched(engine, EXPORTED, "export/data-dependent", "first", "export")
    (few,) = found["few"].fixes
    check = "    torch._check(rows.shape[0] <= 100)\n    # too many\n"
    assert few.candidate.text == EXPORTED.replace("    # too many\n", check)
    assert (few.grade, few.doubt) == (
        "unsafe",
        "The code raises an error if `rows.shape[0] <= 100` is false.",
    )
    # An input that was tried does not satisfy it.
    (some,) = found["some"].fixes
    assert "    torch._check(k > 2)\n    if k > 2:" in some.candidate.text
    assert some.grade == "suggestion"
    assert some.doubt.startswith("Some inputs that were tried do not satisfy the check. With ")
    # It would allow only the sizes of the probe.
    assert not found["parts"].fixes


SIZES = """\
import torch


@torch.compile
def scaled(x):
    return x * 2


def plain(x):
    return x.sin()


@torch.compile
def needed(x):
    return x * int(x.shape[0] == 4)


# fullgraph: f32[4, 8]
def steps(x):
    for number in (1, 2, 3):
        print("step")
        y = x.repeat(number, 1)
        scaled(y)
        plain(y)
        needed(x.repeat(number, 1))
    return x
"""


async def test_sizes_that_are_dynamic_from_the_first_call_on(engine: Engine) -> None:
    request = Analyze(0, "1", "/nowhere/model.py", SIZES, only=("steps",), parts=("first",))
    verifier = Verifier(engine, request)
    changed: dict[str, str] = {}
    for finding in (await trace_file(engine, request)).findings:
        if finding.code == "recompile/size":
            search = await verifier.fixes(finding, ["steps"])
            changed.update(
                {finding.message.split("`")[1]: fix.candidate.text for fix in search.fixes}
            )
            assert all(fix.grade == "unsafe" for fix in search.fixes)
    mark = "        torch._dynamo.mark_dynamic(y, 0)\n"
    first = SIZES.replace("        scaled(y)", f"{mark}        scaled(y)")
    marked = SIZES.replace(
        "        plain(y)", "        torch._dynamo.mark_dynamic(y, 0)\n        plain(y)"
    )
    # What compares the size recompiles as often with a dynamic one.
    assert changed == {"scaled": first, "plain": marked}


NATIVE = Path(__file__).parents[1] / "fixtures" / "native" / "native.c"


@pytest.fixture
def native(tmp_path: Path) -> Path:
    """A folder with a C extension."""
    compiler = shutil.which("cc")
    header = Path(sysconfig.get_paths()["include"])
    if compiler is None or not (header / "Python.h").exists():
        pytest.skip("there is no C compiler, or no header of Python")
    made = tmp_path / f"native{sysconfig.get_config_var('EXT_SUFFIX')}"
    flags = ["-shared", "-fPIC", f"-I{header}"]
    subprocess.run([compiler, *flags, str(NATIVE), "-o", str(made)], check=True)
    return tmp_path


FOREIGN = """\
import torch
import native


# fullgraph: f32[4, 8], f32[8, 3]
def rows(x, w):
    return native.rows(x, w) * 2


# fullgraph: f32[4, 8]
def changed(x):
    return native.changed(x)


# fullgraph: f32[4, 8]
def positive(x):
    return native.positive(x).sum()


# fullgraph: f32[4, 8]
def learned(x):
    return native.learned(x)
"""


async def test_operators_of_a_c_extension(engine: Engine, native: Path) -> None:
    text = FOREIGN
    request = Analyze(
        0, "1", str(native / "model.py"), text, parts=("first",), roots=(str(native),)
    )
    verifier = Verifier(engine, request)
    found = {
        finding.target: await verifier.fixes(finding, [finding.target])
        for finding in (await trace_file(engine, request)).findings
        if finding.code.startswith("graph-break")
    }
    best = found["rows"].fixes[0]
    assert (best.candidate.rewrite, best.grade) == ("custom-operator+fake-kernel", "unsafe")
    assert best.doubt == (
        "The operator has no gradient. "
        "The sizes in the fake kernel are derived from recorded calls."
    )
    assert "def _(x, w):\n    return x.new_empty((x.shape[0],))\n" in best.candidate.text
    assert "    return _rows(x.detach(), w.detach()) * 2\n" in best.candidate.text
    # It changes its input; the size depends on data; it has a gradient.
    for target, why in (
        ("changed", "test_schema failed"),
        ("positive", ""),
        ("learned", "gradient"),
    ):
        operators = [
            one for one in found[target].refused if "custom-operator" in one.candidate.rewrite
        ]
        assert [one for one in operators if why in one.why]
        assert not [one for one in found[target].fixes if "custom" in one.candidate.rewrite]


WITHOUT_FAKE = """\
import torch


@torch.library.custom_op("mine::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


# fullgraph: f32[4, 8]
def f(x):
    return doubled(x) + 1
"""


async def test_a_fake_kernel_for_an_operator_of_the_file(engine: Engine) -> None:
    code = "export/missing-fake-kernel"
    found = await searched(engine, WITHOUT_FAKE, code, "first", "export")
    best = found["f"].fixes[0]
    assert best.grade == "unsafe"
    kernel = "@doubled.register_fake\ndef _(x):\n    return torch.empty_like(x)\n"
    assert f"    return x * 2\n\n\n{kernel}" in best.candidate.text


OWN_FUNCTIONS = """\
import torch


def scaled(x, tol=0.5):
    total = 1.0
    for step in range(int(x.abs().max().nan_to_num(1.0).clamp(1, 5).item() / tol)):
        total = total * (1 + step / 50)
    return x.sin() * total


def changed(x):
    for step in range(int(x.abs().max().nan_to_num(1.0).clamp(1, 5).item())):
        x += step
    return x.sin()


torch.compile(scaled)(torch.rand(4, 8, requires_grad=True))
torch.compile(changed)(torch.rand(4, 8))
"""


async def test_an_operator_of_a_function_has_its_gradient(engine: Engine) -> None:
    request = Analyze(0, "1", "/nowhere/model.py", OWN_FUNCTIONS, parts=("first",))
    found = {
        one.target: await Verifier(engine, request).fixes(one, [one.target])
        for one in (await trace_file(engine, request)).findings
        if one.code.startswith("graph-break")
    }
    best = found["scaled"].fixes[0]
    assert best.candidate.rewrite == "operator-of-function+fake-kernel-and-gradient"
    assert best.grade == "unsafe"
    # It changes its input, which the operator says that it does not.
    assert not [one for one in found["changed"].fixes if "operator" in one.candidate.rewrite]


OWN_BLOCKS = """\
import torch


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        self.scale = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        y = self.layer(x)
        for step in range(int(x.abs().max().nan_to_num(1.0).clamp(1, 5).item())):
            y = y * self.scale + step
        return y.sin()


class Aliased(Plain):
    def forward(self, x):
        y = self.layer(x)
        z = y.view(-1)
        for step in range(int(x.abs().max().nan_to_num(1.0).clamp(1, 5).item())):
            z.mul_(2)
            y = y + step
        return y.sin() + z.sum()


torch.compile(Plain())(torch.rand(4, 8))
torch.compile(Aliased())(torch.rand(4, 8))
"""


async def test_an_operator_of_a_block_changes_nothing_that_others_see(engine: Engine) -> None:
    request = Analyze(0, "1", "/nowhere/model.py", OWN_BLOCKS, parts=("first",))
    found = {
        one.target: await Verifier(engine, request).fixes(one, [one.target])
        for one in (await trace_file(engine, request)).findings
        if one.code.startswith("graph-break")
    }
    best = found["Plain"].fixes[0]
    assert best.candidate.rewrite == "operator-of-block+fake-kernel-and-gradient"
    assert best.grade == "unsafe"
    # It changes the memory of `y` through `z`, which an operator of this kind may not.
    assert not [one for one in found["Aliased"].fixes if "operator" in one.candidate.rewrite]
    assert [one for one in found["Aliased"].refused if "operator" in one.candidate.rewrite]


NO_ELEMENTS = """\
import torch


def none(x, mask):
    if mask.any():
        y = x[mask] * 2
    else:
        y = x.new_zeros(0)
    return y


def one(x, mask):
    if mask.any():
        y = x[mask] * 2
    else:
        y = x.new_zeros(1)
    return y


torch.compile(none)(torch.rand(8), torch.rand(8) > 0.5)
torch.compile(one)(torch.rand(8), torch.rand(8) > 0.5)
"""


async def test_a_size_that_data_decide_is_no_constant(engine: Engine) -> None:
    request = Analyze(0, "1", "/nowhere/model.py", NO_ELEMENTS, parts=("first",))
    for each in (await trace_file(engine, request)).findings:
        if each.code == "graph-break/GB0170":
            found = await Verifier(engine, request).fixes(each, [each.target])
            assert not [fix for fix in found.fixes if "operator" in fix.candidate.rewrite]
            made = [one for one in found.refused if "fake-kernel" in one.candidate.rewrite]
            always = [fix.grade for fix in found.fixes if "always" in fix.candidate.rewrite]
            if each.target == "none":
                assert always == ["unsafe"]
            else:  # it gives something else than no elements
                assert made
                assert not always


SELECTED = """\
import torch


def total(x, mask):
    chosen = x[mask]
    if chosen.numel() == 0:
        chosen = x[:2] * EMPTY
    return (chosen * 2).sum()


torch.compile(total)(torch.rand(8, requires_grad=True), torch.rand(8) > 0.5)
"""


@pytest.mark.parametrize(("empty", "is_fixed"), [("0.0", True), ("1.0", False)])
async def test_a_condition_on_the_number_of_selected_elements(
    engine: Engine, empty: str, is_fixed: bool
) -> None:
    """Compiled code that ignores the condition must be right where no element is selected."""
    found = await searched(engine, SELECTED.replace("EMPTY", empty), "graph-break/GB0036", "first")
    fixes = [fix for fix in found["total"].fixes if "guard-or" in fix.candidate.rewrite]
    assert [fix.grade for fix in fixes] == (["unsafe"] if is_fixed else [])
    refused = [one.why for one in found["total"].refused if "guard-or" in one.candidate.rewrite]
    assert bool(refused) != is_fixed


ROWS = """\
import torch


# fullgraph: f32[4, 6]
def apart(x):
    out = torch.zeros_like(x)
    for i in range(x.shape[0]):
        out[i] = x[i] * x.sum()
    return out


# fullgraph: f32[4, 6]
def aliased(x):
    out = x
    for i in range(x.shape[0]):
        out[i] = x[i] * x.sum()
    return out


# fullgraph: f32[4, 6]
def carried(x):
    state = torch.zeros(6)
    for row in x:
        state = torch.tanh(state + row)
    return state


# fullgraph: f32[4, 6]
def grown(x):
    state = torch.zeros(6)
    for row in x:
        state = torch.cat([state, row])
    return state
"""


async def test_rows_at_once(engine: Engine) -> None:
    found = await searched(engine, ROWS, "guard/specialized-dimension", "first", "second")
    rewrites = {
        target: [fix.candidate.rewrite for fix in search.fixes] for target, search in found.items()
    }
    # Inductor of some releases cannot compile `scan`.
    carried = found["carried"]
    compiles = not any("the compiled code raises" in one.why for one in carried.refused)
    scanned = ["scan"] if compiles else []
    assert rewrites == {"apart": ["vmap"], "aliased": [], "carried": scanned, "grown": []}
    tried = [fix.candidate for fix in carried.fixes] + [one.candidate for one in carried.refused]
    assert "scan" in [candidate.rewrite for candidate in tried]
    assert any(one.differs for one in found["aliased"].refused)
    assert {fix.grade for search in found.values() for fix in search.fixes} == {"unsafe"}


KEPT = """\
import torch


# fullgraph: init() forward(f32[4, 6])
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.offset = None

    def forward(self, x):
        if self.offset is None:
            self.offset = {}
        return x + self.offset
"""


@pytest.mark.parametrize(
    ("made", "rewrites"),
    [
        ("torch.arange(6.0)", ["not-kept"]),
        ("torch.rand(6)", []),
        ("x.mean(0)", []),
    ],
)
async def test_what_is_kept_of_sizes_only(engine: Engine, made: str, rewrites: list[str]) -> None:
    found = await searched(engine, KEPT.format(made), "guard/mutated", "first")
    assert [fix.candidate.rewrite for fix in found["Net"].fixes] == rewrites


COUNTED = """\
import torch


# fullgraph: init() forward(f32[2, 3, 8])
class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = None
        self.seen = 0

    def forward(self, key):
        self.keys = key if self.keys is None else torch.cat([self.keys, key], dim=1)
        self.seen += key.shape[1]
        return self.keys.sum(1) / self.seen
"""


async def test_a_counter_that_gradients_need_is_not_changed_in_place(engine: Engine) -> None:
    request = Analyze(0, "1", "/nowhere/model.py", COUNTED, parts=("first",))
    verifier = Verifier(engine, request)
    findings = (await trace_file(engine, request)).findings
    (finding,) = (one for one in findings if "self.seen" in one.message)
    search = await verifier.fixes(finding, [finding.target])
    assert ["self.seen = self.seen + key" in one.candidate.text for one in search.fixes] == [True]
    assert "differ from eager mode" in search.refused[0].why


PACKED = """\
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.{layers}

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        y, state = self.rnn(packed)
        y, _ = pad_packed_sequence(y, batch_first=True{more})
        return y, state


def build():
    return Encoder()


def example_input():
    return torch.randn(3, 5, 4), torch.tensor([5, 4, 2])
"""


@pytest.mark.parametrize(
    ("layers", "more"),
    [
        ("GRU(4, 3)", ""),
        ("LSTM(4, 3, 2, bidirectional=True)", ", padding_value=-1.0, total_length=7"),
        ("RNN(4, 3, bias=False)", ""),
    ],
)
async def test_packed_sequences(engine: Engine, layers: str, more: str) -> None:
    request = Analyze(
        0, "1", "/nowhere/model.py", PACKED.format(layers=layers, more=more), parts=("first",)
    )
    first = await first_break(engine, request)
    best = (await Verifier(engine, request).fixes(first, [first.target])).fixes[0]
    assert (best.candidate.rewrite, best.grade) == ("padded-recurrence", "unsafe")


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(
    "layers",
    [
        "LSTM(4, 3)",
        "LSTM(4, 3, 2, bidirectional=True, proj_size=2, batch_first=True)",
        "LSTM(4, 3, 2, bias=False)",
        "GRU(4, 3, 2, bidirectional=True)",
        "RNN(4, 3, nonlinearity='relu', bias=False)",
    ],
)
def test_states_at_the_end_of_each_sequence(layers: str, given: bool) -> None:
    """The functions that are written into a file, in any order of lengths, with gradients."""
    import torch
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    made: dict[str, Any] = {"torch": torch, "collections": collections}
    exec(packed._HELPERS, made)
    layer = eval(f"torch.nn.{layers}").double()
    first, lengths = layer.batch_first, torch.tensor([2, 5, 3])
    x = torch.randn((3, 6, 4) if first else (6, 3, 4), dtype=torch.double, requires_grad=True)
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    h = torch.randn(count, 3, layer.proj_size or 3, dtype=torch.double)
    c = torch.randn(count, 3, 3, dtype=torch.double)
    states = None if not given else (h, c) if layer.mode == "LSTM" else h

    def seen(pack: Any, run: Any, pad: Any) -> list[torch.Tensor]:
        y, ends = run(pack(x, lengths, first, enforce_sorted=False), states)
        tensors = [pad(y, first)[0], *(ends if isinstance(ends, tuple) else (ends,))]
        total = sum((one * torch.linspace(1, 2, one.shape[-1])).sum() for one in tensors)
        return [*tensors, *torch.autograd.grad(total, [x, *layer.parameters()])]

    before = seen(pack_padded_sequence, layer, pad_packed_sequence)
    recurrent = functools.partial(made["_recurrent"], layer)
    after = seen(made["_packed"], recurrent, made["_padded"])
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other)


IN_PARTS = """\
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.LSTM(4, 3)

    def packed(self, x, lengths):
        return pack_padded_sequence(x, lengths)

    def through(self, x):
        return self.rnn(x)[0]

    def forward(self, x):
        p = self.packed(x, [5, 4, 2])
        y = self.through(p)
        {returned}


def build():
    return Encoder()


def example_input():
    return torch.randn(5, 3, 4)
"""


@pytest.mark.parametrize(
    "returned",
    [
        "return pad_packed_sequence(y)[0], self.through(x)",
        "q = pack_padded_sequence(x, [5, 4, 2])\n        z, _ = self.rnn(q)\n"
        "        return z.data * 2, q[0] + 1",
    ],
)
async def test_sequences_that_are_packed_elsewhere(engine: Engine, returned: str) -> None:
    text = IN_PARTS.format(returned=returned)
    request = Analyze(0, "1", "/nowhere/model.py", text, parts=("first",))
    first = await first_break(engine, request)
    found = await Verifier(engine, request).fixes(first, [first.target])
    assert [(one.candidate.rewrite, one.grade) for one in found.fixes[:1]] == [
        ("padded-recurrence", "unsafe")
    ], found.refused


async def test_dropout_of_packed_sequences_is_another_one(engine: Engine) -> None:
    """It draws other random numbers, as there are more elements."""
    text = PACKED.format(layers="GRU(4, 3, 2, dropout=0.5)", more="")
    request = Analyze(0, "1", "/nowhere/model.py", text, parts=("first",))
    first = await first_break(engine, request)
    found = await Verifier(engine, request).fixes(first, [first.target])
    assert not [one for one in found.fixes if one.candidate.rewrite == "padded-recurrence"]
    assert [one for one in found.refused if one.candidate.rewrite == "padded-recurrence"]


SELDOM = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(8, 4)

    def forward(self, tokens):
        x = self.embedding(tokens)
        if torch.isnan(x).any():
            {body}
        return x * 2


def build():
    return Net()


def example_input():
    return torch.randint(0, 8, (2, 3))
"""


@pytest.mark.parametrize(
    ("body", "rewrite"),
    [
        ('print("nan in x")', "eager-message"),
        ('raise ValueError("nan in x")', "assert-async"),
    ],
)
async def test_a_check_that_no_input_fails_gets_a_fix(
    engine: Engine, body: str, rewrite: str
) -> None:
    request = Analyze(0, "1", "/nowhere/model.py", SELDOM.format(body=body), parts=("first",))
    first = await first_break(engine, request)
    found = await Verifier(engine, request).fixes(first, [first.target])
    assert [(one.candidate.rewrite, one.grade) for one in found.fixes[:1]] == [(rewrite, "unsafe")]


BEGUN = """\
import torch


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("begun", torch.tensor(False))
        self.register_buffer("mean", torch.zeros(3))

    def begin(self, x):
        if self.begun:
            return
        {body}
        self.begun.fill_(True)

    def forward(self, x):
        self.begin(x)
        return x - self.mean


def build():
    return Norm()


def example_input():
    return torch.randn(4, 3)
"""


@pytest.mark.parametrize(
    ("body", "operator"),
    [
        ("self.mean.copy_(x.detach().mean(0))", True),
        # It changes `x` as well, through another name than the operator says.
        ("y = x[:]\n        y.mul_(2)\n        self.mean.copy_(y.detach().mean(0))", False),
    ],
)
async def test_an_operator_that_changes_tensors(engine: Engine, body: str, operator: bool) -> None:
    request = Analyze(0, "1", "/nowhere/model.py", BEGUN.format(body=body), parts=("first",))
    first = await first_break(engine, request)
    found = await Verifier(engine, request).fixes(first, [first.target])
    names = [one.candidate.rewrite for one in found.fixes]
    assert ("operator-of-function" in names) is operator
