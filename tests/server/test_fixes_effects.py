"""Rewrites of breaks that no condition causes: the texts they make, and what they leave alone."""

from __future__ import annotations

import pytest

from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.catalogue import candidates
from fullgraph.fixes.site import Text
from fullgraph_engine.protocol import Finding, Range
from fullgraph_engine.protocol.evidence import BreakEvidence, SpecializationEvidence

ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
SKIPPED = "Attempted to call function marked as skipped"
DYNAMIC = "Dynamic shape operator"
DATA = "aten._local_scalar_dense.default"


def tried(marked: str, title: str = "", context: str = "") -> dict[str, list[Candidate]]:
    """The candidates for a finding at what is between « and », by the name of their rewrite."""
    start = marked.index("«")
    end = marked.index("»") - 1
    text = marked.replace("«", "").replace("»", "")
    positions = TextPositions(text)
    finding = Finding(
        "graph-break/GB0000",
        "Graph break",
        Range(positions.position_at(start), positions.position_at(end)),
        context=context,
        evidence=BreakEvidence(title),
    )
    found: dict[str, list[Candidate]] = {}
    for candidate in candidates(Text(text), finding):
        found.setdefault(candidate.rewrite, []).append(candidate)
    return found


def body(text: str) -> str:
    """What is behind the line of the text that ends the imports."""
    return text.partition("# --\n")[2]


IMPORTS = """\
import copy, datetime, heapq, logging, math, os, random, sys, time, warnings
import contextlib
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from tqdm import tqdm
logger = logging.getLogger(__name__)
pass  # --
"""


def rewritten(rewrite: str, source: str, title: str = "", context: str = "") -> str:
    """The function that the first candidate of a rewrite makes of one."""
    return body(tried(IMPORTS + source, title, context)[rewrite][0].text)


GUARD = "if not torch.compiler.is_compiling():"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            "def f(x):\n    # why\n    «print(x.shape)»  # how\n    return x\n",
            f"def f(x):\n    # why\n    {GUARD}\n        print(x.shape)  # how\n    return x\n",
            id="comments",
        ),
        pytest.param(
            "@decorated\nclass M:\n\tdef f(self, x):\n\t\t«logger.info(x)»\n\t\treturn x\n",
            f"@decorated\nclass M:\n\tdef f(self, x):\n\t\t{GUARD}\n\t\t\tlogger.info(x)\n"
            "\t\treturn x\n",
            id="tabs",
        ),
        pytest.param(
            "def f(x):\n    if x.dim(): «print(x)»; y = 1\n    return x\n",
            f"def f(x):\n    if x.dim():\n        {GUARD}\n            print(x)\n        y = 1\n"
            "    return x\n",
            id="one-line body",
        ),
        pytest.param(
            "def f(x):\n    a = 1; «warnings.warn('w')»; b = 2  # c\n    return a\n",
            f"def f(x):\n    a = 1\n    {GUARD}\n        warnings.warn('w')\n    b = 2  # c\n"
            "    return a\n",
            id="several on a line",
        ),
        pytest.param(
            "def f(x):\n    def g():\n        print(\n            «x.sum().item()»,  # c\n"
            "        )\n    g()\n",
            f"def f(x):\n    def g():\n        {GUARD}\n            print(\n"
            "                x.sum().item(),  # c\n            )\n    g()\n",
            id="in an argument, nested",
        ),
        pytest.param(
            "def f(x):\n    t = «time.time()»\n    y = x + 1\n    d = time.time() - t\n"
            "    print(d)\n    return y\n",
            f"def f(x):\n    {GUARD}\n        t = time.time()\n    y = x + 1\n    {GUARD}\n"
            "        d = time.time() - t\n        print(d)\n    return y\n",
            id="all that the time goes into",
        ),
        pytest.param(
            "class M:\n    def f(self, x):\n        self.last = «x.sum().item()»\n"
            "        return x\n",
            f"class M:\n    def f(self, x):\n        {GUARD}\n"
            "            self.last = x.sum().item()\n        return x\n",
            id="a number that nothing reads",
        ),
    ],
)
def test_not_when_compiling(source: str, expected: str) -> None:
    assert rewritten("not-when-compiling", source, ITEM) == expected


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def f(x):\n    v = «x.sum().item()»\n    return x * v\n", id="is returned"),
        pytest.param(
            "def f(x):\n    t = «time.time()»\n    if t > 3:\n        x = -x\n    return x\n",
            id="decides",
        ),
        pytest.param("def f(x):\n    «x[x > 0]» += 1\n    return x\n", id="elements"),
        pytest.param("def f(x):\n    x.data = «x.clone()»\n", id="a tensor's attribute"),
        pytest.param(
            "def f(self, x):\n    self.v = «x.sum().item()»\n    return x * self.v\n",
            id="an attribute that is read",
        ),
        pytest.param("def f(self, x):\n    self.v = «x.mean()»\n    return x\n", id="a tensor"),
        pytest.param("def f(x):\n    v = «self.step(x)»\n    print(v)\n", id="unknown call"),
        pytest.param("def f(x):\n    «x.add_(1)»\n    return x\n", id="a change in place"),
        pytest.param("def f(self, x):\n    v = «self.norm(x)»\n    print(v)\n", id="a layer"),
        pytest.param("def f(x):\n    t = «time.time()»\n    return lambda: t\n", id="a closure"),
    ],
)
def test_what_something_needs_is_always_executed(source: str) -> None:
    assert "not-when-compiling" not in tried(IMPORTS + source, ITEM)


