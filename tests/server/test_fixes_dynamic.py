"""What is tried where another size recompiles that no line needs."""

from __future__ import annotations

import pytest

from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.rewrites.dynamic import dynamic
from fullgraph.fixes.site import Site, Text
from fullgraph.fixes.tracing import Traced, judge_rewrite
from fullgraph_engine.protocol import Finding, Position, Range, SeenValue, TargetReport
from fullgraph_engine.protocol.evidence import GuardFailure, RecompileEvidence


def size_guard(name: str, axis: int, size: int = 4) -> GuardFailure:
    words = f"`{name}.shape[{axis}]` was {size}, now 8"
    return GuardFailure("1/0", "TENSOR_MATCH", f"L['{name}']", "check_tensor(…)", words)


def recompile(
    text: str,
    place: str = "x",
    detail: str = "size 0",
    function: str = "f",
    guards: tuple[GuardFailure, ...] = (size_guard("x", 0),),
) -> Finding:
    start, positions = text.index(place), TextPositions(text)
    range_ = Range(positions.position_at(start), positions.position_at(start + len(place)))
    evidence = RecompileEvidence(function, "model.py", 0, guards, detail)
    return Finding("recompile/size", "`f` was recompiled", range_, evidence=evidence)


def tried(text: str, finding: Finding) -> list[str]:
    """The texts that are tried, of which none says that it is safe."""
    found = list(dynamic(Site(Text(text), finding)))
    assert all(one.gives_up for one in found)
    return [one.text for one in found]


DEFINED = "def f(x, y=1):\n    return x * y\n"


@pytest.mark.parametrize(
    ("compiled", "expected"),
    [
        ("torch.compile", "torch.compile(dynamic=True)"),
        ("torch.compile()", "torch.compile(dynamic=True)"),
        ("torch.compile(dynamic=False)", "torch.compile(dynamic=True)"),
        ('torch.compile(mode="default")', 'torch.compile(mode="default", dynamic=True)'),
        (
            'torch.compile(\n    mode="default",  # why\n    fullgraph=True,  # how\n)',
            'torch.compile(\n    mode="default",  # why\n    fullgraph=True,  # how\n'
            "    dynamic=True,\n)",
        ),
        ('torch.compile(mode="default",)', 'torch.compile(mode="default", dynamic=True,)'),
    ],
)
def test_what_a_decorator_becomes(compiled: str, expected: str) -> None:
    text = f"import torch\n@{compiled}\n{DEFINED}"
    assert tried(text, recompile(text)) == [f"import torch\n@{expected}\n{DEFINED}"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("g = torch.compile(f)  # fast", "g = torch.compile(f, dynamic=True)  # fast"),
        ("self.g = th.compile(self.f, mode=M)", ""),
        (
            "self.g = torch.compile(self.f, mode=M)",
            "self.g = torch.compile(self.f, mode=M, dynamic=True)",
        ),
    ],
)
def test_what_a_call_becomes(call: str, expected: str) -> None:
    text = f"import torch\n{DEFINED}{call}\n"
    assert tried(text, recompile(text)) == (
        [f"import torch\n{DEFINED}{expected}\n"] if expected else []
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            "def g(t):\n    # why\n    return f(t)  # how\n",
            [
                "def g(t):\n    torch._dynamo.mark_dynamic(t, 0)\n    # why\n"
                "    return f(t)  # how\n",
                "def g(t):\n    if not torch.compiler.is_compiling():\n"
                "        torch._dynamo.mark_dynamic(t, 0)\n    # why\n    return f(t)  # how\n",
            ],
            id="a name",
        ),
        pytest.param(
            "def g(t):\n    a = 1; f(y=a, x=t)\n",
            ["def g(t):\n    a = 1; torch._dynamo.mark_dynamic(t, 0); f(y=a, x=t)\n"],
            id="keywords, on a line with others",
        ),
        pytest.param(
            "def g(t):\n    return f(t + 1)\n",
            [
                "def g(t):\n    x2 = t + 1\n    torch._dynamo.mark_dynamic(x2, 0)\n"
                "    return f(x2)\n",
                "def g(t):\n    x2 = t + 1\n    if not torch.compiler.is_compiling():\n"
                "        torch._dynamo.mark_dynamic(x2, 0)\n    return f(x2)\n",
            ],
            id="an expression",
        ),
        pytest.param("def g(t):\n    return f(*t)\n", [], id="a star"),
        pytest.param("def g(t):\n    return h(t)\n", [], id="no call"),
    ],
)
def test_what_a_function_is_given_is_marked(source: str, expected: list[str]) -> None:
    text = f"import torch\n{DEFINED}{source}"
    found = tried(text, recompile(text))
    assert found == [f"import torch\n{DEFINED}{one}" for one in expected]


