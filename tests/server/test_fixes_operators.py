"""Operators of foreign functions, and fake kernels from calls that were seen."""

from __future__ import annotations

import pytest

from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.custom_operators import (
    add_fake_kernels,
    of_block,
    of_function,
    of_rest,
    wrap_calls,
)
from fullgraph.fixes.site import Site, Text
from fullgraph_engine.protocol import Finding, Position, Range, SeenKind, SeenValue
from fullgraph_engine.protocol.evidence import (
    BreakEvidence,
    ExportEvidence,
    OperatorCall,
    TensorForm,
)

IMPORTS = "import torch\nimport json\nimport native\n"


def site_of(marked: str, code: str, title: str) -> Site:
    """Of a break at what is marked, below the imports."""
    marked = IMPORTS + marked
    start, end = marked.index("«"), marked.index("»") - 1
    text = marked.replace("«", "").replace("»", "")
    positions = TextPositions(text)
    range_ = Range(positions.position_at(start), positions.position_at(end))
    return Site(Text(text), Finding(code, "", range_, evidence=BreakEvidence(title)))


def operators(marked: str) -> list[Candidate]:
    title = "Attempted to call function marked as skipped"
    return list(wrap_calls(site_of(marked, "graph-break/GB0007", title)))


@pytest.mark.parametrize(
    ("source", "parameters", "returned", "inside", "given"),
    [
        pytest.param(
            "def f(x, w):\n    # why\n    y = «native.f(x, w)»  # how\n    return y\n",
            "x: torch.Tensor, w: torch.Tensor",
            "torch.Tensor",
            "native.f(x, w)",
            ("_f(x, w)", "_f(x.detach(), w.detach())"),
            id="names",
        ),
        pytest.param(
            "class M:\n    def f(self, x):\n"
            "        return «native.f(x + 1, self.w, 2, mode='a')»\n",
            "input0: torch.Tensor, w: torch.Tensor",
            "torch.Tensor",
            "native.f(input0, w, 2, mode='a')",
            ("_f(x + 1, self.w)", "_f((x + 1).detach(), self.w.detach())"),
            id="expressions, constants and keywords",
        ),
        pytest.param(
            "def f(x):\n    a, b = «native.f(x, x)»\n    return a + b\n",
            "x: torch.Tensor, input1: torch.Tensor",
            "tuple[torch.Tensor, torch.Tensor]",
            "native.f(x, input1)",
            ("_f(x, x)", "_f(x.detach(), x.detach())"),
            id="several results",
        ),
    ],
)
def test_a_call_becomes_an_operator(
    source: str, parameters: str, returned: str, inside: str, given: tuple[str, str]
) -> None:
    found = operators(source)
    place = source[source.index("«") : source.index("»") + 1]
    for candidate, call in zip(found[:2], given, strict=True):
        assert candidate.text == (
            f'{IMPORTS}@torch.library.custom_op("custom::f", mutates_args=())\n'
            f"def _f({parameters}) -> {returned}:\n    return {inside}\n\n\n"
            f"{source.replace(place, call)}"
        )
        assert (candidate.preserves, candidate.gives_up) == (False, "The operator has no gradient.")
        assert candidate.phases == ("export",)


def test_an_operator_of_a_call_takes_numbers_as_numbers() -> None:
    plain, detached, array, _ = operators(
        "def f(x, sigma: float):\n    n = x.shape[0]\n    return «native.f(x, n, s=sigma)»\n"
    )
    parameters = "def _f(x: torch.Tensor, n: int, sigma: float) -> torch.Tensor"
    assert f"{parameters}:\n    return native.f(x, n, s=sigma)\n" in plain.text
    assert plain.text.endswith("return _f(x, n, sigma)\n")
    assert detached.text.endswith("return _f(x.detach(), n, sigma)\n")
    assert "native.f(x.numpy(), n, s=sigma)" in array.text
    assert array.text.endswith("return _f(torch.as_tensor(x), n, sigma).numpy()\n")
    assert not operators("def f(n: int):\n    return «native.f(n)»\n")


