"""Planning and building probes on executed modules, under fake and real tensors."""

from __future__ import annotations

import contextlib
import dataclasses
import fractions
import gc
import random
import signal
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from fullgraph_engine import tracing
from fullgraph_engine.placeholder import Placeholder
from fullgraph_engine.protocol import UncalledTarget
from fullgraph_engine.protocol.recorded import RecordedCall, RecordedClass
from fullgraph_engine.targets import (
    Call,
    NoProbe,
    NotCalled,
    Probe,
    ProbeError,
    Target,
    Tracee,
    describe_inputs,
    discover,
    enclosing,
    is_confirmed,
    notation,
    parse_probe,
    plan_probes,
    rng,
    searched,
    unwrap_compiled,
)
from fullgraph_engine.targets.probes import call_of
from fullgraph_engine.targets.synthesis import InputSearch, NotFound

HEAD = "import torch\nfrom torch import nn\n"
NET = HEAD + (
    "class Net(nn.Module):\n"
    "    def __init__(self, d):\n"
    "        super().__init__()\n"
    "        self.d = d\n"
    "    def forward(self, x, mask=None): return x\n"
)


@contextlib.contextmanager
def mode(fake: bool) -> Iterator[None]:
    with FakeTensorMode(allow_non_fake_inputs=True) if fake else contextlib.nullcontext():
        yield


class Loaded:
    """A text, its targets and the module that it makes."""

    def __init__(self, text: str, **names: Any) -> None:
        self.targets = {target.name: target for target in discover(text).targets}
        module = types.ModuleType("probed")
        module.__dict__.update(names, __file__="probed.py")
        sys.modules["probed"] = module  # dataclasses look their module up
        self.namespace = module.__dict__
        exec(compile(text, "probed.py", "exec"), self.namespace)

    def target(self, name: str = "") -> Target:
        return self.targets[name] if name else next(iter(self.targets.values()))

    def plan(self, name: str = "") -> list[Probe]:
        return plan_probes(self.target(name), self.namespace)

    def build(self, name: str = "", *, fake: bool = False) -> Call:
        with mode(fake):
            return self.plan(name)[0].build(self.namespace)


def model(call: Call) -> Any:
    """The module that a call is of, with the attributes that its text gives it."""
    assert isinstance(call.function, torch.nn.Module)
    return call.function


@pytest.mark.parametrize("fake", [False, True])
def test_a_comment_makes_the_module_and_its_inputs(fake: bool) -> None:
    loaded = Loaded(NET.replace("class", "# fullgraph: init(d=3) f32[b=2, t, 3], i64[b]\nclass"))
    call = loaded.build(fake=fake)
    assert isinstance(call.function, loaded.namespace["Net"])
    assert model(call).d == 3
    assert call.init == "d=3"
    assert call.inputs == "f32[b=2, t=4, 3], i64[b=2]"
    assert isinstance(call.args[0], FakeTensor) is fake
    assert [(one.path, one.dim, one.symbol) for one in call.dynamic] == [
        ("args[0]", 0, "b"),
        ("args[0]", 1, "t"),
        ("args[1]", 0, "b"),
    ]
    assert call.dynamic[0].tensor is call.args[0]


STACK = HEAD + (
    "class Stack(nn.Module):\n"
    "    def __init__(self, depth, width=4):\n"
    "        super().__init__()\n"
    "        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))\n"
    "    def forward(self, x):\n"
    "        for layer in self.layers:\n"
    "            x = layer(x)\n"
    "        return x\n"
    "class User(nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.stack = Stack(1)\n"
    "    def forward(self, x): return self.stack(x)\n"
)


def test_what_a_comment_constructs_is_called_with_what_is_found() -> None:
    searched.known.clear()
    loaded = Loaded(STACK.replace("class Stack", "# fullgraph: init(3, width=5)\nclass Stack"))
    targets = list(loaded.targets.values())
    (probe,) = plan_probes(loaded.target(), loaded.namespace, targets)
    with mode(True):
        call = probe.build(loaded.namespace)
    assert (len(model(call).layers), call.init, call.source) == (3, "3, width=5", "synthesis")
    assert call.args[0].shape[-1] == 5
    assert call.comment == f"init(3, width=5) forward({call.inputs})"
    # What was found for other arguments is of no use.
    searched.known["Stack"] = "init(3, width=4) forward(f32[4])"
    with mode(True):
        assert probe.build(loaded.namespace).args[0].shape[-1] == 5
    searched.known.clear()


