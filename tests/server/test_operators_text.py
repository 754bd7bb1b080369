"""What the cursor is on, in texts that mark it: ``‸`` is the cursor."""

from __future__ import annotations

import random
import textwrap

import pytest

from fullgraph.operators import (
    Imports,
    OperatorIndex,
    Seen,
    SeenSpan,
    call_at,
    dotted_at,
    subject_at,
)
from fullgraph.operators.text import TokenizedText
from fullgraph_engine.protocol.operators import (
    Field,
    Name,
    NameKind,
    Operator,
    Overload,
    Parameter,
    Signature,
)

CURSOR = "‸"


def name(path: str, *returns: str, kind: NameKind = "function", alias: str = "") -> Name:
    parameters = (Parameter("input", "Tensor"), Parameter("dim", "int", "0"))
    signature = Signature(parameters, tuple(Field(*r.split()) for r in returns))
    return Name(path, kind, (signature,) if returns else (), alias=alias)


def operator(qualified: str, *overloads: str) -> Operator:
    return Operator(
        qualified,
        tuple(
            Overload(o, f"{qualified}{'.' * bool(o)}{o}(Tensor self) -> Tensor", "native")
            for o in overloads
        ),
    )


METHODS = ("add", "add_", "index_add_", "view", "relu", "sum", "split", "norm", "contiguous")

INDEX = OperatorIndex.from_items(
    [
        *(name(f"torch.{n}", "Tensor") for n in ("add", "relu", "sum", "norm", "split", "zeros")),
        *(name(f"torch.Tensor.{n}", "Tensor", kind="method") for n in METHODS),
        name("torch.Tensor.numel", "int", kind="method"),
        name("torch.Tensor.T", "Tensor", kind="property"),
        name("torch.Tensor.device", kind="property"),
        name("torch.max", "Tensor values", "Tensor indices"),
        name("torch.Generator", kind="class"),
        name("torch.Generator.manual_seed", kind="method"),
        name("torch.Tensor", kind="class"),
        name("torch.float32", kind="dtype"),
        name("torch.nn", kind="module"),
        name("torch.nn.Module", kind="class"),
        name("torch.nn.Module.register_buffer", kind="method"),
        name("torch.nn.functional", kind="module"),
        name("torch.nn.functional.relu", alias="torch.relu"),
        name("torch.nn.functional.gelu", "Tensor"),
        name("torch.linalg.norm", "Tensor"),
        Name("torch.nn.functional.dropout", "function", python="(input, p=0.5) -> Tensor"),
        operator("aten::add", "Tensor", "Scalar", "out"),
        operator("aten::relu", ""),
        operator("mylib::op", ""),
    ]
)


def marked(text: str) -> tuple[str, int]:
    text = textwrap.dedent(text)
    assert text.count(CURSOR) == 1
    return text.replace(CURSOR, ""), text.index(CURSOR)


def on(text: str, seen: Seen | None = None) -> tuple[str, str] | None:
    """Path and certainty of the subject at the cursor."""
    subject = subject_at(*marked(text), INDEX, seen or Seen())
    return None if subject is None else (subject.path, subject.certainty)


