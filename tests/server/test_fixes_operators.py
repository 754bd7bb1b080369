"""Operators of foreign functions, and fake kernels from calls that were seen."""

from __future__ import annotations

import pytest

from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.custom_operators import faked, wrapped
from fullgraph.fixes.site import Site, Text
from fullgraph_engine.protocol import Finding, Position, Range
from fullgraph_engine.protocol.evidence import (
    BreakEvidence,
    ExportEvidence,
    OperatorCall,
    TensorForm,
)

IMPORTS = "import torch\nimport json\nimport native\n"


def operators(marked: str) -> list[Candidate]:
    marked = IMPORTS + marked
    start, end = marked.index("«"), marked.index("»") - 1
    text = marked.replace("«", "").replace("»", "")
    positions = TextPositions(text)
    range_ = Range(positions.at(start), positions.at(end))
    evidence = BreakEvidence("Attempted to call function marked as skipped")
    finding = Finding("graph-break/GB0007", "", range_, evidence=evidence)
    return list(wrapped(Site(Text(text), finding)))


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
    for candidate, call in zip(found, given, strict=True):
        assert candidate.text == (
            f'{IMPORTS}@torch.library.custom_op("custom::f", mutates_args=())\n'
            f"def _f({parameters}) -> {returned}:\n    return {inside}\n\n\n"
            f"{source.replace(place, call)}"
        )
        assert (candidate.preserves, candidate.gives_up) == (False, "It has no gradient.")
        assert candidate.parts == ("export",)


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


def called(*calls: OperatorCall, text: str = DEFINED) -> list[str]:
    """The kernels that are tried."""
    evidence = ExportEvidence("missing-fake-kernel", operator="mine.f.default", calls=calls)
    range_ = Range(Position(0, 0), Position(0, 1))
    finding = Finding("export/missing-fake-kernel", "", range_, evidence=evidence)
    found = list(faked(Site(Text(text), finding)))
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