@pytest.mark.parametrize(
    ("said", "built", "fits"),
    [
        ("init(3, width=5) f32[b=2, 4]", True, "init(3, width=5) forward(f32[2, 5])"),
        ("init(3, width=5) f32[b=2, 4]", False, "init(3, width=5) forward(f32[2, 5])"),
        ("init(3, width='5') f32[2, 4]", True, ""),
        ("init(3) parameters(f32[2])", True, ""),
    ],
)
def test_what_fits_in_place_of_a_comment_is_much_like_it(said: str, built: bool, fits: str) -> None:
    loaded = Loaded(STACK)
    with mode(True):
        target, said_probe = loaded.target(), parse_probe(said)
        found = searched.find_replacement(target, said_probe, loaded.namespace, built)
    assert found == fits


def test_a_constructor_that_raises_gets_other_arguments() -> None:
    check = "        assert width % depth == 0\n"
    loaded = Loaded(STACK.replace("        super", check + "        super", 1))
    said = parse_probe("init(3, width=4) f32[2, 4]")
    with mode(True):
        found = searched.find_replacement(loaded.target(), said, loaded.namespace, built=False)
    assert found != notation.show_notation(said)
    with mode(True):
        call = call_of(loaded.target(), parse_probe(found), loaded.namespace)
        call.function(*call.args)


def test_what_a_comment_cannot_construct_is_said_of_the_comment() -> None:
    loaded = Loaded(STACK.replace("class Stack", "# fullgraph: init(n)\nclass Stack"))
    (probe,) = loaded.plan()
    assert probe.info.source == "line 3"
    with pytest.raises(ProbeError, match="names n, which is neither"):
        loaded.build()


def test_several_comments_are_several_probes() -> None:
    comments = "# fullgraph: init(1) f32[1]\n# fullgraph: init(2) f32[2]\nclass"
    probes = Loaded(NET.replace("class", comments)).plan()
    assert [(probe.info.inputs, probe.info.init, probe.info.source) for probe in probes] == [
        ("f32[1]", "1", "line 3"),
        ("f32[2]", "2", "line 4"),
    ]
    assert {probe.info.origin for probe in probes} == {"comment"}


@pytest.mark.parametrize("fake", [False, True])
@pytest.mark.parametrize(
    "dtype",
    ["f32", "bf16", "f16", "f64", "i64", "i8", "u8", "u16", "b8", "c64", "f8e4m3fn", "f8e8m0fnu"],
)
def test_every_usual_dtype_can_be_made(dtype: str, fake: bool) -> None:
    call = Loaded(f"# fullgraph: {dtype}[3, 2]\ndef f(x): return x\n").build(fake=fake)
    assert call.inputs == f"{dtype}[3, 2]"


def test_integers_are_in_range_of_anything() -> None:
    call = Loaded("# fullgraph: i64[1000]\ndef f(x): return x\n").build()
    assert call.args[0].unique().tolist() == [0, 1]


def test_strides_and_nesting() -> None:
    text = "# fullgraph: f32[2, 3][1, 2], [f32[b], (i64[2],)], {'k': f32[2*b]}, n=b\n"
    call = Loaded(text + "def f(x, y, z, n): return x\n").build()
    assert call.args[0].stride() == (1, 2)
    assert call.args[1][1][0].dtype == torch.int64
    assert call.kwargs == {"n": 4}
    assert [(one.path, one.symbol) for one in call.dynamic] == [
        ("args[1][0]", "b"),
        ("args[2]['k']", "2*b"),
    ]
    assert call.inputs == "f32[2, 3], [f32[b=4], (i64[2],)], {'k': f32[2*b]}, n=4"


@pytest.mark.skipif(torch.cuda.is_available(), reason="shows what happens without CUDA")
def test_a_device_that_is_not_there() -> None:
    loaded = Loaded("# fullgraph: f32[2]@cuda, i64[2]@cuda:0\ndef f(x, y): return x\n")
    call = loaded.build(fake=True)
    assert call.args[0].device.type == "cuda"
    assert call.inputs == "f32[2]@cuda:0, i64[2]@cuda:0"
    with pytest.raises(ProbeError, match="without it; set `mode` to `fake`"):
        loaded.build(fake=False)


def test_names_of_the_file_are_arguments() -> None:
    text = HEAD + (
        "from dataclasses import dataclass\n"
        "@dataclass\nclass Config:\n    d: int = 4\n"
        "SIZE = 7\n"
        "# fullgraph: init(Config(d=SIZE), torch.nn.GELU) f32[2]\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, config, act):\n"
        "        super().__init__()\n        self.config = config\n        self.act = act\n"
        "    def forward(self, x): return x\n"
    )
    call = Loaded(text).build()
    assert model(call).config.d == 7
    assert model(call).act is torch.nn.GELU