CERTAIN = [
    ("import torch\ntorch.m‸ax(x)", "torch.max"),
    ("import torch\ntorch.max‸(x)", "torch.max"),
    ("import torch\ntorch.‸max(x)", "torch.max"),
    ("import torch\ntorch.max‸", "torch.max"),
    ("import torch as t\nt.max‸(", "torch.max"),
    ("import torch.nn.functional as F\nF.gelu‸(x)", "torch.nn.functional.gelu"),
    ("import torch.nn.functional\ntorch.nn.functional.gelu‸(x)", "torch.nn.functional.gelu"),
    ("import torch.nn as nn\nnn.functional.gelu‸", "torch.nn.functional.gelu"),
    ("from torch.nn import functional as F\nF.gelu‸", "torch.nn.functional.gelu"),
    ("from torch import (\n  nn,\n  add as plus,  # both\n)\nplus‸(1)", "torch.add"),
    ("from torch import nn, \\\n  add as plus\nplus‸(1)", "torch.add"),
    ("from torch import *\nmax‸(x)", "torch.max"),
    ("from torch import ad‸d", "torch.add"),
    ("from torch import add as pl‸us", "torch.add"),
    ("from torch.nn import func‸tional", "torch.nn.functional"),
    ("from torch.n‸n import functional", "torch.nn"),
    ("import torch.nn.func‸tional as F", "torch.nn.functional"),
    ("import torch.n‸n.functional as F", "torch.nn"),
    ("import os; import torch; torch.max‸", "torch.max"),
    ("if True:\n    import torch\ntorch.max‸", "torch.max"),
    ("try: import torch\nexcept ImportError: torch = None\ntorch.max‸", "torch.max"),
    ("try:\n    import torch\nexcept ImportError:\n    torch = fake()\ntorch.max‸", "torch.max"),
    ("def f():\n    import torch\n    return torch.max‸(1)", "torch.max"),
    ("def f(): return torch.max‸(1)\nimport torch", "torch.max"),
    ("import torch\naten = torch.ops.aten\nadd = aten.add\nadd.Tensor‸",
     "torch.ops.aten.add.Tensor"),
    ("import torch\ntorch.ops.aten.relu.default‸", "torch.ops.aten.relu.default"),
    ("import torch\ntorch.ops.mylib.op‸(x)", "torch.ops.mylib.op"),
    ("import torch\ntorch.ops.aten.a‸dd.Tensor", "torch.ops.aten.add"),
    ("from torch import ops as O\nO.aten.add‸", "torch.ops.aten.add"),
    ("import torch\nF = torch.nn.functional\nF.gelu‸", "torch.nn.functional.gelu"),
    ("import torch\ntorch = torch\ntorch.max‸", "torch.max"),
    ("import torch\ntorch.Tensor.add_‸(x, 1)", "torch.Tensor.add_"),
    ("from torch import Tensor\nTensor.add_‸", "torch.Tensor.add_"),
    ("import torch\nx = f\"{torch.max‸(y)} and\"", "torch.max"),
    ("import torch\nx = f'{{}} {a!r:>{torch.max‸(y)}}'", "torch.max"),
    ("import torch\nx = f'''a\n{torch.max‸", "torch.max"),
    ("import torch\nx = f'{f\"{torch.max‸(y)}\"}'", "torch.max"),
    ("import torch\n@torch.max‸(1)\ndef f(): ...", "torch.max"),
    ("import torch\ny = (x\n  # why\n  .foo(torch.max‸))", "torch.max"),
    ("import torch\ny = torch \\\n  .max‸(x)", "torch.max"),
    ("import torch\nif (n := torch.max‸(x)): pass", "torch.max"),
    ("import torch\nf = lambda x: torch.max‸(x)", "torch.max"),
    ("import torch\ny = [torch.max‸(x) for x in z]", "torch.max"),
    ("import torch\nfoo(torch.max‸(\ndef g(): pass", "torch.max"),
    ("import torch\nfoo(a, 'half\ntorch.max‸(x)", "torch.max"),
    ("import torch\nfoo(bar[1, \nx = 2\ntorch.max‸(x)", "torch.max"),
    ("import torch\r\nx = '😀𐍈'; torch.max‸(x)\r\n", "torch.max"),
    ("import torch\nif x:\n\ttorch.max‸(x)", "torch.max"),
    ("\ufeffimport torch\ntorch.max‸(x)", "torch.max"),
    ("import torch\ndef f(x=torch.max‸): ...", "torch.max"),
    ("import torch\nwith a as b: torch.max‸(b)", "torch.max"),
    ("import torch\ntorch.relu(x).add_‸(1)", "torch.Tensor.add_"),
    ("import torch\ntorch.relu(x)[0].T.view(1).add_‸(1)", "torch.Tensor.add_"),
    ("import torch\ntorch.max(x, 0)[0].add_‸(1)", "torch.Tensor.add_"),
    ("import torch\ntorch.max(x, 0).values.add_‸(1)", "torch.Tensor.add_"),
    ("import torch\n(torch.relu(x) + 1).add_‸(1)", "torch.Tensor.add_"),
    ("import torch\n(2 * torch.relu(x)).add_‸(1)", "torch.Tensor.add_"),
    ("import torch\ny = torch.zeros(1)\ny.sum‸()", "torch.Tensor.sum"),
    ("import torch\ntorch.ops.aten.add(x).sum‸()", "torch.Tensor.sum"),
    ("import torch.nn.functional as F\nF.dropout(x).sum‸()", "torch.Tensor.sum"),
    ("import torch\n(torch\n .relu(x)\n .sum‸()\n)", "torch.Tensor.sum"),
    ("import torch\ndef f(x: torch.Tensor):\n  return x.sum‸()", "torch.Tensor.sum"),
    ("from torch import Tensor\ndef f(x: Tensor | None = None):\n  x.sum‸()", "torch.Tensor.sum"),
    ("from torch import Tensor\nfrom typing import Optional\n"
     "def f(x: Optional[Tensor]):\n  x.sum‸()", "torch.Tensor.sum"),
    ("from torch import Tensor\nfrom jaxtyping import Float\n"
     "def f(x: Float[Tensor, 'b c']):\n  x.sum‸", "torch.Tensor.sum"),
    ("import torch\ndef f(x: torch.Tensor):\n  x = conv(x)\n  x.sum‸()", "torch.Tensor.sum"),
    ("def f(x: 'f32[b, 16]', y=1):\n  x.sum‸()", "torch.Tensor.sum"),
    ("import torch\ndef f(x: 'torch.Tensor'):\n  x.sum‸()", "torch.Tensor.sum"),
    ("import torch\nclass A(torch.Tensor):\n  def f(self):\n    self.sum‸()", "torch.Tensor.sum"),
    ("import torch\nclass A(torch.nn.Module):\n  def f(self):\n    self.register_buffer‸('a')",
     "torch.nn.Module.register_buffer"),
    ("import torch\ntorch.Generator().manual_seed‸(0)", "torch.Generator.manual_seed"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "path"), CERTAIN)