def test_what_is_lost_is_told() -> None:
    source = "def f(self, x):\n    «print(self.norm(x), x.sum(), len(x))»\n    return x\n"
    (candidate,) = tried(IMPORTS + source, ITEM)["not-when-compiling"]
    assert candidate.gives_up == (
        "The compiled code does without this output. It does not call `self.norm` for it."
    )
    assert not candidate.preserves


def test_line_ends_and_the_rest_of_the_text_are_kept() -> None:
    source = "import torch\r\n\r\n\r\ndef f(x):\r\n    «print(x)»\r\n\r\n    return x  # é\r\n"
    (candidate,) = tried(source)["not-when-compiling"]
    assert candidate.text == source.replace("    «print(x)»", f"    {GUARD}\r\n        print(x)")


def test_torch_is_imported_where_only_parts_of_it_are() -> None:
    (candidate,) = tried("from torch import nn\n\ndef f(x):\n    «print(x)»\n")[
        "not-when-compiling"
    ]
    assert candidate.text.partition("def f")[0] == "from torch import nn\nimport torch\n\n"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x * «x.sum().item()»", "x * x.sum().detach()"),
        ("x * «x.detach().sum().item()»", "x * x.detach().sum()"),
        ("x * «x.argmax().cpu().item()»", "x * x.argmax()"),
        ("x * «float(x.sum())»", "x * x.sum().detach().float()"),
        ("x * «int((x > 0).sum())»", "x * (x > 0).sum().long()"),
        ("x / math.sqrt(«x.sum().item()» + 1)", "x / torch.sqrt(x.sum().detach() + 1)"),
        ("x * float(np.sqrt(«x.sum().item()»))", "x * torch.sqrt(x.sum().detach()).float()"),
        ("x * «math.exp(x.mean())»", "x * torch.exp(x.mean()).detach()"),
        ("x * round(«x.sum().item()», 2)", "x * torch.round(x.sum().detach(), decimals=2)"),
        ("x / max(«x.sum().item()», 1e-6)", "x / max(x.sum().detach(), 1e-6)"),
        (
            "torch.tensor([«x.sum().item()», x.max().item()], dtype=x.dtype)",
            "torch.stack([x.sum().detach(), x.max().detach()]).to(dtype=x.dtype)",
        ),
        ("(lambda v: «v.sum().item()» * 2)(x)", "(lambda v: v.sum().detach() * 2)(x)"),
        ("[v for v in «x.tolist()»]", "[v for v in x.detach()]"),
    ],
)
def test_values_stay_tensors(expression: str, expected: str) -> None:
    source = f"def f(x):\n    return {expression}\n"
    assert rewritten("keep-tensor", source, ITEM) == f"def f(x):\n    return {expected}\n"


def test_a_condition_on_a_tensor_is_no_better() -> None:
    source = "def f(x):\n    if «x.sum().item()» > 0:\n        return x\n    return -x\n"
    assert "keep-tensor" not in tried(IMPORTS + source, ITEM)


@pytest.mark.parametrize(
    ("rewrite", "statement", "expected", "title"),
    [
        ("mask-reduction", "return «x[m]».sum()", "return x.masked_fill(~m, 0).sum()", DYNAMIC),
        (
            "mask-reduction",
            "return 1 + «x[x > 0]».mean()",
            "return 1 + (x.masked_fill(~(x > 0), 0).sum() / (x > 0).sum())",
            DYNAMIC,
        ),
        (
            "mask-reduction",
            "return torch.max(«torch.masked_select(x, m)»)",
            'return x.masked_fill(~m, float("-inf")).max()',
            DYNAMIC,
        ),
        ("where-assignment", "x[m] = «y[m]» * 2", "x[...] = torch.where(m, y * 2, x)", DYNAMIC),
        ("where-assignment", "«x[m]» += 1", "x[...] = torch.where(m, x + 1, x)", DYNAMIC),
        (
            "ignore-masked",
            "return F.cross_entropy(«x[m]», y[m])",
            "return F.cross_entropy(x.flatten(0, -2), torch.where(m, y, -100).flatten())",
            DYNAMIC,
        ),
        (
            "mask-loss",
            "return F.mse_loss(«x[m]», y[m])",
            'return F.mse_loss(x, y, reduction="none").masked_fill(~m, 0).sum() / m.sum()',
            DYNAMIC,
        ),
        ("count", "return len(«torch.nonzero(m)»)", "return torch.count_nonzero(m)", DYNAMIC),
        (
            "count",
            "return «torch.nonzero(m, as_tuple=False)».size(0)",
            "return torch.count_nonzero(m)",
            DYNAMIC,
        ),
        ("count", "return «m.nonzero()».shape[0]", "return torch.count_nonzero(m)", DYNAMIC),
        ("index-by-tensor", "return «x[i]»", "return x[i.unsqueeze(0)].squeeze(0)", ITEM),
        ("compare-as-tensor", "return x * «torch.equal(x, y)»", "return x * (x == y).all()", ""),
        ("assert-async", "«torch._assert(m, 'a')»", "torch._assert_async(m, 'a')", ""),
        ("random-uniform", "return «random.random()»", "return random.uniform(0.0, 1.0)", ""),
        ("math-prod", "return int(«np.prod(x.shape)»)", "return math.prod(x.shape)", ""),
        (
            "range",
            "return x.sum(«torch.arange(1, len(x.shape), device=x.device)».tolist())",
            "return x.sum(list(range(1, len(x.shape))))",
            "Data dependent operator",
        ),
        ("clone", "return «copy.deepcopy(x)»", "return x.detach().clone()", ""),
        ("requires-grad-method", "«x.requires_grad = True»", "x.requires_grad_(True)", ""),
        ("copy-data", "«x.data = y»", "x.data.copy_(y)", ""),
        ("plain-tensor", "return «nn.Parameter(x)» * 2", "return x * 2", ""),
        ("drop-progress", "return [i for i in «tqdm(x, desc='a')»]", "return [i for i in x]", ""),
        (
            "clock-when-not-compiling",
            "return «time.time()» - 1",
            "return (0.0 if torch.compiler.is_compiling() else time.time()) - 1",
            SKIPPED,
        ),
    ],
)
def test_expressions(rewrite: str, statement: str, expected: str, title: str) -> None:
    head = "def f(x, y, m, i):\n    # c\n    "
    made = tried(f"{IMPORTS}{head}{statement}\n", title)[rewrite]
    assert f"{head}{expected}\n" in [body(candidate.text) for candidate in made]


