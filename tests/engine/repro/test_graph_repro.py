"""Graphs that a backend fails on, or gives wrong results for, become small scripts."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fullgraph_engine import targets, tracing  # noqa: E402
from fullgraph_engine.host.process_backends.trials import TrialPool  # noqa: E402
from fullgraph_engine.protocol import Position, Range, Reproduced, ReproFound, Wanted  # noqa: E402
from fullgraph_engine.repro import graphs, settings  # noqa: E402
from fullgraph_engine.repro.candidate import Backend, Candidates  # noqa: E402
from fullgraph_engine.repro.extract import candidates  # noqa: E402
from fullgraph_engine.repro.graphs import capture, comparison, emit, minifier  # noqa: E402
from fullgraph_engine.repro.graphs.minimize import prepare_process  # noqa: E402
from fullgraph_engine.repro.job import MinimizationJob, Surroundings  # noqa: E402
from fullgraph_engine.repro.verify.check import ScriptCheck, assemble_check  # noqa: E402
from fullgraph_engine.repro.verify.finding_signature import FindingSignature  # noqa: E402
from fullgraph_engine.torch_internals import backends  # noqa: E402

NET = """
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(8)
            self.weight = nn.Parameter(torch.randn(8, 8))
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            h = nn.functional.gelu(torch.mm(self.norm(x), self.weight))
            return x + torch.relu(self.linear(h)).tanh()

    class Net(nn.Module):  # fullgraph: x=f32[4, 8]
        def __init__(self):
            super().__init__()
            self.blocks = nn.Sequential(Block(), Block())
            self.head = nn.Linear(8, 4)

        def forward(self, x):
            y = self.head(self.blocks(x))
            return y.log_softmax(-1), y.argmax(-1)
"""

RAISES = """
    @torch._dynamo.register_backend
    def raises(gm, inputs):
        for node in gm.graph.nodes:
            if node.target is nn.functional.gelu and node.args[0].target is torch.mm:
                raise NotImplementedError("this product cannot be fused with what follows it")
        return gm.forward
"""

AOT = """
    from torch._dynamo.backends.common import aot_autograd
    from functorch.compile import make_boxed_func

    def without_mistake(gm, inputs):
        return make_boxed_func(gm.forward)
"""

# Off by 1e-5: less than a tolerance of 1e-4, as tests of compilers have it, would notice.
FORWARD = f"""{AOT}
    def scales(gm, inputs):
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.tanh.default):
            with gm.graph.inserting_after(node):
                new = gm.graph.call_function(torch.ops.aten.mul.Tensor, (node, 1.00001))
            node.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)
        gm.recompile()
        return make_boxed_func(gm.forward)

    @torch._dynamo.register_backend
    def forward_is_wrong(gm, inputs):
        return aot_autograd(fw_compiler=scales, bw_compiler=without_mistake)(gm, inputs)
"""

BACKWARD = f"""{AOT}
    def forgets(gm, inputs):
        target = torch.ops.aten.tanh_backward.default
        for node in gm.graph.find_nodes(op="call_function", target=target):
            node.replace_all_uses_with(node.args[0])
        gm.recompile()
        return make_boxed_func(gm.forward)

    @torch._dynamo.register_backend
    def backward_is_wrong(gm, inputs):
        return aot_autograd(fw_compiler=without_mistake, bw_compiler=forgets)(gm, inputs)
"""


# As kernels for integers do: only large weights show it.
SATURATES = f"""{AOT}
    def saturates(gm, inputs):
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default):
            with gm.graph.inserting_after(node):
                new = gm.graph.call_function(torch.ops.aten.clamp.default, (node, -1e3, 1e3))
            node.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)
        gm.recompile()
        return make_boxed_func(gm.forward)

    @torch._dynamo.register_backend
    def products_saturate(gm, inputs):
        return aot_autograd(fw_compiler=saturates, bw_compiler=without_mistake)(gm, inputs)