def test_resolves(text: str, path: str) -> None:
    assert on(text) == (path, "certain")


NOT = [
    "torch.max‸(x)",  # never imported
    "import torch\nfoo.torch.max‸(x)",
    "import torch\n# torch.max‸",
    "import torch\nx = 'torch.max‸(x)'",
    "import torch\nx = 'torch.max‸",
    "import torch\n'''\ntorch.max‸",
    "import torch\nx = f'torch.max‸ {y}'",
    "import torch\nx = f'{{torch.max‸}}'",
    "import torch\nx = b'{torch.max‸}'",
    "import torch\ntorch.nosuch‸",
    "import torch\ntorch.ops.aten.nosuch‸",
    "import torch\ntorch.ops.aten.add.nosuch‸",
    "import torch\ntorch.ops.aten‸",
    "import torch\ndef f(torch):\n    return torch.max‸(1)",
    "import torch\ndef f():\n    torch = 1\n    return torch.max‸(1)",
    "import torch\nfor torch in x:\n    torch.max‸(1)",
    "import torch\nwith x as torch:\n    torch.max‸(1)",
    "import torch\nimport numpy as torch\ntorch.max‸(1)",
    "import torch\ny = [torch.max‸ for torch in x]",
    "import torch\ny = lambda torch, x: torch.max‸",
    "import torch\nclass torch: pass\ntorch.max‸",
    "from torch import relu\ndef rel‸u(x): ...",
    "from torch import relu\ndef f(rel‸u): ...",
    "import numpy as np\nnp.linalg.norm‸(x)",
    "', '.split‸(x)",
    "x = []\nx.sum‸",
    "def f(x: str):\n  x.split‸()",
    "str.split‸",
    "def f(x: 'f32[2]'):\n  x = 1.5\n  x = ''\n  x.nosuch‸()",
    "x = 1\nx = ''\nx.split‸()",
    "import torch\ntorch.sum(x).numel().sum‸()",
    "import torch\nclass A(torch.nn.Module):\n  def relu(self): ...\n"
    "  def f(self):\n    self.relu‸(1)",
    "import torch\nclass A(torch.nn.Module):\n  def f(self):\n    self.add_‸(1)",
    "x.nosuch‸()",
    "1.5.sum‸",
    "...sum‸",
]  # fmt: skip


@pytest.mark.parametrize("text", NOT)
def test_is_not_of_torch(text: str) -> None:
    assert on(text) is None