def test_a_selection_that_is_only_reduced_is_not_made() -> None:
    source = "def f(x):\n    # positive\n    p = «x[x > 0]»\n    return p.sum() * p.max()\n"
    made = rewritten("mask-reduction", source, DYNAMIC)
    assert made == (
        "def f(x):\n    return x.masked_fill(~(x > 0), 0).sum()"
        ' * x.masked_fill(~(x > 0), float("-inf")).max()\n'
    )
    escapes = "def f(x):\n    p = «x[x > 0]»\n    return p, p.sum()\n"
    assert "mask-reduction" not in tried(IMPORTS + escapes, DYNAMIC)


@pytest.mark.parametrize(
    ("rewrite", "title", "context", "line"),
    [
        ("capture-scalars", ITEM, "", "capture_scalar_outputs = True"),
        ("capture-dynamic-outputs", DYNAMIC, "", "capture_dynamic_output_shape_ops = True"),
        (
            "capture-dynamic-outputs",
            "graph break in loop",
            "",
            "capture_dynamic_output_shape_ops = True",
        ),
        ("trace-autograd", "Unsupported Tensor.backward() call", "", "trace_autograd_ops = True"),
        ("allow-rnn", "Attempted to wrap RNN, GRU, or LSTM", "", "allow_rnn = True"),
    ],
)
def test_settings_stand_once_behind_the_imports(
    rewrite: str, title: str, context: str, line: str
) -> None:
    head = '"""Doc."""\n\nimport os\nfrom torch import nn  # layers\n'
    rest = "\n\ndef f(x):\n    return «x.nonzero()»\n"
    (candidate, *_) = tried(head + rest, title, context)[rewrite]
    setting = f"torch._dynamo.config.{line}\n"
    plain = rest.replace("«", "").replace("»", "")
    assert candidate.text == f"{head}import torch\n\n{setting}{plain}"
    assert candidate.gives_up
    assert rewrite not in tried(f"{head}import torch\n\n{setting}{rest}", title, context)


@pytest.mark.parametrize(
    ("made", "becomes", "preserves"),
    [
        ("Variable(torch.zeros(3))", "torch.zeros(3)", True),
        ("Variable(torch.from_numpy(a)).to(d)", "torch.from_numpy(a).to(d)", True),
        ("Variable(data=torch.ones(3), requires_grad=False)", "torch.ones(3)", True),
        ("Variable(torch.ones(3), requires_grad=True)", "torch.ones(3).requires_grad_()", False),
        # It shares the memory, and cuts the gradient.
        ("Variable(x)", "x.detach()", False),
        ("Variable(x + 1) * 2", "(x + 1).detach() * 2", False),
        ("Variable(torch.zeros(3, out=x))", "torch.zeros(3, out=x).detach()", False),
        ("Variable(torch.zeros(3, **k))", "torch.zeros(3, **k).detach()", False),
        ("Variable(zeros(3))", "zeros(3).detach()", False),
        (
            "Variable(torch.ones(3, requires_grad=True))",
            "torch.ones(3, requires_grad=True).detach()",
            False,
        ),
    ],
)
def test_variables_become_tensors(made: str, becomes: str, preserves: bool) -> None:
    imports = IMPORTS + "from torch.autograd import Variable\n"
    source = f"def f(x, a, d, k):\n    y = «{made}»\n    return y + 1\n"
    (candidate,) = tried(imports + source, SKIPPED)["without-variable"]
    assert f"    y = {becomes}\n" in candidate.text
    assert candidate.preserves is preserves


GRADIENT = "Attempted to use tensor creation function with requires_grad=True"


def test_tensors_that_require_no_gradient() -> None:
    source = (
        "def f(x, k):\n"
        "    y = «torch.eye(\n        3, device=x.device, requires_grad=True\n    )»\n"
        "    z = x.new_zeros(3, requires_grad=True, dtype=k)\n"
        "    return g(y, requires_grad=True), torch.ones(2, requires_grad=k), z\n"
    )
    (candidate,) = tried(IMPORTS + source, GRADIENT)["without-gradient"]
    assert "torch.eye(\n        3, device=x.device)\n" in candidate.text
    assert "x.new_zeros(3, dtype=k)" in candidate.text
    assert "g(y, requires_grad=True), torch.ones(2, requires_grad=k)" in candidate.text
    assert candidate.gives_up
    assert "without-gradient" not in tried(IMPORTS + "def f(x):\n    return «g(x)»\n", GRADIENT)


