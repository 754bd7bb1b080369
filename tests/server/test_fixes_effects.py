"""Rewrites of breaks that no condition causes: the texts they make, and what they leave alone."""

from __future__ import annotations

import pytest

from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.catalogue import candidates
from fullgraph.fixes.site import Text
from fullgraph_engine.protocol import Finding, Range
from fullgraph_engine.protocol.evidence import (
    BreakEvidence,
    FailureEvidence,
    SpecializationEvidence,
)

ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
SKIPPED = "Attempted to call function marked as skipped"
DYNAMIC = "Dynamic shape operator"
DATA = "aten._local_scalar_dense.default"


def tried(
    marked: str, title: str = "", context: str = "", failure: str = "", condition: str = ""
) -> dict[str, list[Candidate]]:
    """Return the candidates for a finding whose code is between « and », by the name of their
    rewrite.

    ``failure`` is the message of an exception that ended the trace. ``condition`` is a condition on
    tensor data that Dynamo could not decide.
    """
    start = marked.index("«")
    end = marked.index("»") - 1
    text = marked.replace("«", "").replace("»", "")
    positions = TextPositions(text)
    finding = Finding(
        "trace/compile-error" if failure else "graph-break/GB0000",
        failure or "Graph break",
        Range(positions.position_at(start), positions.position_at(end)),
        context=context,
        evidence=FailureEvidence("RuntimeError")
        if failure
        else BreakEvidence(title, condition=condition),
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
        "Compiled code leaves out this output. It does not make its calls of `self.norm`."
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
        ("index-by-tensor", "return «x[i]»", "return x[i.unsqueeze(0)].squeeze(0)", ITEM),
        ("compare-as-tensor", "return x * «torch.equal(x, y)»", "return x * (x == y).all()", ""),
        ("assert-async", "«torch._assert(m, 'a')»", "torch._assert_async(m, 'a')", ""),
        ("random-uniform", "return «random.random()»", "return random.uniform(0.0, 1.0)", ""),
        (
            "certain-draw",
            "return x if «random.random()» < y else 2",
            "return x if (y > 0 and (y >= 1 or random.random() < y)) else 2",
            "",
        ),
        (
            "certain-draw",
            "return x if x.training and «y > torch.rand(1).item()» else 2",
            "return x if x.training and (y > 0 and (y >= 1 or y > torch.rand(1).item())) else 2",
            ITEM,
        ),
        ("math-prod", "return int(«np.prod(x.shape)»)", "return math.prod(x.shape)", ""),
        ("python-numbers", "return x[: int(«np.ceil(y / 2)»)]", "return x[: math.ceil(y / 2)]", ""),
        (
            "python-numbers",
            "n = 5 * «np.ceil(np.log(len(x))).astype('int').item()»",
            "n = 5 * math.ceil(math.log(len(x)))",
            ITEM,
        ),
        (
            "python-numbers",
            "return y if «np.all(np.array(x) == min(x))» else np.asarray(y)",
            "return y if all(one == min(x) for one in x) else np.asarray(y)",
            "Data-dependent branching",
        ),
        (
            "python-numbers",
            "return y if «(np.array(x) > one).any()» and np.array(x).all() else x",
            "return y if any(each > one for each in x) and np.array(x).all() else x",
            "Data-dependent branching",
        ),
        (
            "python-numbers",
            "n = np.maximum(len(x), y).astype(np.int64)\n    return «x[:n]»",
            "n = int(max(len(x), y))\n    return x[:n]",
            ITEM,
        ),
        (
            "python-numbers",
            "y = np.unique(y).astype(int)\n    return [x.sum(int(n)) for n in «sorted(y)»]",
            "y = list(map(int, sorted(set(y))))\n    return [x.sum(int(n)) for n in sorted(y)]",
            "builtin operator",
        ),
        (
            "python-numbers",
            "return x.sum(«np.unique(y).tolist()»)",
            "return x.sum(sorted(set(y)))",
            ITEM,
        ),
        (
            "range",
            "return x.sum(«torch.arange(1, len(x.shape), device=x.device)».tolist())",
            "return x.sum(list(range(1, len(x.shape))))",
            "Data dependent operator",
        ),
        ("requires-grad-method", "«x.requires_grad = True»", "x.requires_grad_(True)", ""),
        ("copy-data", "«x.data = y»", "x.data.copy_(y)", ""),
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


def test_a_condition_that_data_decides_is_assumed() -> None:
    module = "from torch.fx.experimental.symbolic_shapes import"
    source = "import torch\n\n\ndef f(x):\n    return 0 if «x.numel() == 0» and x.dim() else x\n"
    made = tried(source, condition="Eq(u0, 0)")
    for assumed in ("guard_or_false", "guard_or_true"):
        (candidate,) = made[assumed.replace("_", "-")]
        assert candidate.text == (
            f"import torch\n{module} {assumed}\n\n\ndef f(x):\n"
            f"    return 0 if {assumed}(x.numel() == 0) and x.dim() else x\n"
        )
        assert candidate.gives_up and not candidate.preserves
    assert "guard-or-false" not in tried(source)
    # The name means something else in this file.
    other = tried(f"guard_or_true = 1\n{source}", condition="Eq(u0, 0)")
    assert set(other) & {"guard-or-false", "guard-or-true"} == {"guard-or-false"}
    imported = tried(f"{module} guard_or_true\n{source}", condition="Eq(u0, 0)")
    (candidate,) = imported["guard-or-true"]
    assert candidate.text.count("import guard_or_true") == 1


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


@pytest.mark.parametrize(
    ("called", "becomes"),
    [
        ("torch.where(mask[0], x, y)", "torch.where(mask[0].bool(), x, y)"),
        ("torch.where(a & b, x, y)", "torch.where((a & b).bool(), x, y)"),
        ("x.where(mask, other=y)", "x.where(mask.bool(), other=y)"),
        (
            "torch.where(input=x, other=y, condition=mask)",
            "torch.where(input=x, other=y, condition=mask.bool())",
        ),
    ],
)
def test_conditions_become_booleans(called: str, becomes: str) -> None:
    source = IMPORTS + f"def f(x, y, a, b, mask):\n    z = «{called}»\n    return z\n"
    failure = "RuntimeError: expected predicate to be bool, got torch.uint8"
    (candidate,) = tried(source, failure=failure)["boolean-mask"]
    assert f"    z = {becomes}\n" in candidate.text
    assert "boolean-mask" not in tried(source, failure="RuntimeError: other")


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


def test_a_call_without_a_used_result_is_not_put_into_the_graph() -> None:
    source = "def f(x):\n    «logger.info(x.shape[0])»\n    return x + 1\n"
    found = tried(IMPORTS + source, SKIPPED)
    assert "disable" in found and "allow-in-graph" not in found


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


@pytest.mark.parametrize(
    "body",
    [
        "return «np.sum(x, axis=0)»",
        "return «np.sqrt(torch.relu(x))»",
        "return «np.all(x == 1)»",
        "return «(np.array(x) == np.array(y)).all()»",
        "return «np.stack(x)»",
        "return «np.unique(torch.relu(x)).tolist()»",
        "return «torch.ceil(x).item()»",
    ],
)
def test_arrays_are_not_python_numbers(body: str) -> None:
    assert "python-numbers" not in tried(f"{IMPORTS}def f(x, y):\n    {body}\n", ITEM)


@pytest.mark.parametrize(
    ("sizes", "number", "exact"),
    [
        ("[one.shape[2] for one in x]", "min(sizes)", True),
        ("[one.shape[2] for one in x]", "8", True),
        ("[one.shape[2] for one in x]", "y", False),
        ("y", "8", False),
    ],
)
def test_conditions_on_integers_stay_the_same(sizes: str, number: str, exact: bool) -> None:
    source = (
        f"def f(x, y):\n    sizes = {sizes}\n"
        f"    if «np.all(np.array(sizes) == {number})»:\n        return x\n    return y\n"
    )
    (made,) = tried(IMPORTS + source)["python-numbers"]
    assert made.keeps_branches == exact


@pytest.mark.parametrize(
    "test",
    ["random.random() > y", "random.random() < y + 1", "torch.rand(4) < y", "x.random() < y"],
)
def test_draws_whose_outcome_is_not_certain(test: str) -> None:
    source = f"def f(x, y):\n    return x if «{test}» else y\n"
    assert "certain-draw" not in tried(IMPORTS + source, ITEM)


def test_only_equivalent_rewrites_preserve() -> None:
    """The list of those that can be safe: each was looked at, whatever the verifier says."""
    sources = {
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
        "guard/specialized-dimension",
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


@pytest.mark.parametrize(
    ("rewrite", "source", "context", "expected"),
    [
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


def test_a_time_under_a_key_that_nothing_reads_is_not_kept() -> None:
    source = (
        "class M:\n    def f(self, x):\n        t = «time.time()»\n        y = x + 1\n"
        "        self.times['y'] = time.time() - t\n        return y{}\n"
    )
    assert "not-when-compiling" in tried(IMPORTS + source.format(""), SKIPPED)
    read = source.format(" * len(self.times)")
    assert "not-when-compiling" not in tried(IMPORTS + read, SKIPPED)


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        pytest.param("mean(row.exp() for row in x)", "mean([row.exp() for row in x])", id="alone"),
        pytest.param(
            "mean((row for row in x if w), w)", "mean([row for row in x if w], w)", id="first"
        ),
    ],
)
def test_a_list_is_passed_instead_of_a_generator(given: str, passed: str) -> None:
    source = f"def f(x, w):\n    y = «{given}»\n    return y\n"
    made = rewritten("list-comprehension", source, "Generator reconstruction with mutations")
    assert made == f"def f(x, w):\n    y = {passed}\n    return y\n"
    assert "list-comprehension" not in tried(IMPORTS + source, "Call of a skipped function")