def test_a_receiver_that_nobody_knows() -> None:
    assert on("x.view(1).index_add_‸(0)") == ("torch.Tensor.index_add_", "unambiguous")
    assert on("x.split‸(0)") == ("torch.Tensor.split", "guess")
    assert on("x.split(1)[0].norm‸(0)") == ("torch.Tensor.norm", "guess")
    # A method of that name is defined here.
    assert on("class A:\n  def contiguous(self): ...\nx.contiguous‸()") == (
        "torch.Tensor.contiguous",
        "guess",
    )


def test_what_the_trace_saw_of_an_expression() -> None:
    text, offset = marked("y = a + self.w.norm‸()")
    start = text.index("self")
    for kind, expected in (("tensor", ("torch.Tensor.norm", "traced")), ("other", None)):
        seen = Seen((SeenSpan(start, text.index(".norm"), kind),))  # type: ignore[arg-type]
        subject = subject_at(text, offset, INDEX, seen)
        assert (subject and (subject.path, subject.certainty)) == expected
    # The sum ends where the receiver ends, but is not it.
    seen = Seen((SeenSpan(text.index("a +"), text.index(".norm"), "tensor"),))
    subject = subject_at(text, offset, INDEX, seen)
    assert subject is not None and subject.certainty == "guess"


def test_what_the_trace_saw_in_parentheses_and_below() -> None:
    text, offset = marked("z = (p @ q).view(2).sum‸()")
    seen = Seen((SeenSpan(text.index("p @"), text.index(")"), "tensor"),))
    subject = subject_at(text, offset, INDEX, seen)
    assert subject is not None and subject.certainty == "traced"


@pytest.mark.parametrize(
    ("qualname", "expected"),
    [("A.f", ("torch.Tensor.sum", "traced")), ("A.g", ("torch.Tensor.sum", "guess"))],
)
def test_what_the_trace_saw_of_a_local(qualname: str, expected: tuple[str, str]) -> None:
    seen = Seen(locals={(qualname, "x"): "tensor"})
    assert on("class A:\n  def f(self, x):\n    return x.sum‸()", seen) == expected


def test_a_local_that_was_no_tensor() -> None:
    text = "def f(x):\n  def g(y):\n    return y.sum‸()"
    assert on(text, Seen(locals={("f.<locals>.g", "y"): "module"})) is None


def test_the_span_is_the_dotted_name_up_to_the_cursor() -> None:
    text, offset = marked("import torch\n'😀'; torch.ops.a‸ten.add")
    assert subject_at(text, offset, INDEX) is None
    text, offset = marked("import torch\n'😀'; torch.ops.aten.ad‸d.Tensor")
    subject = subject_at(text, offset, INDEX)
    assert subject is not None
    assert text[subject.start : subject.end] == "torch.ops.aten.add"
    assert subject.operator is not None and subject.overload is None
    text, offset = marked("f(x).index_ad‸d_(1)")
    subject = subject_at(text, offset, INDEX)
    assert subject is not None
    assert text[subject.start : subject.end] == "index_add_"


def test_an_alias_is_followed_to_its_name() -> None:
    subject = subject_at(*marked("import torch.nn.functional as F\nF.relu‸"), INDEX)
    assert subject is not None and subject.name is not None
    assert (subject.path, subject.name.path) == ("torch.nn.functional.relu", "torch.relu")


def test_the_name_of_a_keyword_argument() -> None:
    text, offset = marked("import torch\ntorch.sum(x, di‸m=torch.max(y), keep)")
    subject = subject_at(text, offset, INDEX)
    assert subject is not None
    assert (subject.path, subject.parameter) == ("torch.sum", "dim")
    assert text[subject.start : subject.end] == "dim"
    assert subject_at(*marked("import torch\ntorch.sum(x, di‸m == 1)"), INDEX) is None
    assert subject_at(*marked("import torch\nfoo(x, di‸m=1)"), INDEX) is None


# -- calls --------------------------------------------------------------------------------------