def test_numbers_of_numpy() -> None:
    source = (
        "class M:\n    def __init__(self, scales, pad):\n        total = np.prod(scales)\n"
        "        self.scales, self.width = scales, np.sqrt(2)\n"
        "        self.indent = pad * total\n        self.pad = pad\n"
        "    def forward(self, x):\n        if «self.indent > 0»:\n            x = x[1:]\n"
        "        return x\n"
    )
    title = "Data-dependent branching"
    (candidate,) = tried(IMPORTS + source, title)["python-number"]
    assert "self.indent = np.asarray(pad * total).item()\n        self.pad" in candidate.text
    assert candidate.loses == ("state",)
    for other in ("self.pad > 0", "self.scales > 0", "x.sum() > 0"):
        changed = IMPORTS + source.replace("self.indent > 0", other)
        assert "python-number" not in tried(changed, title)


def test_unique_numbers() -> None:
    source = (
        "def f(x, axes):\n    axes = np.unique(axes).astype(int)\n"
        "    for axis in «sorted(axes, reverse=True)»:\n"
        "        x = x.sum(int(axis))\n    return x\n"
    )
    title = "Failed to trace builtin operator"
    (candidate,) = tried(IMPORTS + source, title)["unique-numbers"]
    assert "    axes = sorted(set(axes))\n    for axis in sorted(axes, rev" in candidate.text
    assert "unique-numbers" not in tried(IMPORTS + source.replace("sorted(axes", "sorted(x"), title)


def test_variables_of_a_function_together() -> None:
    source = (
        "def f(x):\n    y = «torch.autograd.Variable(torch.ones(3))»\n"
        "    z = torch.autograd.Variable(torch.ones(4), requires_grad=x.requires_grad)\n"
        "    return y + torch.autograd.Variable(torch.rand(3)) + z\n"
    )
    assert rewritten("without-variable", source, SKIPPED) == (
        "def f(x):\n    y = torch.ones(3)\n"
        "    z = torch.autograd.Variable(torch.ones(4), requires_grad=x.requires_grad)\n"
        "    return y + torch.rand(3) + z\n"
    )
    # The class of another library.
    other = "def f(x):\n    return «Variable(x)» + 1\n"
    assert "without-variable" not in tried(IMPORTS + other, SKIPPED)


def test_a_size_gets_its_bounds() -> None:
    source = "def f(x):\n    n = «x.sum().item()»\n    return x[:n]\n"
    *_, checked = tried(IMPORTS + source, ITEM)["capture-scalars"]
    assert body(checked.text) == (
        "def f(x):\n    n = x.sum().item()\n    torch._check(n >= 0)\n"
        "    torch._check(n <= x.shape[0])\n    return x[:n]\n"
    )


def test_managers_that_only_watch_are_not_entered() -> None:
    source = (
        "def f(x):\n    with «warnings.catch_warnings()»:\n"
        "        warnings.simplefilter('ignore')\n        return x + 1\n"
    )
    assert rewritten("context-when-not-compiling", source, SKIPPED) == (
        "def f(x):\n    with contextlib.nullcontext() if torch.compiler.is_compiling() else"
        f" warnings.catch_warnings():\n        {GUARD}\n"
        "            warnings.simplefilter('ignore')\n        return x + 1\n"
    )
    computing = "def f(x):\n    with «torch.no_grad()»:\n        return x + 1\n"
    assert "context-when-not-compiling" not in tried(IMPORTS + computing)


def test_a_decorator_that_disables_is_removed() -> None:
    source = (
        "@torch.compiler.disable  # c\n@other\ndef g(x):\n    return x\n\n"
        "def f(x):\n    return «g(x)»\n"
    )
    title = "Skip calling `torch.compiler.disable()`d function"
    expected = "@other\ndef g(x):\n    return x\n\ndef f(x):\n    return g(x)\n"
    assert rewritten("enable", source, title, "<function g at 0x7f>") == expected
    # What an argument is called says nothing.
    source = source.replace("def f(x):\n    return «g(x)»", "def f(h, x):\n    return «h(x)»")
    expected = expected.replace("def f(x):\n    return g(x)", "def f(h, x):\n    return h(x)")
    for context in ("<function g>", "<function f.<locals>.g at 0x7f>", "<bound method M.g>"):
        assert rewritten("enable", source, title, context) == expected
    assert "enable" not in tried(IMPORTS + source, title, "<function other>")


def test_all_that_an_argument_may_be_is_let_be_compiled() -> None:
    source = (
        "@torch.compiler.disable\ndef g(x):\n    return x\n"
        "@torch.compiler.disable(reason='r')\ndef h(x):\n    return -x\n"
        "def f(called, x):\n    return «called(x)»\n"
    )
    title = "Skip calling `torch.compiler.disable()`d function"
    one, both = tried(IMPORTS + source, title, "<function g>")["enable"]
    assert (one.title, both.title) == ("Let `g` be compiled", "Let `g` and `h` be compiled")
    assert "disable" not in body(both.text)
    assert both.gives_up == "`g` and `h` are compiled, which `torch.compiler.disable` prevented."
    direct = source.replace("«called(x)»", "«g(x)»")
    assert len(tried(IMPORTS + direct, title, "<function g>")["enable"]) == 1


