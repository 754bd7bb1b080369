"""Static discovery: which things of a text are targets, where they are, what comments say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fullgraph_engine.targets import Discovery, Target, discover
from fullgraph_engine.targets.notation import show_notation, show_value

ENGINE = Path(__file__).parents[3] / "engine"


def names(text: str) -> list[str]:
    return [target.name for target in discover(text).targets]


def only(text: str) -> Target:
    (target,) = discover(text).targets
    return target


def marked(text: str, discovery: Discovery) -> list[str]:
    """The words that the findings of a text point at."""
    lines = text.encode().split(b"\n")
    return [
        lines[finding.range.start.line][finding.range.start.byte : finding.range.end.byte].decode()
        for finding in discovery.findings
    ]


MODULE = "from torch import nn\nimport torch\n"


def test_modules_are_targets_and_other_classes_are_not() -> None:
    text = MODULE + (
        "class Net(nn.Module):\n    def forward(self, x): return x\n"
        "class Child(Net):\n    pass\n"
        "class Stack(nn.Sequential):\n    pass\n"
        "class Strange(SomeBase):\n    def forward(self, x): return x\n"
        "class Op(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x): return x\n"
        "class Plain:\n    def forward(self, x): return x\n"
        "class Empty(nn.Module):\n    pass\n"
        "class Abstract(nn.Module):\n    def forward(self, x): raise NotImplementedError\n"
        "class Items(nn.ModuleList):\n    pass\n"
    )
    assert names(text) == ["Net", "Child", "Stack", "Strange"]


def test_definitions_under_conditions_count_and_the_main_block_does_not() -> None:
    net = "    class {0}(nn.Module):\n        def forward(self, x): return x\n"
    text = MODULE + (
        "if True:\n" + net.format("A") + "else:\n" + net.format("B")
        + "try:\n" + net.format("C") + "except ImportError:\n" + net.format("D")
        + "if __name__ == '__main__':\n" + net.format("E")
    )  # fmt: skip
    assert names(text) == ["A", "B", "C", "D"]


def test_ranges_are_bytes_of_the_name_and_the_whole_definition() -> None:
    text = MODULE + "@décor('ü')\nclass Nët(nn.Module):\n    def forward(self, x): return x\n"
    target = only(text)
    line = text.encode().split(b"\n")[target.range.start.line]
    assert line[target.range.start.byte : target.range.end.byte].decode() == "Nët"
    assert (target.body.start.line, target.body.end.line) == (2, 4)


@pytest.mark.parametrize(
    "text",
    [
        "# fullgraph: f32[4]\ndef f(x): return x\n",
        "# fullgraph: f32[4]\n# a remark\n@decorated\ndef f(x): return x\n",
        "@decorated\n# fullgraph: f32[4]\ndef f(x): return x\n",
        "def f(x): return x  # fullgraph: f32[4]\n",
        "def f(  # fullgraph: f32[4]\n    x,\n): return x\n",
        "def f(x):\n    # fullgraph: f32[4]\n    return x\n",
        'def f(x):\n    # fullgraph: f32[4]\n    """Doc."""\n    return x\n',
        'def f(x):\n    """Doc."""\n    # fullgraph: f32[4]\n    return x\n',
        "def f(x):\r\n    # fullgraph: f32[4]\r\n    return x\r\n",
    ],
)
def test_places_of_a_probe_comment(text: str) -> None:
    discovery = discover(text)
    assert discovery.findings == ()
    (target,) = discovery.targets
    assert [show_notation(one.notation) for one in target.written] == ["f32[4]"]


def test_a_comment_in_a_string_is_no_comment() -> None:
    assert discover('x = """\n# fullgraph: nonsense[\n"""\n').findings == ()


def test_several_comments_are_several_probes_in_order() -> None:
    text = "# fullgraph: f32[4]\n# fullgraph: f32[8]\ndef f(x): return x\n"
    assert [one.line for one in only(text).written] == [0, 1]