def call(text: str) -> tuple[str, list[str], int] | None:
    """Callee, arguments and the active one."""
    found = call_at(*marked(text), INDEX)
    if found is None:
        return None
    shown = [
        ("*" if a.star else "") + (f"{a.keyword}=" if a.keyword else "") + a.text
        for a in found.arguments
    ]
    assert 0 <= found.active < len(found.arguments)
    return found.subject.path, shown, found.active


CALLS = [
    ("torch.sum(‸", [""], 0),
    ("torch.sum(‸)", [""], 0),
    ("torch.sum(x‸)", ["x"], 0),
    ("torch.sum(x,‸)", ["x", ""], 1),
    ("torch.sum(x‸,)", ["x"], 0),
    ("torch.sum(x, ‸)", ["x", ""], 1),
    ("torch.sum(x, dim=‸)", ["x", "dim="], 1),
    ("torch.sum(x, dim=‸1, keepdim=True)", ["x", "dim=1", "keepdim=True"], 1),
    ("torch.sum(‸x, dim=1", ["x", "dim=1"], 0),
    ("torch.sum((a, b)[‸0], [c, d])", ["(a, b)[0]", "[c, d]"], 0),
    ("torch.sum({'a, b': ‸1}, y)", ["{'a, b': 1}", "y"], 0),
    ("torch.sum(*a, ‸**k)", ["*a", "*k"], 1),
    ("torch.sum(lambda a, b: a, ‸c)", ["lambda a, b: a", "c"], 1),
    ("torch.sum(a == b, ‸c)", ["a == b", "c"], 1),
    ("torch.sum(f(1)(2), ‸c)", ["f(1)(2)", "c"], 1),
    ("torch.sum(x for x in (y,)‸)", ["x for x in (y,)"], 0),
    ("torch.sum(\n    x,  # one, two\n    ‸y,\n)\n", ["x", "y"], 1),
    ("torch.sum(,‸", ["", ""], 1),
    ("torch.sum(a,,‸b)", ["a", "", "b"], 2),
    ("torch.sum(x, ‸\ny = 1", ["x", ""], 1),
    ("torch.sum(x, ‸\nreturn y", ["x", ""], 1),
    ("if torch.sum(x, ‸:\n    pass", ["x", ""], 1),
    ("foo(torch.sum(x, ‸y)", ["x", "y"], 1),
    ("foo[torch.sum(x, ‸]", ["x", ""], 1),
    ("z = foo(\n    torch.sum(x, ‸\n    y,\n)\n", ["x", "y"], 1),
    ("[\n    torch.sum(x,‸ y\n    torch.sum(z, 1),\n]", ["x", "y"], 1),
    ("torch.sum(x, '‸", None, 0),
    ("torch.sum(x, 'a', ‸)", ["x", "'a'", ""], 2),
    ("torch.sum(f'{x}', ‸)", ["f'{x}'", ""], 1),
    ("f'{torch.sum(x, ‸)}'", ["x", ""], 1),
    ("torch.sum(x)‸", None, 0),
    ("torch.sum‸(x)", None, 0),
    ("torch.sum(foo(‸x))", None, 0),
    ("torch.sum(foo(x)‸)", ["foo(x)"], 0),
    ("class A(torch.sum, ‸x): ...", None, 0),
    ("def f(x, ‸y): ...", None, 0),
    ("x = (torch.sum, ‸y)", None, 0),
    ("torch.sum(x, ‸\n\n\ndef f():\n    return 1", ["x", ""], 1),
    ("torch.sum(x, y)\n‸", None, 0),
    ("torch.sum(a if b else c, not (‸d))", ["a if b else c", "not (d)"], 1),
]


@pytest.mark.parametrize(("text", "arguments", "active"), CALLS)
def test_call(text: str, arguments: list[str] | None, active: int) -> None:
    found = call("import torch\n" + text)
    assert found == (None if arguments is None else ("torch.sum", arguments, active))


def test_call_of_a_method_and_an_operator() -> None:
    assert call("x.view(1).index_add_(0, ‸") == ("torch.Tensor.index_add_", ["0", ""], 1)
    assert call("import torch\ntorch.ops.aten.add.Tensor(‸") == (
        "torch.ops.aten.add.Tensor",
        [""],
        0,
    )
    assert call("import torch\ntorch.float32(‸") is None


