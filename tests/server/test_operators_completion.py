"""What may be typed at the cursor, written as ``|`` in the code."""

from __future__ import annotations

from typing import Any

import pytest

from fullgraph.operators import OperatorIndex, Seen, SeenSpan
from fullgraph.operators.completion import MAX_ITEMS, Completions, complete_at, signature_line
from fullgraph_engine.protocol.operators import (
    Field,
    Name,
    NameKind,
    Operator,
    Overload,
    Parameter,
    Signature,
)

TENSOR = (Field("Tensor"),)
INPUT = Parameter("input", "Tensor")
DTYPE = Parameter("dtype", "torch.dtype", "None", keyword_only=True, optional=True)
DIM = Parameter("dim", "tuple of ints", optional=True, size=1)
KEEPDIM = Parameter("keepdim", "bool", "False")


def name(path: str, kind: NameKind = "function", **more: Any) -> Name:
    if "signatures" not in more and kind in ("function", "method"):
        more["signatures"] = (Signature((INPUT,), TENSOR),)
    return Name(path, kind, **more)


def operator(key: str, *schemas: str, uses: int = 0, core: bool = False) -> Operator:
    tags = ("core",) if core else ()
    overloads = tuple(
        Overload(schema.partition("(")[0].partition(".")[2], f"{key}{rest}", "native", tags)
        for schema in schemas
        for rest in [schema.removeprefix(key)]
    )
    return Operator(key, overloads, uses=uses)


SUM = (
    Signature((INPUT, DTYPE), TENSOR),
    Signature((INPUT, DIM, KEEPDIM, DTYPE), TENSOR),
)
INDEX = OperatorIndex.from_items(
    [
        name("torch.nn", "module"),
        name("torch.nn.functional", "module"),
        name("torch.linalg", "module"),
        name("torch.Tensor", "class"),
        name("torch.sum", signatures=SUM, uses=9),
        name("torch.matmul", uses=50),
        name("torch.max", uses=3),
        name("torch._masked", uses=99),
        name("torch.old", deprecated="Since 1.0.", uses=100),
        name("torch.float32", "dtype", uses=30),
        name("torch.float16", "dtype", uses=20),
        name("torch.strided", "layout"),
        name("torch.channels_last", "memory_format"),
        name("torch.linalg.norm"),
        name("torch.Tensor.sum", "method", signatures=(Signature((DIM, KEEPDIM, DTYPE), TENSOR),)),
        name("torch.Tensor.index_add_", "method"),
        name("torch.nn.functional.gelu", signatures=(
            Signature((
                INPUT,
                Parameter("approximate", "str", "'none'", keyword_only=True,
                          choices=("none", "tanh")),
            ), TENSOR),
        )),
        name("torch.nn.functional.dropout", signatures=(),
             python="(input, p=0.5, *, training=True)"),
        name("torch.zeros", signatures=(
            Signature((
                Parameter("size", "tuple of ints", variadic=True), DTYPE,
                Parameter("layout", "torch.layout", "None", keyword_only=True, optional=True),
                Parameter("memory_format", "torch.memory_format", "None", keyword_only=True),
            ), TENSOR),
        )),
        operator("aten::add",
                 "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                 "aten::add.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
                 uses=5),
        operator("aten::relu", "aten::relu(Tensor self) -> Tensor", core=True),
        operator("aten::addmm", "aten::addmm(Tensor self) -> Tensor", uses=90),
        operator("aten::abs", "aten::abs(Tensor self) -> Tensor"),
        operator("aten::_softmax", "aten::_softmax(Tensor self) -> Tensor", uses=70),
        operator("mylib::double", "mylib::double(Tensor x) -> Tensor"),
    ]
)  # fmt: skip
IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


def at(code: str, index: OperatorIndex = INDEX, **more: Any) -> Completions | None:
    text = IMPORTS + code
    offset = text.index("|")
    return complete_at(text.replace("|", "", 1), offset, index, **more)