def test_another_method_than_forward() -> None:
    text = NET + "    def generate(self, x): return self.d\n"
    text = text.replace("class", "# fullgraph: init(5) generate(i64[2])\nclass")
    call = Loaded(text).build()
    assert call.function(*call.args) == 5


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("f32[2]", "cannot be constructed: missing a required argument: 'd'"),
        ("init(1, 2) f32[2]", "constructed: too many positional arguments; it takes (d)."),
        ("init(1) forward()", "does not fit the signature of Net.forward: missing"),
        (
            "init(1) forward(f32[2], msk=f32[2])",
            "unexpected keyword argument 'msk'; it takes (x, mask=None).",
        ),
        ("init(1) sample(f32[2])", "calls sample(…), but Net has no such method"),
        ("init(1) f32[2], n", "names n, which is neither"),
        ("init(1) f32[2], 2*n", "no tensor of the probe has a dimension n"),
        ("init(torch.nothing) f32[2]", "torch has no nothing"),
        ("init(1) f32[b=2, b-3]", "b-3 of the probe is -1"),
    ],
)
def test_a_probe_that_does_not_fit_says_so_in_words(comment: str, words: str) -> None:
    loaded = Loaded(NET.replace("class", f"# fullgraph: {comment}\nclass"))
    with pytest.raises(ProbeError) as caught:
        loaded.build()
    assert words in str(caught.value)


def test_errors_of_user_code_are_its_own() -> None:
    text = NET.replace("self.d = d", "raise KeyError('mine')")
    with pytest.raises(KeyError, match="mine"):
        Loaded(text.replace("class", "# fullgraph: init(1) f32[2]\nclass")).build()


def test_annotations() -> None:
    text = "def f(x: 'f32[b, 16]', n=3, *, m: 'b8[b]', o: 'f32[b]' = None): return x\n"
    (probe,) = Loaded(text).plan()
    assert probe.info.origin == "annotation"
    call = probe.build(Loaded(text).namespace)
    assert call.inputs == "f32[b=4, 16], m=b8[b=4]"


def test_a_graph_as_torch_prints_it() -> None:
    text = "def f(s7: 'Sym(s7)', x: 'f32[s7, 16][16, 1]cpu', y: 'b' = None): return x\n"
    call = Loaded(text).build()
    assert call.inputs == "4, f32[s7=4, 16]"
    assert call.args[0] == len(call.args[1]) == 4


def test_annotations_complete_a_comment() -> None:
    text = "# fullgraph: y=i64[b]\ndef f(x: 'f32[b, 16]', y): return x\n"
    assert Loaded(text).build().inputs == "f32[b=4, 16], y=i64[b=4]"


def test_an_annotated_module_needs_its_constructor() -> None:
    text = NET.replace("x, mask", "x: 'f32[b, 4]', mask")
    (probe,) = Loaded(text).plan()
    assert probe.info.origin == "synthesis"
    loaded = Loaded(text.replace("class", "# fullgraph: init(4)\nclass"))
    call = loaded.build()
    assert (call.inputs, call.init) == ("f32[b=8, 4]", "4")


@pytest.mark.parametrize(
    ("init", "inputs", "d", "shown"),
    [
        ("[3]", "[torch.ones(2)]", 3, "f32[2]"),
        ("[[], {'d': 3}]", "[torch.ones(2)]", 3, "f32[2]"),
        ("[[3], {}]", "[torch.ones(2)]", 3, "f32[2]"),
        ("{'d': 3}", "[torch.ones(2)]", 3, "f32[2]"),
        ("[3]", "{'x': torch.ones(2)}", 3, "x=f32[2]"),
        ("[3]", "torch.ones(2)", 3, "f32[2]"),
        ("[3]", "(torch.ones(2), torch.ones(3))", 3, "f32[2], f32[3]"),
        ("[3]", "[torch.ones(1)] * 5", 3, "[f32[1], f32[1], f32[1], f32[1], f32[1]]"),
        ("[3]", "[torch.ones(2), {'mask': torch.ones(3)}]", 3, "f32[2], {'mask': f32[3]}"),
    ],
)
def test_get_inputs(init: str, inputs: str, d: int, shown: str) -> None:
    text = NET + f"def get_init_inputs(): return {init}\ndef get_inputs(): return {inputs}\n"
    loaded = Loaded(text)
    call = loaded.build(fake=True)
    assert (model(call).d, call.inputs) == (d, shown)
    assert loaded.plan()[0].info.source == "get_inputs"


def test_constructor_arguments_with_keywords_are_no_two_arguments() -> None:
    text = (
        "import torch\nfrom torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, d=1, e=2):\n        super().__init__()\n        self.d = d\n"
        "    def forward(self, x): return x\n"
        "def get_init_inputs(): return [[], {'d': 3}]\n"
        "def get_inputs(): return [torch.ones(2)]\n"
    )
    assert model(Loaded(text).build()).d == 3