def test_arguments_know_where_they_are() -> None:
    text, offset = marked("import torch\r\n'😀'; torch.sum( x , dim = 1,‸ )")
    found = call_at(text, offset, INDEX)
    assert found is not None
    assert [text[a.start : a.end] for a in found.arguments] == ["x", "dim = 1", ""]
    assert text[found.open] == "("
    assert (found.arguments[2].start, found.arguments[2].end) == (offset, offset)


# -- completion ----------------------------------------------------------------------------------


def dotted(text: str, seen: Seen | None = None) -> tuple[str, str, bool] | None:
    text, offset = marked(text)
    found = dotted_at(text, offset, INDEX, seen or Seen())
    if found is None:
        return None
    assert text[found.start : offset] == found.prefix and found.end >= offset
    return found.base, found.prefix, found.importing


DOTTED = [
    ("import torch\ntorch.‸", ("torch", "", False)),
    ("import torch\ntorch.ma‸", ("torch", "ma", False)),
    ("import torch\ntorch.ma‸x", ("torch", "ma", False)),
    ("import torch\ntorch.‸\nx = 1", ("torch", "", False)),
    ("import torch\nfoo(torch.‸)", ("torch", "", False)),
    ("import torch\ntorch.ops.aten.‸", ("torch.ops.aten", "", False)),
    ("import torch\ntorch.ops.aten.add.Te‸", ("torch.ops.aten.add", "Te", False)),
    ("import torch\ntorch.ops.‸", ("torch.ops", "", False)),
    ("import torch.nn as nn\nnn.functional.ge‸(x)", ("torch.nn.functional", "ge", False)),
    ("import torch\nif torch.Tensor.‸:", ("torch.Tensor", "", False)),
    ("import torch\ntorch.relu(x).‸", ("torch.Tensor", "", False)),
    ("import torch\ntorch.relu(x).T.‸", ("torch.Tensor", "", False)),
    ("def f(x: 'f32[2]'):\n    x.‸\n    return x", ("torch.Tensor", "", False)),
    ("import torch\ntorch.max.‸", ("", "", False)),
    ("import torch\ntorch.Generator().ma‸", ("torch.Generator", "ma", False)),
    ("import numpy as np\nnp.‸", ("", "", False)),
    ("x.‸", ("", "", False)),
    ("tor‸", ("", "tor", False)),
    ("‸", ("", "", False)),
    ("import torch\n# torch.‸", None),
    ("import torch\n'torch.‸'", None),
    ("import torch\n'torch.‸", None),
    ("import torch\nf'{torch.ma‸'", ("torch", "ma", False)),
    ("import torch\nf'torch.‸'", None),
    ("import torch\nf'{x[\"torch.‸\"]}'", None),
    ("from torch import ma‸", ("torch", "ma", True)),
    ("from torch import ‸", ("torch", "", True)),
    ("from torch import (add,\n  ma‸", ("torch", "ma", True)),
    ("from torch import (add,\n  ‸\n)", ("torch", "", True)),
    ("from torch import add as a‸", None),
    ("from torch.nn import fun‸", ("torch.nn", "fun", True)),
    ("from torch.n‸", ("torch", "n", True)),
    ("from torch.‸ import x", ("torch", "", True)),
    ("import torch.nn.fu‸", ("torch.nn", "fu", True)),
    ("import os, torch.n‸", ("torch", "n", True)),
    ("import tor‸", ("", "tor", True)),
    ("from . import x‸", ("", "x", True)),
    ("1.‸", ("", "", False)),
    ("x = 12‸", None),
    ("def fo‸", None),
    ("def f(a, b‸", None),
]


@pytest.mark.parametrize(("text", "expected"), DOTTED)
def test_dotted(text: str, expected: tuple[str, str, bool] | None) -> None:
    assert dotted(text) == expected


def test_members_of_what_the_trace_saw() -> None:
    seen = Seen(locals={("f", "x"): "tensor"})
    assert dotted("def f(x):\n    y = x.‸\n    return y", seen) == ("torch.Tensor", "", False)


# -- scopes and words ----------------------------------------------------------------------------