def test_a_call_with_arrays_becomes_an_operator_of_tensors() -> None:
    _, _, one, two = operators("def f(c):\n    return «native.f(c[0], n=2, mask=c[1])»\n")
    call = "_f(torch.as_tensor(c[0]), torch.as_tensor(c[1]))"
    inside = "native.f(input0.numpy(), n=2, mask=input2.numpy())"
    assert f"-> torch.Tensor:\n    return torch.as_tensor({inside})\n" in one.text
    assert one.text.endswith(f"def f(c):\n    return {call}.numpy()\n")
    assert f"torch.Tensor]:\n    return tuple(map(torch.as_tensor, {inside}))\n" in two.text
    assert two.text.endswith(f"def f(c):\n    return tuple(one.numpy() for one in {call})\n")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def f(x):\n    return «torch.f(x)»\n", id="of torch"),
        pytest.param("def f(x, g):\n    return «g(x)»\n", id="of the caller"),
        pytest.param("def f(x):\n    return «native.f(*x)»\n", id="a star"),
        pytest.param("def f(x):\n    return «native.f(2, None)»\n", id="no tensor"),
        pytest.param("def f(x):\n    return «x.f(2)»\n", id="a method"),
        pytest.param("def f(x):\n    return «json.dumps(x)»\n", id="of the standard library"),
        pytest.param("def f(x):\n    «native.f(x)»\n    return x\n", id="no result"),
    ],
)
def test_what_is_no_operator(source: str) -> None:
    assert operators(source) == []


DEFINED = """\
import torch


@torch.library.custom_op("mine::f", mutates_args=())
def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return native(x, w)
"""


def form(*sizes: int, dtype: str = "float32") -> TensorForm:
    return TensorForm(dtype, sizes)


def kernels(text: str, calls: tuple[OperatorCall, ...]) -> list[Candidate]:
    evidence = ExportEvidence("missing-fake-kernel", operator="mine.f.default", calls=calls)
    range_ = Range(Position(0, 0), Position(0, 1))
    finding = Finding("export/missing-fake-kernel", "", range_, evidence=evidence)
    return list(add_fake_kernels(Site(Text(text), finding)))


def called(*calls: OperatorCall, text: str = DEFINED) -> list[str]:
    """The kernels that are tried."""
    found = kernels(text, calls)
    head = f"{text}\n\n@f.register_fake\ndef _(x, w):\n    return "
    assert all(one.text.startswith(head) and not one.preserves for one in found)
    return list(dict.fromkeys(one.text[len(head) :].rstrip("\n") for one in found))


def test_sizes_are_those_of_inputs() -> None:
    calls = (
        OperatorCall((form(4, 8), form(8, 4)), (form(4, 4),)),
        OperatorCall((form(5, 8), form(8, 4)), (form(5, 4),)),
        OperatorCall((form(4, 8), form(8, 3)), (form(4, 3),)),
    )
    # With the first call alone it could as well be w.shape[1] twice.
    assert called(*calls) == ["x.new_empty((x.shape[0], w.shape[1]))"]


def test_a_tensor_like_an_input_may_have_its_strides() -> None:
    calls = tuple(OperatorCall((form(n, 8), form(3)), (form(n, 8),)) for n in (4, 5))
    assert called(*calls) == [
        "x.new_empty((x.shape[0], x.shape[1]))",
        "torch.empty_like(x)",
    ]


def test_constants_dtypes_and_several_results() -> None:
    calls = tuple(
        OperatorCall(
            (form(n), form(3, dtype="int64")),
            (form(n, 2, dtype="bool"), form(dtype="int64")),
            several=True,
        )
        for n in (4, 5)
    )
    assert called(*calls) == ["(x.new_empty((x.shape[0], 2), dtype=torch.bool), w.new_empty(()))"]