def labels(code: str, **more: Any) -> list[str]:
    found = at(code, **more)
    return [] if found is None else [candidate.label for candidate in found.items]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("torch.ops.|", ["aten", "mylib"]),
        ("torch.ops.my|", ["mylib"]),
        ("torch.ops.aten.|", ["abs", "add", "addmm", "relu", "_softmax"]),
        ("torch.ops.aten.ad|", ["add", "addmm"]),
        # What the file uses comes first.
        ("y = torch.ops.aten.relu(x)\ntorch.ops.aten.|",
         ["relu", "abs", "add", "addmm", "_softmax"]),
        ("aten = torch.ops.aten\naten.relu(x)\naten.|",
         ["relu", "abs", "add", "addmm", "_softmax"]),
        ("torch.ops.aten.add|", ["add", "addmm"]),
        ("torch.ops.aten.SOFT|", ["_softmax"]),
        ("torch.ops.aten.am|", ["addmm"]),
        ("torch.ops.mylib.|", ["double"]),
        ("torch.ops.aten.add.|", ["Tensor", "out"]),
        ("torch.ops.aten.relu.|", ["default"]),
        ("torch.ops.aten.relu.d|(x)", ["default"]),
        ("torch.ops.aten.nothing.|", []),
        ("aten = torch.ops.aten\naten.ad|", ["add", "addmm"]),
        ("x = foo(torch.ops.aten.re|", ["relu"]),
        ("def f(:\n  [torch.ops.aten.re|", ["relu"]),
        # Members of torch are for others to complete.
        ("torch.|", []),
        ("torch.linalg.|", []),
        ("from torch import |", []),
        # Keyword arguments.
        ("torch.sum(|", ["input=", "dim=", "keepdim=", "dtype="]),
        ("torch.sum(x, |", ["dim=", "keepdim=", "dtype="]),
        ("torch.sum(x, k|)", ["keepdim="]),
        ("torch.sum(x, 1, |)", ["keepdim=", "dtype="]),
        ("torch.sum(x, dim=1, |", ["keepdim=", "dtype="]),
        ("torch.sum(|, dim=1)", ["input=", "keepdim=", "dtype="]),
        ("torch.sum(x, dim=|", []),
        ("torch.sum(x, a + d|", []),
        ("torch.sum(x, d if k|", []),
        ("torch.sum(x, [d|", []),
        ("torch.sum(x, *d|", []),
        ("torch.sum(y.|", []),
        ("torch.sum(x |", []),
        ("torch.ops.aten.add.Tensor(x, al|", ["alpha="]),
        ("F.gelu(x, ap|", ["approximate="]),
        ("F.dropout(x, tr|", []),
        # Values.
        ("torch.zeros(2, dtype=|)", ["torch.float32", "torch.float16"]),
        ("torch.zeros(2, dtype=torch.|)", ["float32", "float16"]),
        ("torch.zeros(2, dtype=torch.float1|)", ["float16"]),
        ("torch.zeros(2, dtype=fl|)", ["torch.float32", "torch.float16"]),
        ("torch.zeros(2, layout=|)", ["torch.strided"]),
        ("torch.zeros(2, memory_format=|)", ["torch.channels_last"]),
        ("F.gelu(x, approximate=|)", ['"none"', '"tanh"']),
        ("F.gelu(x, approximate='|')", ["none", "tanh"]),
        ("F.gelu(x, approximate='|", ["none", "tanh"]),
        ('F.gelu(x, approximate="t|")', ["tanh"]),
        ("F.gelu(x, approximate='tanh'|)", []),
        ("F.gelu(approximate='|', input=x", ["none", "tanh"]),
        # Nothing to say.
        ("# torch.ops.aten.|", []),
        ("'torch.ops.aten.|'", []),
        ("'''\ntorch.ops.aten.|", []),
        ("torch.sum('|')", []),
        ("F.gelu(x, approximate='none') # '|", []),
        ("F.gelu(x, 'it''|", []),
        ("|", []),
        ("x = |", []),
        ("def torch_ops(|", []),
        ("numpy.|", []),
        ("f(|", []),
        ("🙂.|", []),
    ],
)  # fmt: skip
def test_by_default(code: str, expected: list[str]) -> None:
    assert labels(code) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("torch.ma|", ["matmul", "max", "_masked"]),
        ("torch.linalg.|", ["norm"]),
        ("F.|", ["dropout", "gelu"]),
        ("nn.functional.dr|", ["dropout"]),
        ("from torch import mat|", ["matmul"]),
        ("from torch.nn.functional import ge|", ["gelu"]),
        ("import torch.|", ["linalg", "nn"]),
        ("torch.sum(x).|", ["index_add_", "sum"]),
        ("x.|", []),
        ("F.dropout(x, tr|", ["training="]),
        ("torch.ops.aten.re|", ["relu"]),
    ],
)
def test_in_full(code: str, expected: list[str]) -> None:
    assert labels(code, full=True) == expected