def test_a_comment_on_a_method_names_it() -> None:
    text = MODULE + (
        "class Net(nn.Module):\n"
        "    # fullgraph: f32[4]\n"
        "    def __init__(self): super().__init__()\n"
        "    # fullgraph: i64[4]\n"
        "    def generate(self, x): return x\n"
        "    def forward(self, x): return x  # fullgraph: init(2) forward(f32[2])\n"
    )
    assert [show_notation(one.notation) for one in only(text).written] == [
        "f32[4]",
        "generate(i64[4])",
        "init(2) forward(f32[2])",
    ]


def test_off_for_a_target() -> None:
    text = MODULE + (
        "# fullgraph: off\nclass A(nn.Module):\n    def forward(self, x): return x\n"
        "class B(nn.Module):  # fullgraph: off\n    def forward(self, x): return x\n"
        "class C(nn.Module):\n    # fullgraph: off\n    def forward(self, x): return x\n"
        "class D(nn.Module):\n    def forward(self, x): return x\n"
    )
    discovery = discover(text)
    assert [target.name for target in discovery.targets] == ["D"]
    assert discovery.findings == ()


@pytest.mark.parametrize(
    ("head", "off"),
    [
        ("#!/usr/bin/env python\n# fullgraph: off\n\nimport torch\n", True),
        ('"""Doc."""\n# fullgraph: off\nimport torch\n', True),
        ("# fullgraph: off\nimport torch\n", True),
        ("# fullgraph: off\n\n", True),
        ("import torch\n# fullgraph: off\n\n", False),
        ("# fullgraph: off\n", False),
        ('"""\n# fullgraph: off\n"""\n', False),
    ],
)
def test_off_for_a_file(head: str, off: bool) -> None:
    text = head + "def f(x: 'f32[4]'): return x\ndef g(x: 'f32[4]'): return x\n"
    assert discover(text).off is off
    if off:
        assert discover(text).targets == ()


def test_malformed_comments_are_findings_on_their_words() -> None:
    text = "x = 'é'\n# fullgraph: f32[4], f99[b]\ndef f(x): return x\ny = 2  # é fullgraph\n"
    discovery = discover(text)
    assert [finding.code for finding in discovery.findings] == ["probe/invalid"]
    assert marked(text, discovery) == ["f99"]


def test_a_comment_that_belongs_to_nothing_is_a_finding() -> None:
    text = "def f():\n    x = 1\n    # fullgraph: f32[4]\n    return x\n"
    discovery = discover(text)
    assert marked(text, discovery) == ["f32[4]"]
    assert "not above code that can be traced" in discovery.findings[0].message


def test_a_probe_of_a_coroutine_says_that_there_are_none() -> None:
    (finding,) = discover("# fullgraph: f32[4]\nasync def f(x):\n    return x\n").findings
    assert "`async def` is not traced" in finding.message


@pytest.mark.parametrize(
    "comment", ["ignore", "ignore[GB0025]", "ignore[ graph-break, recompile/value ]  # why"]
)
def test_a_comment_that_hides_findings_is_no_probe(comment: str) -> None:
    text = f"import a  # fullgraph: {comment}\ndef f(x):  # fullgraph: {comment}\n    return x\n"
    discovery = discover(f"{text}y = f(1)  # fullgraph: {comment}\n")
    assert not discovery.findings
    assert [target.written for target in discovery.targets] == []


@pytest.mark.parametrize(
    "text",
    [
        "# fullgraph: ignore\ndef f(x):\n    return x\n",
        "def f(x):\n    # fullgraph: ignore[GB0025]\n    return x\n",
        "def f(x):\n    return x  # fullgraph: ignore GB0025\n",
        "def f(x):  # fullgraph: ignore[GB0025\n    return x\n",
    ],
)
def test_a_comment_that_should_hide_findings_and_does_not(text: str) -> None:
    (finding,) = discover(text).findings
    assert "hides nothing" in finding.message