"""


def extracted(
    text: str, folder: Path, backend: str, *, accuracy: bool = False
) -> candidates.ExtractionOutcome:
    """As in the run of the user's code: in a process of its own."""
    path = folder / "net.py"
    path.write_text(text)
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)

    def extract() -> candidates.ExtractionOutcome:
        tempfile.tempdir = str(scratch)
        module = types.ModuleType("net")
        module.__file__ = str(path)
        sys.modules["net"] = module
        exec(compile(text, str(path), "exec"), module.__dict__)
        found = {target.name: target for target in targets.discover(text, str(path)).targets}
        probe = targets.plan_probes(found["Net"], module.__dict__)[0]
        nowhere = Range(Position(0, 0), Position(0, 0))
        wanted = Wanted("", nowhere, "Net", backend=backend, accuracy=accuracy)
        namespace = module.__dict__
        tracee = targets.Tracee(found["Net"], probe, namespace, str(path), text, "real")
        return candidates.extract_candidates(tracee, wanted, float("inf"))

    come, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            made = extract()
            with os.fdopen(go, "w") as out:
                json.dump([made.packed, made.reason], out)
            status = 0
        finally:
            os._exit(status)
    os.close(go)
    with os.fdopen(come) as answer:
        packed, reason = json.load(answer)
    os.waitpid(pid, 0)
    return candidates.ExtractionOutcome(packed, reason)


def reproduced(packed: str, folder: Path) -> tuple[ReproFound | None, Reproduced]:
    scratch = folder / "scratch"
    said: list[Any] = []
    torch.set_num_threads(1)
    around = Surroundings(
        lambda work, seconds, until: TrialPool(
            work, until, capacity=2, seconds=seconds, memory=4096
        ),
        lambda _: None,
        str(scratch),
        lambda _: True,
    )
    # It alters the settings of its process, which is one of its own in the host.
    come, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            tempfile.tempdir = str(scratch)
            os.chdir(scratch)
            job = MinimizationJob(1, packed, time.monotonic(), 300.0)
            graphs.GraphMinimizer(Candidates.from_json(packed), job, around, said.append).run()
            found = [each for each in said if isinstance(each, ReproFound)]
            last = found[-1] if found else None
            with os.fdopen(go, "wb") as out:
                pickle.dump((last, said[-1]), out)
        finally:
            os._exit(0)
    os.close(go)
    with os.fdopen(come, "rb") as answer:
        result: tuple[ReproFound | None, Reproduced] = pickle.load(answer)
    os.waitpid(pid, 0)
    return result


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    tracing.warm_up()
    settings.remember_settings()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "backend", "accuracy", "left"),
    [
        (RAISES, "raises", False, {"mm", "gelu"}),
        (FORWARD, "forward_is_wrong", True, {"tanh"}),
        (BACKWARD, "backward_is_wrong", True, {"tanh"}),
    ],
)
def test_what_was_planted_is_all_that_is_left(
    planted: str, backend: str, accuracy: bool, left: set[str], tmp_path: Path
) -> None:
    text = dedent(NET) + dedent(planted)
    packed = extracted(text, tmp_path, backend, accuracy=accuracy).packed
    found, last = reproduced(packed, tmp_path)
    assert last.verified, last.reason
    assert found is not None
    act = found.script.rpartition("\ntry:")[2]
    body = found.script.partition("def f(")[2].partition("\n\n")[0] + act
    operations = {
        name
        for name in ("mm", "gelu", "tanh", "relu", "layer_norm", "linear", "log_softmax", "argmax")
        if f"{name}(" in body
    }
    assert operations == left
    assert ("requires_grad=True" in act) == (planted is BACKWARD)