def test_a_module_that_was_disabled_is_let_be_compiled() -> None:
    source = 'm = torch.compiler.disable(m, reason="r")\ndef f(m, x):\n    return «m(x)»\n'
    title = "Unsupported function call (delayed)"
    assert rewritten("enable", source, title) == "m = m\ndef f(m, x):\n    return m(x)\n"


def test_graph_breaks_that_were_asked_for_go() -> None:
    alone = "def f(x):\n    if x.dim():\n        «torch._dynamo.graph_break()»\n    return x\n"
    assert rewritten("drop-graph-break", alone) == (
        "def f(x):\n    if x.dim():\n        pass\n    return x\n"
    )
    other = "def f(x):\n    «torch._dynamo.graph_break()»\n    return x\n"
    assert rewritten("drop-graph-break", other) == "def f(x):\n    return x\n"
    step = "def f(x):\n    «torch._dynamo.step_unsupported()»\n    return x\n"
    assert rewritten("drop-graph-break", step) == "def f(x):\n    return x\n"
    bare = "def f(x):\n    «torch.compiler.disable()»\n    return x\n"
    assert rewritten("drop-graph-break", bare) == "def f(x):\n    return x\n"
    for used in ("g = «torch.compiler.disable()»", "«torch.compiler.disable(x)»"):
        assert "drop-graph-break" not in tried(f"{IMPORTS}def f(x):\n    {used}\n    return x\n")


def test_effects_in_a_checkpoint_are_left_to_the_forward() -> None:
    source = (
        "def g(x):\n    «kept.append(1)»\n    return x\n\n"
        "def f(x):\n    return torch.utils.checkpoint.checkpoint(g, x, use_reentrant=False)\n"
    )
    (made,) = tried(IMPORTS + source, "HOP: Unsafe side effect")["checkpoint-effects"]
    setting = "torch._dynamo.config.skip_fwd_side_effects_in_bwd_under_checkpoint = True"
    assert f"\n{setting}\n" in made.text
    assert made.gives_up
    other = source.replace("torch.utils.checkpoint.checkpoint(g", "torch.cond(x.sum() > 0, g")
    assert "checkpoint-effects" not in tried(IMPORTS + other, "HOP: Unsafe side effect")


def test_a_class_moves_out_of_its_function() -> None:
    source = "# about f\ndef f(x):\n    «class P:\n        a = 1\n»    return x + P.a\n"
    assert rewritten("move-class", source, "Invalid call to __build_class__") == (
        "\nclass P:\n    a = 1\n# about f\ndef f(x):\n    return x + P.a\n"
    )
    named = tried(IMPORTS + source, "Invalid call to __build_class__")["move-class"][1]
    assert '\nclass P:\n    __qualname__ = "f.<locals>.P"\n    a = 1\n' in named.text
    inner = "class M:\n    def f(self):\n        «class P: 'text'»\n        return P\n"
    named = tried(IMPORTS + inner, "Invalid call to __build_class__")["move-class"][1]
    assert "class P:\n    __qualname__ = \"M.f.<locals>.P\"\n    'text'\n" in named.text
    closed = "def f(x):\n    y = 1\n    «class P:\n        a = y\n»    return x + P.a\n"
    assert "move-class" not in tried(IMPORTS + closed, "Invalid call to __build_class__")


def test_the_last_resort_is_the_smallest_call() -> None:
    source = (
        "# about f\n@decorated\ndef f(x, n):\n    h = [n]\n    y = x * «heapq.nlargest(n, h)»[0]\n"
        "    return y\n"
    )
    found = tried(IMPORTS + source, SKIPPED)
    assert body(found["disable"][0].text) == (
        "@torch.compiler.disable\ndef _untraced_nlargest(n, h):\n    return heapq.nlargest(n, h)\n"
        "\n\n# about f\n@decorated\ndef f(x, n):\n    h = [n]\n"
        "    y = x * _untraced_nlargest(n, h)[0]\n    return y\n"
    )
    assert found["disable"][0].suggestion
    assert list(found)[-3:] == ["nonstrict-trace", "disable", "allow-in-graph"]


def test_what_stays_the_same_in_a_program_is_computed_once() -> None:
    found = tried(IMPORTS + "def f(x, n):\n    return x * len(«os.getenv(n)»)\n", SKIPPED)
    (candidate,) = found["assume-constant"]
    assert not candidate.suggestion
    assert candidate.gives_up
    assert "def _untraced_getenv(n):\n    return os.getenv(n)" in candidate.text
    other = tried(IMPORTS + "def f(x, n):\n    return x * len(«other(n)»)\n", SKIPPED)
    assert "assume-constant" not in other


def test_what_differs_in_each_call_is_not_frozen_as_a_fix() -> None:
    found = tried(IMPORTS + "def f(x):\n    return x * «random.gauss(0, 1)»\n", SKIPPED)
    frozen = [*found["assume-constant"], *found["nonstrict-trace"]]
    assert [one.suggestion for one in frozen] == [True, True]