def test_a_comment_comes_before_annotations_and_those_before_conventions() -> None:
    text = NET.replace("x, mask", "x: 'f32[1]', mask")
    text += "def get_init_inputs(): return [3]\ndef get_inputs(): return [torch.ones(2)]\n"
    assert Loaded(text).plan()[0].info.origin == "annotation"
    text = text.replace("class", "# fullgraph: f32[5]\nclass")
    call = Loaded(text).build()
    assert (call.inputs, model(call).d) == ("f32[5]", 3)


@pytest.mark.parametrize(
    ("example", "shown"),
    [
        ("torch.ones(2)", "f32[2]"),
        ("(torch.ones(2), torch.ones(3))", "f32[2], f32[3]"),
        ("{'x': torch.ones(2)}", "x=f32[2]"),
        ("{'image': torch.ones(2)}", "{'image': f32[2]}"),
    ],
)
@pytest.mark.parametrize("function", [True, False])
def test_build_and_example(example: str, shown: str, function: bool) -> None:
    text = NET + "def build(): return Net(9)\n"
    text += (
        f"def example_input(): return {example}\n" if function else f"example_input = {example}\n"
    )
    call = Loaded(text).build("build()")
    assert (model(call).d, call.inputs) == (9, shown)


@pytest.mark.parametrize("drawn", ["torch.rand(1)", "random.random()", "numpy.random.rand()"])
def test_every_call_of_a_target_has_the_same_random_numbers(drawn: str) -> None:
    text = f"{NET}def build(): return Net({drawn})\ndef example_input(): return torch.ones(1)\n"
    loaded = Loaded(text, torch=torch, random=random, numpy=numpy)
    target = loaded.target("build()")
    tracee = Tracee(target, loaded.plan("build()")[0], loaded.namespace, "probed.py", text)
    assert model(tracee.call()).d == model(tracee.call()).d


def test_the_request_limits_the_search_for_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "class Net(torch.nn.Module):\n    def forward(self, x): return x\n"
    loaded = Loaded(text, torch=torch)
    spent: list[float] = []

    def fail(search: object, seconds: float, before: object) -> NotFound:
        spent.append(seconds)
        return NotFound("forward raised", 1, 0.0)

    def find(seconds: float | None, *, tentative: bool = False) -> None:
        probe = loaded.plan("Net")[0]
        tracee = Tracee(
            loaded.target("Net"),
            probe,
            loaded.namespace,
            "probed.py",
            text,
            tentative=tentative,
            search_seconds=seconds,
        )
        with pytest.raises(NoProbe):
            tracee.call()

    monkeypatch.setattr(InputSearch, "run", fail)
    monkeypatch.setattr(searched, "unfound", {})
    monkeypatch.setattr(searched, "seconds", None)
    monkeypatch.setattr(searched, "tentative", False)
    find(2.0)
    find(2.0)  # would fail again
    find(5.0)
    find(None)
    find(0.5, tentative=True)
    find(5.0, tentative=True)
    assert spent == [2.0, 5.0, searched.SECONDS, 0.5, searched.TENTATIVE]


def test_what_is_built_must_be_callable() -> None:
    text = "def build(): return 3\ndef example_input(): return 1\n"
    with pytest.raises(ProbeError, match="returned int, which cannot be called"):
        Loaded(text).build()


def test_get_module() -> None:
    text = NET + (
        "class Model:\n"
        "    def __init__(self, test, device, batch_size=None): self.device = device\n"
        "    def get_module(self): return Net(2), (torch.ones(2),)\n"
    )
    call = Loaded(text).build("Model")
    assert (model(call).d, call.inputs) == (2, "f32[2]")


@pytest.mark.parametrize(
    "body",
    [
        "        self.example_input_array = torch.ones(2)\n",
        "    example_input_array = torch.ones(2)\n",
        "    @property\n    def dummy_inputs(self): return {'x': torch.ones(2)}\n",
    ],
)
def test_inputs_that_the_instance_carries(body: str) -> None:
    init = (
        ""
        if "        self" not in body
        else "    def __init__(self):\n        super().__init__()\n"
    )
    text = HEAD + "class Net(nn.Module):\n" + init + body
    text += "    def forward(self, x): return x\n"
    assert Loaded(text).build().inputs.removeprefix("x=") == "f32[2]"


CONFIGURED = HEAD + (
    "class Configuration:\n"
    "    def __init__(self, num_layers=100): self.num_layers = num_layers\n"
    "class Net(nn.Module):\n"
    "    def __init__(self, config: Configuration):\n"
    "        super().__init__()\n"
    "        self.layers = nn.ModuleList(nn.Linear(9, 9) for _ in range(config.num_layers))\n"
    "        if config.num_layers == 2: raise ValueError('at least 3')\n"
    "    dummy_inputs = [torch.ones(9)]\n"
    "    def forward(self, x): return x\n"
)