@pytest.mark.parametrize(
    ("annotation", "shape"),
    [
        ('"f32[b, 16]"', "f32[b, 16]"),
        ('"f32[b, 16] | None"', "f32[b, 16]"),
        ('Optional["f32[b]"]', "f32[b]"),
        ('tuple["f32[b]", "i64[b]"]', "(f32[b], i64[b])"),
        ('Annotated[torch.Tensor, "f32[b]"]', "f32[b]"),
        ('Float[Tensor, "b 16"]', "f32[b, 16]"),
        ('jaxtyping.Int64[torch.Tensor, "b t"]', "i64[b, t]"),
        ("\"Float[Tensor, 'b 16']\"", "f32[b, 16]"),
        ('Bool[Tensor, "*batch 3"]', "b8[batch, 3]"),
        ('Float[Tensor, "... c h=4"]', "f32[c, 4]"),
        ('Float[Tensor, ""]', "f32[]"),
        ('BFloat16[Tensor, "b 2*b"]', "bf16[b, 2*b]"),
        ("Batch", "f32[b, d]"),
    ],
)
@pytest.mark.parametrize("future", [False, True])
def test_shape_annotations(annotation: str, shape: str, future: bool) -> None:
    text = "from __future__ import annotations\n" * future + (
        f'Batch = Float[Tensor, "b d"]\ndef f(x: {annotation}): return x\n'
    )
    (parameter,) = only(text).parameters
    assert parameter.shape is not None
    assert show_value(parameter.shape) == shape


@pytest.mark.parametrize("annotation", ["Tensor", '"Tensor"', '"list[int]"', "Literal['x']"])
def test_other_annotations_say_nothing(annotation: str) -> None:
    assert names(f"def f(x: {annotation}): return x\n") == []


@pytest.mark.parametrize(
    "decorator",
    [
        "torch.compile",
        "torch.compile(fullgraph=True)",
        "compile",
        "functools.partial(torch.compile, dynamic=True)",
        "fast",
        "torch._dynamo.optimize('eager')",
    ],
)
def test_compiled_functions_are_targets(decorator: str) -> None:
    text = (
        "import functools, torch\nfrom torch import compile\n"
        f"fast = torch.compile(mode='x')\n@{decorator}\ndef f(x): return x\n"
    )
    assert names(text) == ["f"]


def test_plain_functions_are_no_targets() -> None:
    assert names("import torch\ndef f(x): return x\ndef main(): pass\nmain()\nf(1)\n") == []


def test_call_sites_belong_to_what_they_call() -> None:
    text = MODULE + (
        "class Net(nn.Module):\n    def forward(self, x): return x\n"
        "def f(x): return x\n"
        "model = Net().eval()\n"
        "compiled = torch.compile(model)\n"
        "compiled(torch.randn(2))\n"
        "torch.compile(f)(torch.randn(3))\n"
        "torch.export.export(Net(), (torch.randn(4),))\n"
        "model(torch.randn(5))\n"
        "other = load()\n"
        "torch.jit.trace(other, torch.randn(6))\n"
        "fast = torch.compile(other)\n"
    )
    found = {target.name: target for target in discover(text).targets}
    assert list(found) == ["Net", "f", "torch.jit.trace(other, torch.randn(6))", "fast"]
    assert [(site.form, site.explicit) for site in found["Net"].sites] == [
        ("call", True),
        ("export", True),
        ("call", False),
    ]
    assert found["torch.jit.trace(other, torch.randn(6))"].kind == "call"


def test_calls_in_the_main_block_are_not_module_level() -> None:
    text = "import torch\ndef f(x): return x\nif __name__ == '__main__':\n    torch.compile(f)(1)\n"
    assert names(text) == []


def test_an_assignment_with_a_probe_comment_is_a_target() -> None:
    text = MODULE + "layer = nn.Linear(3, 4)  # fullgraph: f32[b, 3]\nn = 1  # fullgraph: off\n"
    discovery = discover(text)
    assert [target.name for target in discovery.targets] == ["layer"]
    assert discovery.findings == ()