def test_only_equivalent_rewrites_preserve() -> None:
    """The list of those that can be safe: each was looked at, whatever the verifier says."""
    sources = {
        "def f(x):\n    «torch._dynamo.graph_break()»\n    return x\n": {"drop-graph-break"},
        "def f(x):\n    return x * «random.random()»\n": {"random-uniform"},
        "def f(x):\n    return x.reshape(int(«np.prod(x.shape)»))\n": {
            "math-prod",
            "capture-scalars",
        },
        "def f(x):\n    return x.reshape(int(«np.prod(x)»))\n": {"capture-scalars"},
        "def f(x):\n    «x.requires_grad = True»\n    return x\n": {"requires-grad-method"},
        "def f(x):\n    v = «x.sum().item()»\n    print(v)\n    return x\n": {"capture-scalars"},
        "def f(x):\n    return «torch.arange(x.dim()).tolist()»\n": {"range", "capture-scalars"},
        "def f(x, n):\n    return «torch.arange(1, n).tolist()»\n": {"capture-scalars"},
        "def f(x, n):\n    return «torch.arange(n).tolist()»\n": {"capture-scalars"},
        "def f(x):\n    return «copy.deepcopy(x)»\n": set(),
    }
    for source, expected in sources.items():
        title = ITEM if "item" in source or "tolist" in source else SKIPPED
        found = tried(IMPORTS + source, title)
        kept = {one.rewrite for group in found.values() for one in group if one.preserves}
        assert kept == expected, source


def test_nothing_is_made_for_other_findings() -> None:
    text = IMPORTS + "def f(x):\n    print(x.sum().item())\n    return x\n"
    positions = TextPositions(text)
    range_ = Range(
        positions.position_at(text.index("x.sum")),
        positions.position_at(text.index(")\n    return")),
    )
    finding = Finding(
        "guard/specialised-dimension",
        "A size",
        range_,
        evidence=SpecializationEvidence("s0", "L['x']", "3"),
    )
    assert candidates(Text(text), finding) == ()


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("return «torch.equal(x, x)»", "return (x == x).all().item()"),
        (
            "return not «torch.equal(x, self.y)»",
            "return not (x.shape == self.y.shape and (x == self.y).all().item())",
        ),
        ("return «torch.allclose(x, y)»", "return torch.isclose(x, y).all().item()"),
        ("return «torch.is_nonzero(x)»", "return (x != 0).item()"),
    ],
)
def test_comparisons_are_read_out_of_tensors(statement: str, expected: str) -> None:
    (made,) = tried(f"{IMPORTS}def f(self, x, y):\n    {statement}\n")["compare-as-symbol"]
    assert made.text.endswith(f"def f(self, x, y):\n    {expected}\n")
    assert "\ntorch._dynamo.config.capture_scalar_outputs = True\n" in made.text
    assert made.gives_up
    twice = "def f(x, y):\n    return «torch.equal(g(x), y)»\n"
    assert "compare-as-symbol" not in tried(IMPORTS + twice)


def test_a_setting_that_is_there_is_not_made_twice() -> None:
    setting = "torch._dynamo.config.capture_scalar_outputs = True\n"
    source = f"{IMPORTS}{setting}def f(x):\n    return «torch.equal(x, x)»\n"
    (made,) = tried(source)["compare-as-symbol"]
    assert made.text == source.replace("«torch.equal(x, x)»", "(x == x).all().item()")
    assert made.gives_up == ""


def test_a_call_for_nothing_is_left_out_when_compiling() -> None:
    source = "def f(x):\n    «F.note(x)»\n    return x\n"
    (made,) = tried(IMPORTS + source, SKIPPED)["not-when-compiling"]
    assert body(made.text) == f"def f(x):\n    {GUARD}\n        F.note(x)\n    return x\n"
    # What compiled code does is compared: the call may change something.
    assert body(made.compiled) == "def f(x):\n    pass\n    return x\n"
    assert (made.preserves, bool(made.gives_up), made.suggestion) == (False, True, False)


@pytest.mark.parametrize(
    ("statement", "title"),
    [
        pytest.param("y = «F.note(x)»", SKIPPED, id="its result is used"),
        pytest.param("«os.remove('a')»", SKIPPED, id="files"),
        pytest.param("«F.note(json.dump(x, file))»", SKIPPED, id="files in an argument"),
        pytest.param("«torch.distributed.barrier()»", SKIPPED, id="other processes"),
        pytest.param("«F.note(x)»", DYNAMIC, id="traced, but for its sizes"),
    ],
)
def test_a_call_that_may_reach_further_is_made(statement: str, title: str) -> None:
    source = f"import json\n{IMPORTS}def f(x, file):\n    {statement}\n    return x\n"
    made = tried(source, title).get("not-when-compiling", [])
    assert not any(one.compiled for one in made)