def test_a_large_model_is_constructed_only_with_fake_tensors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer = 4 * (9 * 9 + 9)
    monkeypatch.setattr(tracing, "REAL_BYTES", 100 * layer)
    assert len(model(Loaded(CONFIGURED).build()).layers) == 100
    monkeypatch.setattr(tracing, "REAL_BYTES", 100 * layer - 1)
    assert len(model(Loaded(CONFIGURED).build(fake=True)).layers) == 100
    with pytest.raises(ProbeError, match="too many for a run with real tensors"):
        Loaded(CONFIGURED).build()


SITES = [
    ("torch.compile(f)(torch.ones(2), y=1)", "f32[2], y=1"),
    ("g = torch.compile(f)\ng(torch.ones(2))", "f32[2]"),
    ("g = torch.compile(f)\ng(*[torch.ones(2)], **{'y': 2})", "f32[2], y=2"),
    ("torch.jit.trace(f, torch.ones(2))", "f32[2]"),
    ("torch.jit.trace(func=f, example_inputs=(torch.ones(2),))", "f32[2]"),
    ("torch.export.export(f, (torch.ones(2),), {'y': 3})", "f32[2], y=3"),
    ("torch.export.export(f, args=(torch.ones(2),))", "f32[2]"),
    ("torch.onnx.export(f, torch.ones(2), 'x.onnx')", "f32[2]"),
    ("torch.onnx.export(f, (torch.ones(2), {'y': 3}), 'x.onnx')", "f32[2], y=3"),
    ("summary(f, (2, 3))", "f32[2, 3]"),
    (
        "summary(f, input_size=[(2, 3), (4,)], dtypes=[torch.long, torch.float])",
        "i64[2, 3], f32[4]",
    ),
    ("summary(f, input_data=[torch.ones(2)])", "f32[2]"),
]


