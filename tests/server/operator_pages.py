"""A small index with one of each kind of thing that there are pages of."""

from __future__ import annotations

from pathlib import Path

from fullgraph.operators import OperatorIndex
from fullgraph_engine.protocol.operators import (
    Derivative,
    Field,
    Name,
    Operator,
    Overload,
    Parameter,
    Signature,
    encode_index,
    entry_of,
)

PT2 = "pt2_compliant_tag"
TENSOR = (Field("Tensor"),)
SELF = Parameter("input", "Tensor")
OUT = Parameter("out", "Tensor", "None", keyword_only=True, optional=True)
OTHER = Parameter("other", "Tensor")
DIM = Parameter("dim", "int")
KEEPDIM = Parameter("keepdim", "bool", "False")
DOCS = "https://pytorch.org/docs/stable/generated/torch.max.html"


def _max(*first: Parameter) -> tuple[Signature, ...]:
    out = (OUT,) if first else ()
    pair = (Field("Tensor", "values"), Field("Tensor", "indices"))
    named = "torch.return_types.max"
    return (
        Signature((*first, *out), TENSOR, operator="aten::max"),
        Signature((*first, DIM, KEEPDIM), pair, structure=named, operator="aten::max.dim"),
        Signature((*first, OTHER, *out), TENSOR, operator="aten::max.other", out="aten::max.out"),
    )


MAX = Name(
    "torch.max",
    "function",
    _max(SELF),
    summary="The maximum of all elements of `input`.",
    href=DOCS,
)
MAX_METHOD = Name("torch.Tensor.max", "method", _max())
MAX_OPERATOR = Operator(
    "aten::max",
    (
        Overload(
            "",
            "aten::max(Tensor self) -> Tensor",
            "native",
            tags=(PT2,),
            kernels=("CPU", "CUDA"),
            fake="meta",
            differentiable="formula",
            derivatives=(Derivative("self", "evenly_distribute_backward(grad, self, result)"),),
        ),
        Overload(
            "dim",
            "aten::max.dim(Tensor self, int dim, bool keepdim=False)"
            " -> (Tensor values, Tensor indices)",
            "native",
            tags=(PT2, "core", "reduction", "tag_of_tomorrow"),
            kernels=("CPU", "CUDA"),
            fake="meta",
            decomposes=True,
            differentiable="formula",
            derivatives=(
                Derivative("self", "value_selecting(\n  grad)"),
                Derivative("other, dim", "non_differentiable"),
            ),
        ),
        Overload(
            "other",
            "aten::max.other(Tensor self, Tensor other) -> Tensor",
            "native",
            tags=(PT2,),
            kernels=("CompositeImplicitAutograd",),
            fake="composite",
            differentiable="composite",
        ),
        Overload(
            "out",
            "aten::max.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
            "native",
            tags=(PT2, "out"),
            kernels=("CompositeImplicitAutograd",),
            fake="composite",
            differentiable="no",
        ),
    ),
    names=("torch.max", "torch.Tensor.max"),
)
ADD = Name(
    "torch.add",
    "function",
    (
        Signature((SELF, Parameter("alpha", "Number"), OTHER), TENSOR, "", "aten::add.Tensor", "",
                  True, "torch.add(input, other, alpha=alpha)"),
        Signature((SELF, OTHER), TENSOR, operator="aten::add.Tensor"),
    ),
)  # fmt: skip
ADD_IN_PLACE = Name(
    "torch.Tensor.add_", "method", (Signature((OTHER,), TENSOR, operator="aten::add_.Tensor"),)
)
ADD_IN_PLACE_OPERATOR = Operator(
    "aten::add_",
    (
        Overload(
            "Tensor",
            "aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
            "native",
            tags=(PT2, "inplace"),
        ),
    ),
)
NONZERO = Name("torch.nonzero", "function", (Signature((SELF,), TENSOR),))
NONZERO_OPERATOR = Operator(
    "aten::nonzero",
    (
        Overload(
            "",
            "aten::nonzero(Tensor self) -> Tensor",
            "native",
            tags=(PT2, "dynamic_output_shape"),
            differentiable="no",
        ),
    ),
)
VIEW = Name(
    "torch.Tensor.view",
    "method",
    (
        Signature((Parameter("dtype", "torch.dtype"),), TENSOR, operator="aten::view.dtype"),
        Signature(
            (Parameter("size", "tuple of ints", variadic=True),), TENSOR, operator="aten::view"
        ),
    ),
)
DROPOUT = Name(
    "torch.nn.functional.dropout",
    "function",
    python="(input: Tensor, p: float = 0.5, *, inplace=False) -> Tensor",
    calls=("torch.dropout", "torch.dropout_"),
)
GELU = Name(
    "torch.nn.functional.gelu",
    "function",
    (
        Signature(
            (SELF, Parameter("approximate", "str", '"none"', True, choices=("none", "tanh"))),
            TENSOR,
        ),
    ),
)
CONV = Name("torch.conv2d", "function", (Signature((SELF,), TENSOR),))
CONV_ALIAS = Name("torch.nn.functional.conv2d", "function", alias="torch.conv2d")
LINEAR = Name("torch.nn.Linear", "class", python="(in_features, out_features)", summary="A layer.")
NN = Name("torch.nn", "module")
TRANSPOSED = Name("torch.Tensor.T", "property", (Signature((), TENSOR),))
FLOAT = Name("torch.float32", "dtype")
MANY = Name(
    "torch.many",
    "function",
    tuple(Signature((Parameter(f"p{number}", "int"),), TENSOR) for number in range(11)),
)
MINE = Operator(
    "mine::scale",
    (
        Overload(
            "",
            "mine::scale(Tensor(a!) x, float by=2.) -> ()",
            "registered",
            kernels=("CPU",),
            fake="missing",
            place="/project/ops.py:12",
        ),
    ),
)

ITEMS: tuple[Name | Operator, ...] = (
    MAX, MAX_METHOD, MAX_OPERATOR, ADD, ADD_IN_PLACE, ADD_IN_PLACE_OPERATOR, NONZERO,
    NONZERO_OPERATOR, VIEW, DROPOUT, GELU, CONV, CONV_ALIAS, LINEAR, NN, TRANSPOSED, FLOAT,
    MANY, MINE,
)  # fmt: skip

INDEX = OperatorIndex.from_items(ITEMS)


def write_index(path: Path, *, complete: bool = True) -> Path:
    """The same index in a file, as an engine writes it."""
    notes = () if complete else ("Documentation is not known yet.",)
    path.write_bytes(
        encode_index(
            map(entry_of, ITEMS), torch="2.13.0", complete=complete, overloads=8, notes=notes
        )
    )
    return path