def test_a_call_with_constants_is_made_at_the_import() -> None:
    source = "# about f\ndef f(x):\n    # why\n    return x, «math.nothing('a', sys.platform)»\n"
    (made,) = tried(IMPORTS + source, SKIPPED)["once-at-import"]
    assert body(made.text) == (
        "_nothing = math.nothing('a', sys.platform)\n\n\n"
        "# about f\ndef f(x):\n    # why\n    return x, _nothing\n"
    )
    assert (made.preserves, bool(made.gives_up)) == (False, True)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("«math.nothing(x)»", id="reads a variable"),
        pytest.param("«math.nothing(SIZE)»", id="reads a global"),
        pytest.param("«g('a')»", id="of the file"),
        pytest.param("«random.choice('ab')»", id="random"),
        pytest.param("«np.random.rand(2)»", id="random numbers of NumPy"),
        pytest.param("«time.localtime()»", id="the time"),
        pytest.param("«os.getcwd()»", id="the process"),
        pytest.param("«torch.special('a')»", id="of torch"),
        pytest.param("[«math.nothing(i)» for i in (1, 2)]", id="in a comprehension"),
        pytest.param("(lambda: «math.nothing()»)()", id="in a lambda"),
    ],
)
def test_a_call_of_what_may_change_stays_where_it_is(expression: str) -> None:
    source = f"SIZE = 3\ndef g(x):\n    pass\ndef f(x):\n    return {expression}\n"
    assert "once-at-import" not in tried(IMPORTS + source, SKIPPED)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("f(zip(a, b), x)", "f(tuple(zip(a, b)), x)"),
        (
            "torch.compile(f, backend='eager')(d.items(), x)",
            "torch.compile(f, backend='eager')(tuple(d.items()), x)",
        ),
        (
            "fast = torch.compile(f)\nfast(xs=map(abs, a), y=x)",
            "fast = torch.compile(f)\nfast(xs=tuple(map(abs, a)), y=x)",
        ),
        (
            "f((n for n in a), model.parameters())",
            "f(tuple((n for n in a)), tuple(model.parameters()))",
        ),
    ],
)
def test_iterators_are_passed_as_tuples(call: str, expected: str) -> None:
    source = "def f(xs, y):\n    for one in «xs»:\n        y = y + one\n    return y\n"
    (made,) = tried(f"{IMPORTS}{source}{call}\n", "missing tp_iter")["tuple-argument"]
    assert made.text.endswith(f"    return y\n{expected}\n")
    assert not made.preserves
    assert "tuple-argument" not in tried(f"{IMPORTS}{source}{call}\n", SKIPPED)


@pytest.mark.parametrize("call", ["g(zip(a, b))", "f(pairs, x)", "f(*zip(a, b))", "f([a, b], x)"])
def test_what_something_else_may_use_stays_as_it_is(call: str) -> None:
    source = "def f(xs, y):\n    for one in «xs»:\n        y = y + one\n    return y\n"
    assert "tuple-argument" not in tried(f"{IMPORTS}{source}{call}\n", "missing tp_iter")


def test_an_import_that_fails_is_tried_at_the_top() -> None:
    source = (
        "# about f\ndef f(x):\n    try:\n        «from fast.ops import g as h»\n"
        "        return h(x)\n    except ImportError:\n        return -x\n"
    )
    (made,) = tried(IMPORTS + source, "Import failure")["import-at-top"]
    assert body(made.text) == (
        "try:\n    from fast.ops import g as h\nexcept ImportError:\n    h = None\n\n\n"
        "# about f\ndef f(x):\n    try:\n        if h is None:\n"
        "            raise ModuleNotFoundError(\"No module named 'fast.ops'\")\n"
        "        return h(x)\n    except ImportError:\n        return -x\n"
    )
    assert (made.preserves, bool(made.gives_up)) == (False, True)
    for was, by in (
        ("    try:\n        «", "    if x.dim():\n        «"),  # nothing handles it
        ("return h(x)", "h = h or abs\n        return h(x)"),  # a variable of the function
        ("g as h", "g as math"),  # another global
        ("import g as h", "import *"),
    ):
        other = source.replace(was, by)
        if "try" not in other:
            other = other.replace("    except ImportError:\n        return -x\n", "")
        assert "import-at-top" not in tried(IMPORTS + other, "Import failure")


DISABLED = "Skip inlining `torch.compiler.disable()`d function"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            "@torch.no_grad()\n@torch.compiler.disable(recursive=False)\ndef g(x):\n    return x\n"
            "def f(x):\n    return «g(x)»\n",
            "@torch.no_grad()\ndef g(x):\n    return x\ndef f(x):\n    return g(x)\n",
            id="decorator",
        ),
        pytest.param(
            "def eager(f):\n    return torch._dynamo.disable(f)\n@eager\ndef g(x):\n"
            "    return x\ndef f(x):\n    return «g(x)»\n",
            "def eager(f):\n    return torch._dynamo.disable(f)\ndef g(x):\n"
            "    return x\ndef f(x):\n    return g(x)\n",
            id="a decorator of the file",
        ),
        pytest.param(
            "def g(x):\n    return x\nslow = torch.compiler.disable(g)\ndef f(x):\n"
            "    return «slow(x)»\n",
            "def g(x):\n    return x\nslow = g\ndef f(x):\n    return slow(x)\n",
            id="another name",
        ),
    ],
)
def test_what_is_disabled_is_let_be_compiled(source: str, expected: str) -> None:
    assert rewritten("enable", source, DISABLED) == expected


WATCHING = """\
class Meter:
    def __init__(self):
        self.seen = []
    @torch.compiler.disable
    def update(self, x):
        self.seen.append(x.mean().item())
meter = Meter()
def f(x):
    «meter.update(x)»
    return x
"""


def test_a_disabled_function_that_only_notes_is_left_out_when_compiling() -> None:
    found = tried(IMPORTS + WATCHING, DISABLED)["not-when-compiling"]
    assert f"    {GUARD}\n        meter.update(x)\n    return x\n" in found[0].text
    assert found[0].gives_up == (
        "The compiled code does not call `update`, so that it does not change `seen`."
    )
    assert not found[0].preserves