def test_sizes_of_tensors_in_lists() -> None:
    def call(*rows: int) -> OperatorCall:
        lists = (tuple(form(one, 4) for one in rows), ())
        return OperatorCall((None, form(3)), (form(sum(rows), 4), form(rows[-1])), True, lists)

    calls = (call(6, 4), call(7, 4), call(6, 5))
    sizes = "sum(one.shape[0] for one in x), x[0].shape[1]"
    assert called(*calls) == [f"(x[0].new_empty(({sizes})), x[0].new_empty((x[1].shape[0],)))"]
    # Of lists of any length only the sum is known.
    assert called(call(6, 4), call(6, 4, 2)) == []
    assert all("backward" not in one.text for one in kernels(DEFINED, calls))


@pytest.mark.parametrize(
    ("calls", "text"),
    [
        pytest.param(
            (
                OperatorCall((form(4), form(3)), (form(2),)),
                OperatorCall((form(5), form(3)), (form(1),)),
            ),
            DEFINED,
            id="a size that depends on data",
        ),
        pytest.param(
            (
                OperatorCall((form(4), form(3)), (form(8),)),
                OperatorCall((form(5), form(3)), (form(10),)),
            ),
            DEFINED,
            id="twice a size",
        ),
        pytest.param(
            (
                OperatorCall((form(4), form(3)), (form(4),)),
                OperatorCall((form(4), form(3)), (form(4, 1),)),
            ),
            DEFINED,
            id="several ranks",
        ),
        pytest.param(
            (
                OperatorCall((form(4), form(4)), (form(4, dtype="bool"),)),
                OperatorCall((form(4), form(4)), (form(4, dtype="int64"),)),
            ),
            DEFINED,
            id="several dtypes",
        ),
        pytest.param((OperatorCall((None, None), (form(4),)),), DEFINED, id="no tensor is given"),
        pytest.param((), DEFINED, id="no calls"),
        pytest.param(
            (OperatorCall((form(4), form(4)), (form(4),)),),
            DEFINED + "\n\n@f.register_fake\ndef _(x, w):\n    return x\n",
            id="one that is there and wrong",
        ),
        pytest.param(
            (OperatorCall((form(4), form(4)), (form(4),)),),
            DEFINED.replace("mine::f", "other::f"),
            id="another operator",
        ),
    ],
)
def test_no_kernel_is_tried(calls: tuple[OperatorCall, ...], text: str) -> None:
    assert called(*calls, text=text) == []


# -- functions of the file --------------------------------------------------------------------


def of_functions(marked: str) -> list[Candidate]:
    return list(of_function(site_of(marked, "graph-break/GB0033", "Data dependent operator")))


def test_a_function_becomes_an_operator() -> None:
    source = (
        "# above\ndef g(x, n=2, w=None):\n    # why\n    k = «x.sum().item()»  # how\n"
        "    return x * k * n\n\n\ndef f(x):\n    return g(x)\n"
    )
    (made,) = of_functions(source)
    assert made.text == (
        f"{IMPORTS}def _g_eager(x, n, w):\n    # why\n    k = x.sum().item()  # how\n"
        "    return x * k * n\n\n\n"
        '@torch.library.custom_op("custom::g", mutates_args=())\n'
        "def _g(x: torch.Tensor, n: int, w: torch.Tensor | None) -> torch.Tensor:\n"
        "    return _g_eager(x, n, w)\n\n\n"
        "# above\ndef g(x, n=2, w=None):\n    return _g(x, n, w)\n\n\ndef f(x):\n    return g(x)\n"
    )
    assert (made.preserves, made.phases) == (False, ("export",))


@pytest.mark.parametrize(
    ("default", "kind", "annotated"),
    [
        pytest.param("", "int", "int", id="from the trace"),
        pytest.param("", "tensor", "torch.Tensor", id="tensor"),
        pytest.param("=1", "float", "float", id="a float although the default is an integer"),
        pytest.param("=1.0", "int", "float", id="an integer although the default is a float"),
        pytest.param("=None", "int", "int | None", id="optional"),
        pytest.param("=None", "other", "torch.Tensor | None", id="only None"),
    ],
)
def test_an_operator_gets_the_types_that_the_trace_saw(
    default: str, kind: SeenKind, annotated: str
) -> None:
    source = f"def g(x, n{default}):\n    k = «x.sum().item()»\n    return x * k * n\n"
    site = site_of(source, "graph-break/GB0033", "Data dependent operator")
    start = Position(IMPORTS.count("\n"), len("def "))
    seen = SeenValue(Range(start, Position(start.line, start.byte + 1)), kind, "n", "g")
    (made,) = of_function(Site(Text(site.text.text, [seen]), site.finding))
    assert f"def _g(x: torch.Tensor, n: {annotated}) -> torch.Tensor" in made.text