PAIRS = {
    "plain": ("def build(): ...\ndef example_input(): ...\n", [("build", "example_input")]),
    "suffix": (
        "def build_a(): ...\ndef example_input_a(): ...\n"
        "def build_b(): ...\ndef example_b(): ...\n",
        [("build_a", "example_input_a"), ("build_b", "example_b")],
    ),
    "shared": (
        "def build_a() -> nn.Module: ...\ndef build_words() -> dict: ...\n"
        "def example_input(): ...\n",
        [("build_a", "example_input")],
    ),
    "table of names": (
        "def build_a(): ...\ndef image(): ...\nROWS = [('A', 'build_a', 'image', 2020)]\n",
        [("build_a", "image")],
    ),
    "table of functions": (
        "def make_a(): ...\ndef image(): ...\nROWS = []\nROWS += [('A', make_a, image)]\n",
        [("make_a", "image")],
    ),
    "alias": (
        "def build_a(): ...\ndef example_input(): ...\nbuild = build_a\n"
        "ROWS = [('A', 'build_a', 'example_input')]\n",
        [("build_a", "example_input")],
    ),
    "imported": ("from there import build, example_input\n", [("build", "example_input")]),
    "a value": ("def build(): ...\nexample_input = 3\n", [("build", "example_input")]),
    "needs arguments": ("def build(kind): ...\ndef example_input(): ...\n", []),
}


@pytest.mark.parametrize("case", PAIRS)
def test_builders_and_examples(case: str) -> None:
    text, expected = PAIRS[case]
    found = [
        (pair.builder, pair.example)
        for target in discover(MODULE + text).targets
        for pair in target.pairs
    ]
    assert found == expected


def test_a_builder_with_two_examples_is_one_target() -> None:
    text = "def build_a(): ...\ndef x(): ...\ndef y(): ...\nR = [(build_a, x), (build_a, y)]\n"
    target = only(text)
    assert target.name == "build_a()"
    assert [pair.example for pair in target.pairs] == ["x", "y"]


def test_get_inputs_is_for_the_model_or_the_last_module() -> None:
    net = "class {0}(nn.Module):\n    def forward(self, x): return x\n"
    tail = "def get_inputs(): return []\ndef get_init_inputs(): return []\n"
    for order, owner in ((("Model", "Part"), "Model"), (("Part", "Net"), "Net")):
        text = MODULE + "".join(net.format(name) for name in order) + tail
        found = {target.name: target.inputs_from for target in discover(text).targets}
        assert found[owner] == "get_inputs"
        assert sum(bool(value) for value in found.values()) == 1


def test_parts_know_who_uses_them() -> None:
    text = MODULE + (
        "class Part(nn.Module):\n    def forward(self, x): return x\n"
        "class Middle(nn.Module):\n    def __init__(self): self.p = Part()\n"
        "    def forward(self, x): return x\n"
        "class Net(nn.Module):\n    def __init__(self): self.m = Middle()\n"
        "    def forward(self, x): return x\n"
    )
    assert {target.name: target.used_by for target in discover(text).targets} == {
        "Part": ("Middle", "Net"),
        "Middle": ("Net",),
        "Net": (),
    }


def test_parts_are_used_through_names_of_the_module() -> None:
    text = MODULE + (
        "class Part(nn.Module):\n    def forward(self, x): return x\n"
        "PARTS = {'part': Part}\n"
        "class Net(nn.Module):\n    def __init__(self): self.m = PARTS['part']()\n"
        "    def forward(self, x): return x\n"
        "net = Net()  # fullgraph: f32[4]\n"
    )
    assert {target.name: target.used_by for target in discover(text).targets} == {
        "Part": ("Net", "net"),
        "Net": ("net",),
        "net": (),
    }


@pytest.mark.parametrize("text", ["def f(:\n", "x = '\n", "a\0b"])
def test_what_does_not_parse_is_a_syntax_error(text: str) -> None:
    with pytest.raises(SyntaxError):
        discover(text)


@pytest.mark.parametrize("text", ["", "\n", "# fullgraph: off", "\ufeff".strip("\ufeff")])
def test_empty_texts_have_no_targets(text: str) -> None:
    assert discover(text).targets == ()


def test_discovery_does_not_need_torch() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.modules['torch'] = None\n"
        "from fullgraph_engine.targets import discover, missing_probe\n"
        "text = 'from torch import nn\\nclass A(nn.Module):\\n'\n"
        "text += '    def forward(self, x): return x\\n'\n"
        "text += '# fullgraph: f32[b]\\ndef f(x): pass\\n'\n"
        "found = discover(text).targets\n"
        "print(len(found), missing_probe(found[0], text).code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, str(ENGINE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == ("2 probe/missing", 0), done.stderr