@pytest.mark.parametrize(
    ("was", "by"),
    [
        pytest.param("return x\n", "return x * len(meter.seen)\n", id="what it notes is read"),
        pytest.param("self.seen.append(x.mean().item())", "x[0] = 1", id="changes its argument"),
        pytest.param("«meter.update(x)»", "x = «meter.update(x)»", id="has a result"),
    ],
)
def test_a_disabled_function_with_consequences_is_called(was: str, by: str) -> None:
    assert was in WATCHING
    assert "not-when-compiling" not in tried(IMPORTS + WATCHING.replace(was, by), DISABLED)


@pytest.mark.parametrize(
    ("rewrite", "source", "context", "expected"),
    [
        (
            "list-generator",
            "return «max(g(y) for y in x)»",
            "builtin max [LocalGeneratorObjectVariable]",
            "return max([g(y) for y in x])",
        ),
        ("torch-round", "return «round(x, 2)»", "__round__", "return torch.round(x, decimals=2)"),
        (
            "sort-tensors",
            "return «sorted(x)»",
            "builtin sorted [TensorVariable]",
            "return list(x.sort().values)",
        ),
        (
            "kl-of-families",
            "p = torch.distributions.Normal(x, x)\n"
            "    return «torch.distributions.kl_divergence(p, p)»",
            "builtin min",
            "p = torch.distributions.Normal(x, x)\n"
            "    return torch.distributions.kl._kl_normal_normal(p, p)",
        ),
    ],
)
def test_builtins_that_are_traced(rewrite: str, source: str, context: str, expected: str) -> None:
    made = rewritten(rewrite, f"def f(x):\n    {source}\n", context=context)
    assert made == f"def f(x):\n    {expected}\n"


@pytest.mark.parametrize(
    "numbers", ["0.5", "x.size(0) / 2", "float(n)", "n, dtype=torch.float", "*n", "end=n"]
)
def test_fractions_are_no_range(numbers: str) -> None:
    source = f"def f(x, n):\n    return «torch.arange({numbers}).tolist()»\n"
    assert "range" not in tried(IMPORTS + source, ITEM)


def test_any_of_a_generator_stays_lazy() -> None:
    """A list would evaluate what the original does not come to."""
    found = tried(IMPORTS + "def f(x):\n    return «any(g(y) for y in x)»\n")
    assert "list-generator" not in found


def test_a_lock_is_taken_only_when_not_compiling() -> None:
    source = (
        "import threading\nlock = threading.Lock()\ndef f(x):\n    with «lock»:\n"
        "        x = x + 1\n    return x\n"
    )
    (candidate,) = tried(IMPORTS + source)["context-when-not-compiling"]
    assert not candidate.suggestion
    other = source.replace("threading.Lock()", "make()")
    (candidate,) = tried(IMPORTS + other)["context-when-not-compiling"]
    assert candidate.suggestion


def test_a_time_under_a_key_that_nothing_reads_is_not_kept() -> None:
    source = (
        "class M:\n    def f(self, x):\n        t = «time.time()»\n        y = x + 1\n"
        "        self.times['y'] = time.time() - t\n        return y{}\n"
    )
    assert "not-when-compiling" in tried(IMPORTS + source.format(""), SKIPPED)
    read = source.format(" * len(self.times)")
    assert "not-when-compiling" not in tried(IMPORTS + read, SKIPPED)


TRACK = """\
class M:
    def __init__(self):
        self.seen = {"mean": []}
    def _track(self, x):
        'Note it.'
        self._note(«x.mean().item()»)
    def _note(self, value):
        self.seen["mean"].append(value)
    def forward(self, x):
        self._track(x)
        return x
"""


def test_a_function_that_only_watches_is_left_at_once_when_compiling() -> None:
    (candidate,) = tried(IMPORTS + TRACK, ITEM)["return-when-compiling"]
    assert (
        "        'Note it.'\n        if torch.compiler.is_compiling():\n            return\n"
        "        self._note(x.mean().item())\n"
    ) in candidate.text
    assert candidate.gives_up == (
        "The compiled code does not do what `_track` does, so that it does not change `seen`."
    )
    assert not candidate.preserves


@pytest.mark.parametrize(
    ("was", "by"),
    [
        pytest.param("return x\n", "return x * len(self.seen)\n", id="what it notes is read"),
        pytest.param('self.seen["mean"].append(value)', "self.other(value)", id="unknown"),
        pytest.param('self.seen["mean"].append(value)', "value.add_(1)", id="in place"),
        pytest.param('self.seen["mean"].append(value)', "value[0] = 1", id="an element"),
        pytest.param('self.seen["mean"].append(value)', "step(self, value)", id="a function"),
        pytest.param(
            'self.seen["mean"].append(value)', "torch.distributed.all_reduce(value)", id="of torch"
        ),
        pytest.param('self.seen["mean"].append(value)', "self.net.eval()", id="of a layer"),
        pytest.param("'Note it.'", "return 1", id="a result"),
        pytest.param(
            'self.seen = {"mean": []}', "self.register_buffer('seen', torch.ones(1))", id="a buffer"
        ),
        pytest.param("_track", "forward", id="what is called from outside"),
    ],
)
def test_a_function_that_does_more_is_not_left(was: str, by: str) -> None:
    assert was in TRACK
    found = tried(IMPORTS + TRACK.replace(was, by), ITEM)
    assert "return-when-compiling" not in found