def test_a_call_in_a_comprehension_becomes_an_operator() -> None:
    plain, *_ = operators("def f(xs):\n    return [«native.f(x[i])» for i, x in enumerate(xs)]\n")
    assert plain.text.endswith("def f(xs):\n    return [_f(x[i]) for i, x in enumerate(xs)]\n")


def test_all_calls_of_a_function_become_calls_of_its_operator() -> None:
    source = (
        "def f(x, w):\n    a = «native.f(x, 2)»\n    b = native.f(w + 1, 2)\n"
        "    return a, b, native.f(x, 3), native.g(x, 2)\n"
    )
    plain, *_ = operators(source)
    assert plain.text.endswith(
        "def f(x, w):\n    a = _f(x)\n    b = _f(w + 1)\n"
        "    return a, b, native.f(x, 3), native.g(x, 2)\n"
    )


def test_a_function_of_arrays_becomes_an_operator_of_tensors() -> None:
    source = "import numpy as np\ndef g(a, n=2):\n    return np.abs(«native.f(a)»), n * a\n"
    _, made = of_functions(source)
    assert made.text.endswith(
        "def _g_eager(a, n):\n    return np.abs(native.f(a)), n * a\n\n\n"
        '@torch.library.custom_op("custom::g", mutates_args=())\n'
        "def _g(a: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:\n"
        "    return tuple(map(torch.as_tensor, _g_eager(a.numpy(), n)))\n\n\n"
        "def g(a, n=2):\n    return tuple(one.numpy() for one in _g(torch.as_tensor(a), n))\n"
    )
    for body in ("torch.abs(native.f(a))", "np.abs(a)[native.f(torch.tensor(a))]"):
        marked = body.replace("native", "«native") + "»"
        assert len(of_functions(f"import numpy as np\ndef g(a):\n    return {marked}\n")) == 1


def test_an_operator_of_arrays_checks_the_sizes_of_its_results() -> None:
    text = (
        "import torch\nfrom native import g\n\n\n"
        '@torch.library.custom_op("mine::f", mutates_args=())\n'
        "def f(x: torch.Tensor) -> torch.Tensor:\n    return torch.as_tensor(g(x.numpy()))\n"
    )
    (made, *_) = kernels(text, (OperatorCall((form(3),), (form(3),)),))
    assert "    result = torch.as_tensor(g(x.numpy()))\n    expected = x.new_empty(" in made.text


def test_a_method_that_needs_no_module_becomes_an_operator() -> None:
    source = (
        "class M:\n    @torch.no_grad()\n    def g(self, x):\n"
        "        k = «x.sum().item()»\n        return x * k, x + k\n"
    )
    (made,) = of_functions(source)
    assert made.text == (
        f"{IMPORTS}@torch.no_grad()\ndef _g_eager(x):\n    k = x.sum().item()\n"
        "    return x * k, x + k\n\n\n"
        '@torch.library.custom_op("custom::g", mutates_args=())\n'
        "def _g(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:\n"
        "    return _g_eager(x)\n\n\n"
        "class M:\n    def g(self, x):\n        return _g(x)\n"
    )