def test_all_of_torch_in_full_deprecated_and_private_ones_last() -> None:
    found = at("torch.|", full=True)
    assert found is not None
    assert [item.label for item in found.items][:3] == ["matmul", "float32", "float16"]
    assert [item.label for item in found.items][-2:] == ["_masked", "old"]
    assert found.items[-1].deprecated and not found.items[0].deprecated


def test_a_constant_that_is_wanted_comes_before_the_rest() -> None:
    found = labels("torch.zeros(2, dtype=torch.|)", full=True)
    assert found[:2] == ["float32", "float16"]
    assert "matmul" in found and found.count("float32") == 1


def test_torch_by_the_name_that_the_text_gives_it() -> None:
    text = "import torch as t\nt.zeros(2, dtype="
    found = complete_at(text, len(text), INDEX)
    assert found is not None
    assert [item.label for item in found.items] == ["t.float32", "t.float16"]


def test_a_value_that_the_last_trace_saw_to_be_a_tensor() -> None:
    code = "def f(x):\n    x."
    text = IMPORTS + code
    start = len(text) - 2
    seen = Seen(values=(SeenSpan(start, start + 1, "tensor"),))
    found = complete_at(text, len(text), INDEX, seen, full=True)
    assert found is not None
    assert [item.label for item in found.items] == ["index_add_", "sum"]
    assert complete_at(text, len(text), INDEX, seen) is None


def test_the_span_that_is_replaced() -> None:
    found = at("y = '🙂'; torch.ops.aten.re|lu(x)")
    assert found is not None
    text = (IMPORTS + "y = '🙂'; torch.ops.aten.relu(x)")[found.start : found.end]
    assert text == "relu"
    found = at("F.gelu(x, approximate='t|an')")
    assert found is not None
    assert (IMPORTS + "F.gelu(x, approximate='tan')")[found.start : found.end] == "tan"


def test_a_long_list_is_cut_and_says_so() -> None:
    many = [
        operator(f"aten::op_{number}", f"aten::op_{number}() -> ()", uses=number)
        for number in range(MAX_ITEMS + 50)
    ]
    index = OperatorIndex.from_items(many)
    whole = at("torch.ops.aten.|", index)
    assert whole is not None and not whole.complete
    assert len(whole.items) == MAX_ITEMS and whole.items[0].label == "op_100"
    # Whatever was cut comes when enough of it is typed.
    part = at("torch.ops.aten.op_17|", index)
    assert part is not None and part.complete
    assert [item.label for item in part.items[:2]] == ["op_17", "op_170"]
    assert {"op_17", "op_170", "op_107"} <= {item.label for item in part.items}
    none = at("torch.ops.aten.xyz|", index)
    assert none is not None and none.complete and none.items == ()


def test_operators_of_the_file_are_among_them() -> None:
    index = INDEX.with_operators([operator("mylib::triple", "mylib::triple(Tensor x) -> Tensor")])
    assert labels("torch.ops.mylib.|", index=index) == ["double", "triple"]
    assert labels("torch.ops.mylib.|") == ["double"]


def test_an_empty_index() -> None:
    empty = OperatorIndex.from_items([])
    for code in ("torch.|", "torch.ops.|", "torch.ops.aten.|", "torch.sum(x, |", "F.gelu('|')"):
        assert at(code, empty, full=True) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("torch.sum", "sum(input: Tensor, *, dtype: torch.dtype | None = None) -> Tensor"),
        ("torch.nn.functional.dropout", "dropout(input, p=0.5, *, training=True)"),
        ("torch.ops.aten.relu", "aten::relu(Tensor self) -> Tensor"),
        ("torch.ops.aten.relu.default", "aten::relu(Tensor self) -> Tensor"),
        ("torch.float32", ""),
        ("torch.unheard", ""),
    ],
)
def test_one_line_on_a_path(path: str, expected: str) -> None:
    assert signature_line(INDEX, path) == expected