@pytest.mark.parametrize(("site", "shown"), SITES)
def test_call_sites(site: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = types.ModuleType("torchinfo")
    fake.summary = lambda *args, **kwargs: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchinfo", fake)
    for owner, name in ((torch.onnx, "export"), (torch.export, "export"), (torch.jit, "trace")):
        monkeypatch.setattr(owner, name, lambda *args, **kwargs: None)
    monkeypatch.setattr(torch, "compile", lambda function: function)
    text = f"import torch\nfrom torchinfo import summary\ndef f(x, y=0): return x\n{site}\n"
    loaded = Loaded(text)
    call = loaded.build("f")
    assert call.function is loaded.namespace["f"]
    assert call.inputs == shown
    assert loaded.plan("f")[0].info.source == f"line {text.count(chr(10))}"


def test_dynamic_shapes_of_an_export(monkeypatch: pytest.MonkeyPatch) -> None:
    dim = torch.export.Dim("batch")
    monkeypatch.setattr(torch.export, "export", lambda *args, **kwargs: None)
    text = HEAD + (
        "class Net(nn.Module):\n    def forward(self, x): return x\n"
        "torch.export.export(Net(), (torch.ones(2, 3),), dynamic_shapes={'x': {0: DIM, 1: None}})\n"
    )
    call = Loaded(text, DIM=dim).build()
    assert [(one.dim, one.symbol) for one in call.dynamic] == [(0, "batch")]


def test_a_compiled_thing_is_unwrapped() -> None:
    text = HEAD + (
        "# fullgraph: f32[2]\n@torch.compile\ndef f(x): return x\n"
        "net = torch.compile(nn.Linear(2, 2))  # fullgraph: f32[2]\n"
    )
    loaded = Loaded(text)
    assert loaded.build("f").function.__code__.co_filename == "probed.py"
    assert isinstance(loaded.build("net").function, torch.nn.Linear)
    assert unwrap_compiled(len) is len


def test_what_is_no_module_after_all_is_not_confirmed() -> None:
    text = (
        "import torch\nclass Odd(Base):\n    def forward(self, x): return x\n"
        "if FLAG:\n    class Net(torch.nn.Module):\n        def forward(self, x): return 1\n"
        "else:\n    class Net(torch.nn.Module):\n        def forward(self, x): return 2\n"
    )
    loaded = Loaded(text, Base=object, FLAG=True)
    discovery = discover(text)
    assert [is_confirmed(target, loaded.namespace) for target in discovery.targets] == [
        False,
        True,
        False,
    ]


def test_a_missing_name_is_confirmed_and_fails_in_words() -> None:
    text = "# fullgraph: f32[2]\ndef f(x): return x\ndel f\n"
    loaded = Loaded(text)
    assert is_confirmed(loaded.target(), loaded.namespace)
    with pytest.raises(ProbeError, match="f does not exist after the file has run"):
        loaded.build()


def test_describe() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    text = describe_inputs(
        (torch.ones(2, 3), loop, torch.nn.Linear(1, 1), "x" * 99, range(3), torch.float32),
        {"many": list(range(20)), "meta": torch.ones(1, device="meta")},
    )
    assert text == (
        "f32[2, 3], [1, …], Linear, '" + "x" * 39 + "…', range(…), torch.float32, "
        "many=[0, 1, 2, 3, 4, 5, …], meta=f32[1]@meta"
    )


def test_of_a_dataclass_what_is_not_its_default_is_described() -> None:
    fields = [(f"f{number}", int, dataclasses.field(default=number)) for number in range(9)]
    made = dataclasses.make_dataclass("Config", [("name", str), *fields])
    shown = describe_inputs((made("a"), made("b", f3=8)), {})
    assert shown == "Config(name='a'), Config(name='b', f3=8)"
    assert describe_inputs((made("a", *range(1, 10)),), {}) == (
        "Config(name='a', f0=1, f1=2, f2=3, f3=4, f4=5, …)"
    )


def test_a_name_that_is_not_available_is_described_by_itself() -> None:
    batch = Placeholder("batch", 3, "no such file")
    assert describe_inputs((batch, [batch]), {"mask": None}) == "batch, [batch], mask=None"


# -- recorded programs ------------------------------------------------------------------------

PARTS = HEAD + (
    "class Part(nn.Module):\n"
    "    def __init__(self, d, act=None):\n"
    "        super().__init__()\n"
    "        self.linear, self.act = nn.Linear(d, d), act\n"
    "    def forward(self, x): return self.linear(x)\n"
    "class Net(nn.Module):\n"
    "    def __init__(self, d):\n"
    "        super().__init__()\n"
    "        self.part = Part(d)\n"
    "    def forward(self, x): return self.part(x)\n"
)


def recorded_probes(text: str, name: str, *recorded: RecordedClass) -> tuple[Loaded, list[Probe]]:
    loaded = Loaded(text)
    targets = tuple(loaded.targets.values())
    return loaded, plan_probes(loaded.target(name), loaded.namespace, targets, recorded)


def part(*calls: RecordedCall, init: str = "(d, act=…)") -> RecordedClass:
    return RecordedClass("Part", init, "(x)", calls)


def test_what_a_program_did_is_a_probe() -> None:
    calls = (
        RecordedCall("3, act=torch.nn.modules.activation.GELU()", "bf16[b=2, 3]", False, "bf16"),
        RecordedCall("3, act=fractions.Fraction(1, 2)", "f32[2, 3]"),
    )
    loaded, (first, second) = recorded_probes(PARTS, "Part", part(*calls))
    assert first.info.origin == "harvest"
    assert first.info.source == "recorded in fullgraph.probes.json"
    call = first.build(loaded.namespace)
    assert model(call).linear.weight.dtype is torch.bfloat16 and not model(call).training
    assert isinstance(model(call).act, torch.nn.GELU)
    assert call.inputs == "bf16[b=2, 3]"
    call = second.build(loaded.namespace)
    assert model(call).act == fractions.Fraction(1, 2) and model(call).training


def test_a_comment_comes_before_a_recording_and_this_before_an_enclosing_run() -> None:
    recorded = part(RecordedCall("3", "f32[2, 3]"))
    commented = PARTS.replace("class Part", "# fullgraph: init(3) f32[5, 3]\nclass Part")
    _, (probe,) = recorded_probes(commented, "Part", recorded)
    assert probe.info.origin == "comment"
    enclosed = PARTS.replace("class Net", "# fullgraph: init(3) f32[5, 3]\nclass Net")
    _, (probe,) = recorded_probes(enclosed, "Part", recorded)
    assert probe.info.source == "recorded in fullgraph.probes.json"
    _, probes = recorded_probes(enclosed, "Part")
    assert [(probe.info.source, probe.waits) for probe in probes] == [
        ("as called by Net", False),
        ("as called by Net", True),
        ("as called by Net", True),
    ]


def test_the_recorded_model_gives_probes_to_what_it_calls() -> None:
    net = RecordedClass("Net", "(d)", "(x)", (RecordedCall("3", "f32[2, 3]"),))
    loaded, probes = recorded_probes(PARTS, "Part", net)
    call = probes[0].build(loaded.namespace)
    assert (call.inputs, call.init) == ("f32[2, 3]", "3")
    assert call.source == "as called by Net.forward, line 12"
    assert probes[0].count_further(loaded.namespace) == 0


def test_what_was_recorded_of_other_parameters_is_not_used() -> None:
    stale = part(RecordedCall("3", "f32[2, 3]"), init="(dim)")
    loaded, (probe,) = recorded_probes(PARTS, "Part", stale)
    with pytest.raises(NoProbe, match="had other parameters"):
        probe.build(loaded.namespace)
    net = RecordedClass("Net", "(d)", "(x)", (RecordedCall("3", "f32[2, 3]"),))
    _, probes = recorded_probes(PARTS, "Part", stale, net)
    assert probes[0].info.source == "as called by Net"


def test_a_recording_that_somebody_has_broken_is_named() -> None:
    loaded, (probe,) = recorded_probes(PARTS, "Part", part(RecordedCall("3", "f32[2, ")))
    with pytest.raises(ProbeError, match=r"The entry of Part in .* cannot be read"):
        probe.build(loaded.namespace)


# -- enclosing runs ---------------------------------------------------------------------------


def enclosed(body: str, **names: Any) -> tuple[Loaded, list[Probe]]:
    """The probes of ``Part``, which ``Net`` may call in its ``forward``."""
    net = PARTS.replace("class Net", "# fullgraph: init(3) f32[5, 3]\nclass Net")
    loaded = Loaded(net.replace("return self.part(x)", body), **names)
    targets = tuple(loaded.targets.values())
    return loaded, plan_probes(loaded.target("Part"), loaded.namespace, targets)


def test_calls_of_other_ranks_and_flags_are_further_probes() -> None:
    loaded, probes = enclosed(
        "return [self.part(y) for y in (x, x[:4], x[None], x[0], x[None, None])]"
    )
    assert len(probes) == 3
    assert probes[0].count_further(loaded.namespace) == 2
    calls = [probe.build(loaded.namespace) for probe in probes]
    assert [call.inputs for call in calls] == ["f32[5, 3]", "f32[1, 5, 3]", "f32[3]"]
    assert {call.source for call in calls} == {"as called by Net.forward, line 13"}


@pytest.mark.parametrize(
    ("returned", "same_as"),
    [("Net()", "build()"), ("nn.Sequential(Net())", "")],
)
def test_the_call_of_another_target_is_told_as_that(returned: str, same_as: str) -> None:
    text = HEAD + (
        "class Net(nn.Module):\n"
        "    def forward(self, x): return x\n"
        f"def build(): return {returned}\n"
        "def example_input(): return torch.ones(2)\n"
    )
    loaded = Loaded(text)
    targets = tuple(loaded.targets.values())
    call = plan_probes(loaded.target("Net"), loaded.namespace, targets)[0].build(loaded.namespace)
    assert (call.inputs, call.same_as) == ("f32[2]", same_as)


def test_what_a_search_tries_is_no_call_of_a_part() -> None:
    """Its large parameters have no values."""
    text = HEAD + (
        "class Part(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(128, 128)\n"
        "    def forward(self, x): return self.layer(x)\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.part = Part()\n"
        "    def forward(self, x): return self.part(x)\n"
    )
    loaded = Loaded(text)
    searched.known.clear()
    user, part = (
        plan_probes(loaded.target(name), loaded.namespace, tuple(loaded.targets.values()))[0]
        for name in ("Net", "Part")
    )
    user.build(loaded.namespace)
    call = part.build(loaded.namespace)
    assert call.source == "as called by Net.forward, line 12"
    spread = float(model(call).layer.weight.detach().std())
    assert 0.04 < spread < 0.06  # uniform, of one over the square root of the width


def test_inputs_are_as_they_were_at_the_call() -> None:
    loaded, probes = enclosed("y = x.zero_(); z = self.part(y); y.add_(1); return z")
    call = probes[0].build(loaded.namespace)
    assert call.args[0].eq(0).all()
    # Nothing of the watch is left on the class.
    assert loaded.namespace["Part"].forward.__code__.co_filename == "probed.py"


@pytest.mark.parametrize("fake", [False, True])
def test_a_snapshot_is_as_a_run_for_its_call_alone_would_be(
    fake: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enclosing, "_here", None)
    monkeypatch.setattr(enclosing, "_used", False)
    monkeypatch.setattr(gc, "collect", lambda: pytest.fail("nothing is kept"))
    loaded, probes = enclosed("y = x + torch.rand(3); bool(y.sum() > 0); return self.part(y)")
    part, namespace = loaded.target("Part"), loaded.namespace

    def build() -> tuple[Call, Any, Any]:
        with tracing.tensor_mode(fake) as here:
            if here is not None:
                here.restart()
            rng.seed_generators()
            call = probes[0].build(namespace)
        return call, rng.generator_states(), here.oracle if here is not None else None

    alone, numbers, oracle = build()
    stays = iter([False, True])
    calls = probes[0].enclosing()
    assert enclosing.leave_snapshots([part], calls, namespace, lambda: False, fake=fake) == ()
    taken = enclosing.leave_snapshots(
        [part, part], [*calls, *calls], namespace, lambda: next(stays), fake=fake
    )
    assert taken == (), "there is no call of another signature"
    taken = enclosing.leave_snapshots([part], calls, namespace, lambda: True, fake=fake)
    assert isinstance(taken, enclosing.EnclosingSnapshot) and taken.number == 0
    torch.rand(5)
    call, now, answers = build()
    assert call is taken.call
    assert (call.inputs, call.source) == (alone.inputs, alone.source)
    assert torch.equal(now.torch, numbers.torch) and now.python == numbers.python
    if not fake:
        assert torch.equal(call.args[0], alone.args[0])
    else:
        assert answers.choice_count == oracle.choice_count == 1
        assert answers.bool_choices == oracle.bool_choices == (0,)
        assert torch.equal(answers.generator_state, oracle.generator_state)
    assert probes[0].count_further(namespace) == 0
    again, _, _ = build()
    assert again is not call, "tracing has changed what it is of"


@pytest.mark.parametrize("fake", [False, True])
def test_callers_that_call_no_target_are_executed_once(
    fake: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enclosing, "_uncalled", {})
    monkeypatch.setattr(searched, "can_be_searched", lambda *_: False)
    executed: list[None] = []
    loaded, probes = enclosed("executed.append(None); raise KeyError('no')", executed=executed)
    part = loaded.target("Part")
    other = dataclasses.replace(part, name="Other", subject="Other")
    loaded.namespace["Other"] = type("Other", (torch.nn.Module,), {})
    uncalled = enclosing.leave_snapshots(
        [part, other],
        probes[0].enclosing(),
        loaded.namespace,
        lambda: pytest.fail("no target is called"),
        fake=fake,
    )
    reason = "Net raised before it called {}: KeyError: 'no'"
    assert uncalled == (
        UncalledTarget("Part", reason.format("Part"), may_use_real=True),
        UncalledTarget("Other", reason.format("Other"), may_use_real=True),
    )
    assert len(executed) == 1
    enclosing.remember_uncalled(uncalled[0])
    with pytest.raises(NotCalled, match=reason.format("Part")) as raised:
        probes[0].build(loaded.namespace)
    assert raised.value.may_use_real
    assert probes[0].count_further(loaded.namespace) == 0
    assert len(executed) == 1


def test_an_enclosing_run_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullgraph_engine.targets.probes.ENCLOSING_SECONDS", 0.1)
    monkeypatch.setattr(searched, "can_be_searched", lambda *_: False)
    waits = "threading.Event().wait(600); return self.part(x)"
    loaded, probes = enclosed(waits, threading=threading)
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(NotCalled, match=r"Net ran for 0\.1 seconds, and did not call Part\."):
        probes[0].build(loaded.namespace)
    assert signal.getsignal(signal.SIGALRM) is before


def test_an_enclosing_run_that_raises_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched, "can_be_searched", lambda *_: False)
    loaded, probes = enclosed("raise KeyError('no')")
    words = "Net raised before it called Part: KeyError: 'no'"
    with pytest.raises(NotCalled, match=words) as raised:
        probes[0].build(loaded.namespace)
    assert raised.value.may_use_real
    assert probes[0].count_further(loaded.namespace) == 0