def test_parameters_have_the_types_of_what_the_calls_give() -> None:
    source = (
        "def g(x, ids, p, *, k=1):\n    return x * «x.item()»\n\n\n"
        "def f(x):\n    return g(x, (1, 2), p=0.5) + g(x, [3], 1.5)\n"
    ).replace(", *, k=1", "")
    (made,) = of_functions(source)
    assert "def _g(x: torch.Tensor, ids: list[int], p: float) -> torch.Tensor:" in made.text
    # Without a constant in one of the calls, nothing is known.
    (made,) = of_functions(source.replace("[3], 1.5", "x, 1.5"))
    assert "def _g(x: torch.Tensor, ids: torch.Tensor, p: float)" in made.text


def test_types_are_those_of_variables_where_a_function_is_called() -> None:
    source = (
        "def g(x, n, m, k):\n    return x[:n] * «x.item()» + m + k\n\n\n"
        "def f(x, k: int):\n    *_, a, b = x.shape\n    n = min(a, int(b * 0.5))\n"
        "    return g(x, n, max(n, x), k)\n"
    )
    (made,) = of_functions(source)
    assert "def _g(x: torch.Tensor, n: int, m: torch.Tensor, k: int) -> torch.Tensor:" in made.text


STARTED = """\
class M:
    def __init__(self):
        self.register_buffer("begun", torch.tensor(False))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("size", torch.zeros(3))

    def start(self, x):
        if «self.begun»:
            return
        self.mean.data.copy_(x.mean(0))
        self.size[0] = x.shape[0]
        self.begun.fill_(True)
"""


def test_an_operator_says_what_it_changes_in_place() -> None:
    (made,) = of_functions(STARTED)
    assert (
        '@torch.library.custom_op("custom::start", mutates_args=("begun", "mean", "size"))\n'
        "def _start(x: torch.Tensor, begun: torch.Tensor, mean: torch.Tensor, size: torch.Tensor)"
        " -> None:\n    _start_eager(x, begun, mean, size)\n" in made.text
    )
    assert "        _start(x, self.begun, self.mean, self.size)\n" in made.text
    # It returns something in one case, and changes nothing in the other.
    assert not of_functions(STARTED.replace("            return\n", "            return x\n"))
    assert not of_functions("def f(x):\n    if «x.sum()»:\n        return\n    x.mean()\n")


def of_rests(marked: str) -> list[Candidate]:
    return list(of_rest(site_of(marked, "graph-break/GB0036", "Dynamic shape operator")))


def test_the_rest_of_a_function_becomes_an_operator() -> None:
    source = (
        "class M:\n    def f(self, x, y):\n        n = x.shape[0]\n        x = self.layer(x)\n"
        "        # why\n        x = «x[y > 0]».sort()[0]\n        if n > 2:\n"
        "            return x.mean()\n        return x.sum() / n\n"
    )
    (made,) = of_rests(source)
    assert made.text == (
        f"{IMPORTS}def _f_eager(x, y, n):\n    # why\n    x = x[y > 0].sort()[0]\n"
        "    if n > 2:\n        return x.mean()\n    return x.sum() / n\n\n\n"
        '@torch.library.custom_op("custom::f", mutates_args=())\n'
        "def _f(x: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:\n"
        "    return _f_eager(x, y, n)\n\n\n"
        "class M:\n    def f(self, x, y):\n        n = x.shape[0]\n        x = self.layer(x)\n"
        "        return _f(x, y, n)\n"
    )


def test_what_the_rest_fills_is_made_in_it() -> None:
    source = (
        "class M:\n    def f(self, x):\n        x = self.layer(x)\n        y = x * 0\n"
        "        for i in range(2):\n            y[i] = «x[x > i]».sum()\n        return y\n"
    )
    (made,) = of_rests(source)
    assert "        x = self.layer(x)\n        return _f(x)\n" in made.text
    assert "def _f_eager(x):\n    y = x * 0\n    for i in range(2):\n" in made.text


@pytest.mark.parametrize(
    "source",
    [
        # All of it, which `of_function` makes an operator of.
        "def f(x):\n    return «x[x > 0]».sum()\n",
        # It returns nothing in one case.
        "def f(x):\n    y = x + 1\n    y = «y[y > 0]»\n    if y.sum():\n        return y\n",
        # It calls another module.
        "class M:\n    def f(self, x):\n        y = x + 1\n        return self.g(«x[y > 0]»)\n",
        # It changes what others see.
        "def f(x):\n    y = x + 1\n    x[0] = «x[y > 0]».sum()\n    return x\n",
    ],
)
def test_what_is_left_does_more(source: str) -> None:
    assert not of_rests(source)