@pytest.mark.slow
def test_weights_are_kept_that_alone_show_it(tmp_path: Path) -> None:
    net = dedent(NET).replace("torch.randn(8, 8)", "1e4 * torch.randn(8, 8)")
    packed = extracted(net + dedent(SATURATES), tmp_path, "products_saturate", accuracy=True).packed
    found, last = reproduced(packed, tmp_path)
    assert last.verified and found is not None, last.reason
    # One of them is enough, and so little is written into the script.
    assert found.data == ()
    (weight,) = re.findall(r"torch\.tensor\(\[+(\S+?)\]+\)", found.script.rpartition("try:")[2])
    assert abs(float(weight)) > 1e3


def test_a_backend_without_a_mistake_gives_no_script(tmp_path: Path) -> None:
    for accuracy in (False, True):
        folder = tmp_path / str(accuracy)
        folder.mkdir()
        packed = extracted(dedent(NET), folder, "aot_eager", accuracy=accuracy).packed
        found, last = reproduced(packed, folder)
        assert found is None
        assert "write them in a probe comment" in last.reason


def test_a_backend_that_is_not_there_is_said(tmp_path: Path) -> None:
    reason = extracted(dedent(NET), tmp_path, "induktor").reason
    assert "torch has no backend `induktor`" in reason
    assert "inductor" in reason


def test_where_nothing_is_forked_a_backend_says_so(tmp_path: Path) -> None:
    said: list[Any] = []
    around = Surroundings(
        lambda work, seconds, until: pytest.fail("nothing is tried"),
        lambda _: None,
        str(tmp_path),
        forks=False,
    )
    backend = Backend("inductor", '"inductor"', accuracy=False)
    check = ScriptCheck("a failure", "found")
    candidates = Candidates(
        (), FindingSignature("code", "kind", (), "", ""), check, (), "", "", "", backend=backend
    )
    job = MinimizationJob(1, "", time.monotonic(), 30.0)
    graphs.GraphMinimizer(candidates, job, around, said.append).run()
    assert not said[-1].verified
    assert '`engine.processes` to "fork"' in said[-1].reason


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as opened:
        yield opened


def test_why_inductor_cannot_be_run_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stack: contextlib.ExitStack
) -> None:
    import torch._functorch.config
    import torch._inductor.config as inductor

    monkeypatch.setattr(os, "environ", dict(os.environ))
    # `monkeypatch.setattr` would delete the settings at its end, because they are not attributes.
    stack.enter_context(inductor.patch({"compile_threads": 1, "fx_graph_cache": False}))
    stack.enter_context(torch._functorch.config.patch(enable_autograd_cache=False))
    for folder in backends.HEADER_FOLDERS:
        (spelling,) = folder.spellings
        monkeypatch.setattr(spelling.find_owner(), spelling.path, spelling.get())
    backend = Backend("inductor", '"inductor"', accuracy=False)
    around = Surroundings(
        lambda work, seconds, until: TrialPool(
            work, until, capacity=1, seconds=seconds, memory=4096
        ),
        lambda _: None,
        str(tmp_path / "scratch"),
        lambda _: False,
    )
    (tmp_path / "scratch").mkdir()
    assert "use the backend `aot_eager`" in prepare_process(backend, around)
    stack.enter_context(inductor.patch({"cpp.cxx": ("no-such-compiler",)}))
    around.let_start = lambda _: True
    assert "install g++" in prepare_process(backend, around)