@pytest.mark.parametrize(
    ("function", "is_guarded"), [("g", True), ("f", False)], ids=["traced", "not traced"]
)
def test_a_call_that_may_be_traced_is_also_marked_in_eager_mode_only(
    function: str, is_guarded: bool
) -> None:
    text = f"import torch\n{DEFINED}def g(t):\n    f(t)\n"
    name = text.index(f"def {function}(") + len("def ")
    where = TextPositions(text).position_at(name)
    seen = SeenValue(Range(where, where), "tensor", "t", function)
    finding = recompile(text)
    found = [one.text for one in dynamic(Site(Text(text, (seen,)), finding))]
    assert ["is_compiling" in one for one in found] == [False, True][: 1 + is_guarded]


@pytest.mark.parametrize("source", ["[f(t) for t in ts]", "map(lambda t: f(t), ts)"])
def test_a_name_that_only_the_expression_knows_is_not_marked(source: str) -> None:
    text = f"import torch\n{DEFINED}def g(ts):\n    return {source}\n"
    assert tried(text, recompile(text)) == []


def test_all_sizes_that_differ_are_marked_together() -> None:
    text = f"import torch\n{DEFINED}def g(t, u):\n    f(t, u)\n"
    guards = (size_guard("x", 0), size_guard("x", 1), size_guard("y", 0))
    changed, in_eager = tried(text, recompile(text, guards=guards))
    assert in_eager.endswith(
        "    if not torch.compiler.is_compiling():\n"
        "        torch._dynamo.mark_dynamic(t, 0)\n"
        "        torch._dynamo.mark_dynamic(t, 1)\n"
        "        torch._dynamo.mark_dynamic(u, 0)\n"
        "    f(t, u)\n"
    )
    assert changed.endswith(
        "def g(t, u):\n"
        "    torch._dynamo.mark_dynamic(t, 0)\n"
        "    torch._dynamo.mark_dynamic(t, 1)\n"
        "    torch._dynamo.mark_dynamic(u, 0)\n"
        "    f(t, u)\n"
    )


def test_a_first_size_of_one_is_marked_as_unknown() -> None:
    text = f"import torch\n{DEFINED}def g(t, u):\n    f(t, u)\n"
    guards = (size_guard("x", 0, 1), size_guard("y", 0))
    changed, _, known, _ = tried(text, recompile(text, guards=guards))
    assert changed.endswith(
        "def g(t, u):\n"
        "    torch._dynamo.decorators.mark_unbacked(t, 0)\n"
        "    torch._dynamo.mark_dynamic(u, 0)\n"
        "    f(t, u)\n"
    )
    # The size may be 1 only in the first call, or code may need to know it.
    assert "mark_unbacked" not in known and known.count("mark_dynamic") == 2


@pytest.mark.parametrize(
    ("compiled", "finding"),
    [
        pytest.param("torch.compile(dynamic=True)", {}, id="that is asked for"),
        pytest.param("torch.compile(**options)", {}, id="options that are not known"),
        pytest.param("jit.compile", {}, id="another compiler"),
        pytest.param("torch.compile", {"detail": "dtype"}, id="a dtype"),
        pytest.param("torch.compile", {"function": "other"}, id="another function"),
    ],
)
def test_what_is_left_alone(compiled: str, finding: dict[str, str]) -> None:
    text = f"import torch\n@{compiled}\n{DEFINED}"
    assert tried(text, recompile(text, **finding)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(("left", "better"), [(0, True), (1, False)])
def test_a_recompile_in_place_of_another_is_no_better(left: int, better: bool) -> None:
    report = TargetReport("f", "function", Range(Position(0, 0), Position(0, 1)), "traced")
    wanted = recompile("x\n")
    other = Finding("recompile/other", "`x.shape[0] == 4`", wanted.range)
    before = Traced("x\n", (wanted,), (report,))
    after = Traced("y\n", (other,) * left, (report,))
    assert judge_rewrite(before, after, wanted).better is better