@pytest.mark.parametrize(
    ("parameter", "call", "kind"),
    [
        ("xs: List[torch.Tensor]", "x", "list[torch.Tensor]"),
        ("xs: tuple[torch.Tensor, ...]", "x", "list[torch.Tensor]"),
        ("xs: Sequence[int]", "x", "list[int]"),
        ("xs: Optional[torch.Tensor]", "x", "torch.Tensor | None"),
        ("xs: torch.Tensor | None", "x", "torch.Tensor | None"),
        ("xs", "[x, x + 1]", "list[torch.Tensor]"),
        ("xs", "[one.sum() for one in x]", "list[torch.Tensor]"),
        ("xs", "x.chunk(2)", "list[torch.Tensor]"),
        ("xs", "made", "list[torch.Tensor]"),
        ("xs", "[x, None]", "torch.Tensor"),
    ],
)
def test_lists_of_tensors_are_given_to_an_operator(parameter: str, call: str, kind: str) -> None:
    source = (
        f"from typing import List, Optional, Sequence\n\n\ndef g(a, {parameter}):\n"
        "    return a * «a.sum().item()»\n\n\ndef f(x):\n    made = []\n    made.append(x * 2)\n"
        f"    return g(x, {call})\n"
    )
    (made,) = of_functions(source)
    assert f"def _g(a: torch.Tensor, xs: {kind}) -> torch.Tensor:" in made.text


@pytest.mark.parametrize("value", ["[x, y]", "found", "x.unbind()"])
def test_an_operator_returns_a_list(value: str) -> None:
    (made,) = of_functions(
        "def g(x):\n    found = []\n    y = x * «x.sum().item()»\n    found.append(y)\n"
        f"    return {value}\n"
    )
    assert "def _g(x: torch.Tensor) -> list[torch.Tensor]:" in made.text


MODULE = """\
class M:
    def __init__(self, width, eps=1e-5):
        self.w = torch.nn.Parameter(torch.ones(width))
        self.register_buffer("steps", torch.zeros(()))
        self.bias = None
        self.bias = torch.zeros(width)
        self.eps = eps
        self.half = width // 2
        self.layer = torch.nn.Linear(width, width)

    def g(self, x):
        n = «x.sum().item()»
        return {value}


def build():
    return M(8)
"""


def test_what_a_method_reads_of_its_module_is_given_to_the_operator() -> None:
    value = "x * self.w.sum() * n + self.eps * self.steps + self.w + self.half"
    (made,) = of_functions(MODULE.format(value=value))
    assert (
        "def _g_eager(x, w, eps, steps, half):\n    n = x.sum().item()\n"
        "    return x * w.sum() * n + eps * steps + w + half\n" in made.text
    )
    assert (
        "def _g(x: torch.Tensor, w: torch.Tensor, eps: float, steps: torch.Tensor, half: int)"
        " -> torch.Tensor:" in made.text
    )
    assert "        return _g(x, self.w, self.eps, self.steps, self.half)\n" in made.text


LISTS = """\
class M:
    def __init__(self, ends, size, order=False):
        ends = list(ends)
        self.ends = ends + [size]
        self.first = [0, size][0]
        self.order = order
        if order:
            self.late = order

    def g(self, x):
        n = «x.sum().item()»
        return {value}
"""


def test_lists_and_what_is_asked_of_a_module_are_given_to_the_operator() -> None:
    value = "x * n if hasattr(self, 'order') and self.order else x[: self.ends[0]]"
    (made,) = of_functions(LISTS.format(value=value))
    assert "    return x * n if True and order else x[: ends[0]]\n" in made.text
    assert "def _g(x: torch.Tensor, order: bool, ends: list[int]) -> torch.Tensor:" in made.text