METHODS = HEAD + (
    "class Net(nn.Module):\n"
    "    def __init__(self, dim):\n"
    "        super().__init__()\n"
    "        self.linear = nn.Linear(dim, dim)\n"
    "    def forward(self, x): return x\n"
    "    # fullgraph: init(8) f32[4, 8] under(eval)\n"
    "    def encode(self, x): return self.linear(x)\n"
    "    def generate(self, x): return self.linear(x)\n"
    "    def other(self, x): return x\n"
    "class Plain:\n"
    "    def generate(self, x): return x\n"
)


def test_methods_are_targets_where_they_are_asked_for() -> None:
    assert [target.name for target in discover(METHODS).targets] == ["Net"]
    loaded = Loaded(METHODS)
    loaded.targets = {
        target.name: target for target in discover(METHODS, methods=("encode", "generate")).targets
    }
    assert list(loaded.targets) == ["Net", "Net.encode", "Net.generate"]
    encode = loaded.build("Net.encode")
    function: Any = encode.function
    assert function.__name__ == "encode" and encode.inputs == "f32[4, 8]"
    assert encode.context.training is False and not function.__self__.training
    found = loaded.build("Net.generate")
    assert found.function.__name__ == "generate" and found.comment.startswith("init(dim=")
    assert " generate(" in found.comment


def test_a_class_that_is_no_module_is_called_as_its_comment_says() -> None:
    text = "class Step:\n    # fullgraph: f32[2] then f32[3]\n    def run(self, x): return x\n"
    loaded = Loaded(text)
    assert is_confirmed(loaded.target(), loaded.namespace)
    call = loaded.build()
    first: Any = call.function
    second: Any = call.then[0].function
    assert call.inputs == "f32[2] then f32[3]"
    assert first.__name__ == second.__name__ == "run" and first.__self__ is second.__self__