def test_imports_resolve_at_an_offset() -> None:
    text, offset = marked("import torch as t\ndef f(t):\n    ‸t\n")
    imports = Imports.for_text(text)
    assert imports.resolve_name("t.max") == "torch.max"
    assert imports.resolve_name("t.max", offset) is None
    assert imports.resolve_name("nosuch") is None
    assert Imports.for_text(text) is imports


def test_a_class_is_no_scope_of_its_methods() -> None:
    text = "from torch import add\nclass A:\n  add = 1\n  def f(self):\n    add‸(1)"
    assert on(text) == ("torch.add", "certain")


def test_a_name_declared_global_is_the_module_s() -> None:
    text = "import torch\ndef f():\n  global torch\n  torch = 1\n  torch.max‸"
    assert on(text) == ("torch.max", "certain")


def test_statements_are_those_of_the_parser() -> None:
    text = textwrap.dedent(
        '''\
        """Doc; string."""
        import a; import b
        x = [1,
             2]; y = """
        z = 1
        """
        if x \\
           and y:  # really
            def f(
                a,
            ):
                return (a
        .b)

        @dec
        class C: pass
        '''
    )
    source = TokenizedText.for_text(text)
    found = [text[source.starts[i] :].split()[0] for i in source.firsts]
    assert found == [
        '"""Doc;', "import", "import", "x", "y", "if", "def", "return", "@dec", "class",
    ]  # fmt: skip
    check_tiling(source)


def check_tiling(source: TokenizedText) -> None:
    """The words are all of the text but blanks."""
    edges = zip(source.tokens, source.starts, source.starts[1:], strict=False)
    assert all(source.text[start:end].rstrip(" \t\f\ufeff") == word for word, start, end in edges)
    assert source.starts[0] == 0 and source.starts[-1] == len(source.text)


PIECES = (
    "import torch\n", "from torch import (add,\n", "torch.", "x.", "max(", ")", "]", "[", "{", "}",
    "'", '"', '"""', "f'{", "}'", "\\\n", "\r\n", "\n    ", "\n", "\t", "# c\n", "lambda a, b: ",
    "for x in y", " = ", ":=", ": ", "def f(x: Tensor, *a", "class A(torch.Tensor):", "😀",
    "self.", "1.5e3", ",", "**", "@", "as ", "import ", "from ", "add_", "except E:", "ß", ";",
    "\x0c", "\x00",
)  # fmt: skip


def everything(text: str, offset: int) -> None:
    seen = Seen((SeenSpan(0, 1, "tensor"),), {("f", "x"): "tensor"})
    subject = subject_at(text, offset, INDEX, seen)
    if subject is not None:
        assert subject.start <= offset <= subject.end
    found = call_at(text, offset, INDEX, seen)
    if found is not None:
        assert 0 <= found.active < len(found.arguments)
    typed = dotted_at(text, offset, INDEX, seen)
    if typed is not None:
        assert typed.start <= offset <= typed.end


@pytest.mark.parametrize("piece", ["(", "f(", "[x for x in ", "lambda a: ", "f'{", "x.", "'", "\\"])
def test_much_of_the_same_can_be_asked_about(piece: str) -> None:
    text = "import torch\n" + piece * 4000 + "torch.max"
    everything(text, len(text))


def test_every_prefix_of_a_text_can_be_asked_about() -> None:
    text = (
        "from torch.nn import functional as F\n@deco(F.gelu)\nclass A(F.x, k=1):\n"
        "    def f(self, x: 'f32[2]' = (1,), *a, **k):\r\n"
        "        y = [x.view(i, *a)[0].T for i in f'{x!r:>{k}} 😀']\n"
        "        x; z = lambda q: q.sum(x, dim=-1)\n"
        '        return {**k, \'a\': """b\nc"""}.get(x)(\n'
    )
    for stop in range(len(text) + 1):
        for offset in (stop, stop // 2, 0):
            everything(text[:stop], offset)
    for offset in range(-1, len(text) + 2):
        everything(text, offset)


@pytest.mark.parametrize("seed", range(60))
def test_any_text_can_be_asked_about(seed: int) -> None:
    rng = random.Random(seed)
    text = "".join(rng.choices(PIECES, k=rng.randint(1, 25)))
    check_tiling(TokenizedText.for_text(text))
    for offset in range(len(text) + 1):
        everything(text, offset)