@pytest.mark.parametrize("asked", ["'late'", "'other'", "x.name", "'order', 'late'"])
def test_what_may_be_missing_in_a_module_is_not_decided(asked: str) -> None:
    assert not of_functions(LISTS.format(value=f"x * n if hasattr(self, {asked}) else x"))


def test_a_name_of_the_function_is_not_taken_by_an_attribute() -> None:
    (made,) = of_functions(MODULE.format(value="[w * n + self.w for w in (x, x)][0]"))
    assert "    return [w * n + w_ for w in (x, x)][0]\n" in made.text
    assert "        return _g(x, self.w)\n" in made.text


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("self.layer(x) * n", id="a module that is called"),
        pytest.param("self.layer * n", id="a module"),
        pytest.param("self.other * n", id="nothing that the class assigns"),
        pytest.param("h(self, n)", id="itself"),
        pytest.param("self.h(n)", id="a method"),
    ],
)
def test_more_of_a_module_than_values_is_no_operator(value: str) -> None:
    assert of_functions(MODULE.format(value=value)) == []


def test_what_a_method_assigns_is_no_operator() -> None:
    source = MODULE.format(value="x").replace("n = «", "self.eps = «")
    assert of_functions(source) == []


# -- blocks -------------------------------------------------------------------------------------


def of_blocks(marked: str) -> list[Candidate]:
    return list(of_block(site_of(marked, "graph-break/GB0170", "Data-dependent branching")))


def test_a_branch_becomes_an_operator() -> None:
    source = (
        "class M:\n    def __init__(self):\n        self.w = torch.ones(3)\n\n"
        "    def f(self, x, y):\n        rows = x.shape[0]\n        z = x + 1\n        # why\n"
        "        if «x.sum() > 0»:\n            part = [i + y for i in x[x > rows]]\n"
        "            z = z + len(part) * self.w\n            kept = z\n"
        "        return z + y\n"
    )
    (made,) = of_blocks(source)
    assert made.text == (
        f"{IMPORTS}def _f_eager(x, y, rows, z, w):\n    if x.sum() > 0:\n"
        "        part = [i + y for i in x[x > rows]]\n        z = z + len(part) * w\n"
        "        kept = z\n    return z.clone()\n\n\n"
        '@torch.library.custom_op("custom::f", mutates_args=())\n'
        "def _f(x: torch.Tensor, y: torch.Tensor, rows: int, z: torch.Tensor, w: torch.Tensor)"
        " -> torch.Tensor:\n    return _f_eager(x, y, rows, z, w)\n\n\n"
        "class M:\n    def __init__(self):\n        self.w = torch.ones(3)\n\n"
        "    def f(self, x, y):\n        rows = x.shape[0]\n        z = x + 1\n        # why\n"
        "        z = _f(x, y, rows, z, self.w)\n        return z + y\n"
    )
    assert (made.preserves, made.phases) == (False, ("export",))