class Recorded:
    """Runs a function, and keeps the programs of its graphs."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.texts: list[str] = []

    def told(self, graph: Any, inputs: tuple[Any, ...]) -> None:
        self.texts.append(emit.write_candidate(graph, inputs, self.backend).text)


EAGER = Backend("eager", '"eager"', accuracy=False)


def test_graphs_are_written_with_what_they_need() -> None:
    constant = torch.tensor([1.0, 2.0])

    def function(x: Any, scale: float) -> Any:
        y = (x * scale).masked_fill(x > 3, float("-inf"))
        z = torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (y,))
        return z + torch.tensor([1.0, 2.0]).to(torch.float64), torch._C._nn.gelu(x), constant

    recorded = Recorded(EAGER)
    capture.capture_graphs(function, (torch.ones(2), 3.5), {}, recorded.told)
    (text,) = recorded.texts
    assert "torch.nn.functional.gelu" in text
    assert " = None" not in text
    exec(text, {"__name__": "written"})


def test_dynamic_sizes_stay_dynamic() -> None:
    recorded = Recorded(EAGER)
    x = torch.ones(4, 2)
    torch._dynamo.mark_dynamic(x, 0)
    capture.capture_graphs(lambda x: x.reshape(-1, x.shape[0]) + 1, (x,), {}, recorded.told)
    (text,) = recorded.texts
    assert "dynamic=True" in text
    exec(text, {"__name__": "written"})


def test_torchs_minifier_proposes_programs() -> None:
    text = dedent(
        """
        import torch

        def f(x, y):
            a = torch.sin(x)
            b = torch.relu(a + y)
            c = torch.cos(b)
            return c.sum()

        torch.compile(f, backend="eager")(torch.randn(3), torch.randn(3))
        """
    )
    tried: list[str] = []

    def shows(smaller: str) -> bool:
        tried.append(smaller)
        return "torch.relu" in smaller

    minifier.propose_smaller_graphs(text, EAGER, shows)
    best = next(each for each in reversed(tried) if shows(each))
    body = best.partition("def f(")[2].partition("\n\n")[0]
    assert body.count("torch.") == 1


def compared(program: str, backend: str = '"eager"', **options: bool) -> str:
    """What the check of a program prints."""
    given = {"only_floating": False, "is_random": False, **options}
    check = comparison.comparison_check(Backend("b", backend, True), (), (), **given)
    printed: list[str] = []
    namespace = {"__name__": "written", "print": lambda *words, sep: printed.extend(words)}
    with tracing.drive.use_real_backends(), pytest.raises(SystemExit) as leaving:
        exec(assemble_check(dedent(program), check), namespace)
    return "\n".join(map(str, printed[1:])) if leaving.value.code else ""


OFF = """
    import torch

    def off(graph, inputs):
        return lambda *inputs: [x * FACTOR if x.is_floating_point() else x + 1
                                for x in graph.forward(*inputs)]

    def f(x):
        return CALL

    compare(f, torch.linspace(0.1, 2, 50, dtype=torch.DTYPE))
"""


@pytest.mark.parametrize(
    ("factor", "call", "dtype", "is_wrong"),
    [
        ("1.00001", "x.exp()", "float32", True),
        ("(1 + 1e-7)", "x.exp()", "float32", False),
        ("1.00001", "x.exp()", "float64", True),
        ("1.001", "x.exp()", "float16", False),
        ("1.05", "x.exp()", "float16", True),
        ("float('nan')", "x.exp()", "float32", True),
        ("1.0", "x.log() / 0", "float32", False),
        ("1.0", "x.argmax()", "float32", True),
        ("1.00001", "x.float() @ x.float()", "float16", True),
    ],
)
def test_wrong_is_what_rounding_does_not_explain(
    factor: str, call: str, dtype: str, is_wrong: bool
) -> None:
    text = OFF.replace("FACTOR", factor).replace("CALL", call).replace("DTYPE", dtype)
    assert bool(compared(text, "off")) == is_wrong


def test_results_that_are_no_floats_can_be_left_out() -> None:
    text = OFF.replace("FACTOR", "1.0").replace("CALL", "x.argmax()").replace("DTYPE", "float32")
    assert compared(text, "off")
    assert not compared(text, "off", only_floating=True)


def test_gradness_leafness_and_shared_storage_are_kept() -> None:
    assert not compared(
        """
        import torch

        def f(x, y, z, n):
            assert x.requires_grad and x.is_leaf and not y.is_leaf and not z.requires_grad
            z[0] = 5
            return x * y + n, z.max(0)

        base = torch.randn(4, 3)
        compare(f, torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True).clone(),
                base, 2)
        """
    )