def test_loops_around_a_break_become_operators_too() -> None:
    source = (
        "def f(x):\n    y = z = x\n    for row in x:\n        if row.sum() > 0:\n"
        "            y = y * «row.item()»\n        z = y\n    return y, z\n"
    )
    inner, outer = of_blocks(source)
    # What the next iteration reads is a result as well.
    assert "        y = _f(row, y)\n        z = y\n" in inner.text
    assert "    y, z = _f(x, y, z)\n    return y, z\n" in outer.text


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("return x", id="return"),
        pytest.param("raise ValueError", id="raise"),
        pytest.param("break", id="break"),
        pytest.param("y[0] = 1", id="in place"),
        pytest.param("self.y = x", id="attribute"),
        pytest.param("del x", id="del"),
        pytest.param("z = x", id="nothing that is read"),
        pytest.param("y = lambda: super()", id="super"),
        pytest.param("y = self.h(x)", id="method"),
    ],
)
def test_what_block_is_no_operator(body: str) -> None:
    source = (
        "class M:\n    def f(self, x, y):\n        for _ in range(2):\n"
        f"            if «x.sum()» > 0:\n                {body}\n        return y\n"
    )
    assert [one for one in of_blocks(source) if "of the `if`" in one.title] == []


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def g(x):\n    yield «x.item()»\n    return x\n", id="a generator"),
        pytest.param("def g(*x):\n    return «x[0].item()»\n", id="a star"),
        pytest.param("def g(x, *, n):\n    return x * «x.item()»\n", id="a keyword"),
        pytest.param("def g(x: list):\n    return «x[0].item()»\n", id="no tensor"),
        pytest.param("def g(x, n=()):\n    return x * «x.item()»\n", id="a tuple"),
        pytest.param("def g(x):\n    global n\n    n = «x.item()»\n    return x\n", id="a global"),
        pytest.param(
            "def g(x):\n    if «x.item()»:\n        return x\n    return x, x\n", id="results"
        ),
        pytest.param("def g(x):\n    print(«x.item()»)\n", id="no result"),
        pytest.param("def g():\n    return «native.f()»\n", id="no parameter"),
        pytest.param("@cached\ndef g(x):\n    return x * «x.item()»\n", id="a decorator"),
        pytest.param(
            "class M:\n    def g(self, x):\n        return self.w * «x.item()»\n", id="a module"
        ),
        pytest.param(
            "class M:\n    @property\n    def g(self):\n        return «native.f()»\n",
            id="property",
        ),
        pytest.param(
            "def f(w):\n    def g(x):\n        return w * «x.item()»\n    return g\n", id="closure"
        ),
        pytest.param("async def g(x):\n    return x * «x.item()»\n", id="async"),
    ],
)
def test_what_function_is_no_operator(source: str) -> None:
    assert of_functions(source) == []


OF_FUNCTION = """\
import torch


def plain(x, n):
    return x * n


@torch.library.custom_op("mine::f", mutates_args=())
def f(x: torch.Tensor, n: int) -> torch.Tensor:
    return plain(x, n)
"""


def gradients(text: str, *calls: OperatorCall) -> list[str]:
    return [one.text for one in kernels(text, calls) if one.rewrite == "fake-kernel-and-gradient"]


def test_the_gradient_is_that_of_the_function() -> None:
    calls = tuple(OperatorCall((form(n, 8), None), (form(n),)) for n in (4, 5))
    (made, _) = gradients(OF_FUNCTION, *calls)
    assert made.endswith(
        """

@torch.library.custom_op("custom::f_backward", mutates_args=())
def f_backward(grad: torch.Tensor, x: torch.Tensor, n: int) -> list[torch.Tensor]:
    _, pullback = torch.func.vjp(lambda x: plain(x, n), x)
    return [one.clone() for one in pullback(grad)]


@f_backward.register_fake
def _(grad, x, n):
    return [torch.empty_like(one) for one in (x,)]


def f_inputs(ctx, inputs, output):
    x, n = inputs
    ctx.save_for_backward(x)
    ctx.n = n


def f_gradient(ctx, grad):
    x, = ctx.saved_tensors
    gradients = f_backward(grad, x, ctx.n)
    return gradients[0], None


f.register_autograd(f_gradient, setup_context=f_inputs)
"""
    )


@pytest.mark.parametrize(
    ("text", "call"),
    [
        pytest.param(
            OF_FUNCTION, OperatorCall((form(4, dtype="int64"), None), (form(4),)), id="in"
        ),
        pytest.param(
            OF_FUNCTION, OperatorCall((form(4), None), (form(4, dtype="bool"),)), id="out"
        ),
        pytest.param(
            OF_FUNCTION.replace("def plain", "@torch.no_grad()\ndef plain"),
            OperatorCall((form(4), None), (form(4),)),
            id="no_grad",
        ),
        pytest.param(
            OF_FUNCTION.replace("return plain(x, n)", "return native(x, n)"),
            OperatorCall((form(4), None), (form(4),)),
            id="foreign",
        ),
    ],
)
def test_what_has_no_gradient(text: str, call: OperatorCall) -> None:
    assert gradients(text, call) == []
