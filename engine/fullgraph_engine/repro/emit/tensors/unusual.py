"""Tensors that are no strided window on a storage: sparse, quantized, nested, conjugate."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import torch

from ....torch_internals import dispatcher
from ..unwritable import Unwritable
from .contents import is_fake
from .layouts import Layout, contiguous, hint
from .spelling import spelled
from .strided import Expression, Spec, spec_of

if TYPE_CHECKING:
    from ..values import Writing

_DENSE = 1 << 14
"""Up to how many elements a sparse tensor is written as a dense one that is converted."""

_SPARSE = (
    *(torch.sparse_coo, torch.sparse_csr, torch.sparse_csc),
    *(torch.sparse_bsr, torch.sparse_bsc),
)

_BITS = {1: torch.uint8, 2: torch.int16}
"""What dtypes are seen as that torch cannot put a number into: those of less than eight bits."""


def exotic(writing: Writing, value: torch.Tensor) -> str | None:
    """Tensors that are no strided window on a storage."""
    name = writing.refer(torch)
    sizes = tuple(hint(size) for size in value.size())
    grad = value.requires_grad

    def made(
        dtype: torch.dtype, device: torch.device = value.device, sizes: tuple[int, ...] = sizes
    ) -> str:
        layout = Layout(sizes, contiguous(sizes))
        spec = Spec(layout, dtype, device, False, True, False, None)
        return Expression(writing.draft, spec).text()

    if writing.draft.store is not None and value.layout in _SPARSE:
        text = _of_parts(writing, value, sizes)
    elif value.layout is torch.sparse_coo:
        dense = value.sparse_dim()
        if math.prod(sizes) <= _DENSE:
            text = f"{made(value.dtype)}.to_sparse({'' if dense == len(sizes) else dense})"
            text += "" if value.is_coalesced() else ".clone()"
        else:
            many = 1 if value.is_coalesced() else 2  # at the same place
            contents = made(value.dtype, sizes=(many, *sizes[dense:]))
            indices = f"{name}.zeros({dense}, {many}, dtype={name}.int64)"
            text = f"{name}.sparse_coo_tensor({indices}, {contents}, {sizes})"
    elif value.layout in (torch.sparse_csr, torch.sparse_csc):
        text = f"{made(value.dtype)}.to_{str(value.layout).removeprefix('torch.')}()"
    elif value.layout in (torch.sparse_bsr, torch.sparse_bsc):
        block = tuple(value.values().shape[-2:])
        text = f"{made(value.dtype)}.to_{str(value.layout).removeprefix('torch.')}({block})"
    elif value.is_mkldnn:
        text = f"{made(value.dtype)}.to_mkldnn()"
    elif value.layout is not torch.strided:
        raise Unwritable(f"a tensor of layout {value.layout} has no source text")
    elif value.is_quantized:
        if writing.draft.store is not None:
            return _of_integers(writing, value)
        return _quantized(name, value, made(torch.float32))
    elif not _has_numbers(value.dtype):
        bits = value.view(_BITS[value.dtype.itemsize])
        text = Expression(writing.draft, spec_of(bits)).text()
        return f"{text}.view({spelled(writing, value.dtype)})"
    elif value.is_complex() and value.is_conj():
        return f"{Expression(writing.draft, spec_of(value.conj())).text()}.conj()"
    elif value.is_neg():
        plain = Expression(writing.draft, spec_of(dispatcher.negative_view(value))).text()
        return f"{name}._neg_view({plain})"
    else:
        return None
    return f"{text}.requires_grad_()" if grad else text


def _of_parts(writing: Writing, value: torch.Tensor, sizes: tuple[int, ...]) -> str:
    """A sparse tensor as a call with the tensors that it consists of."""
    if value.layout is torch.sparse_coo:
        parts = [value._indices(), value._values()]
        made, said = "sparse_coo_tensor", f"is_coalesced={value.is_coalesced()}"
    elif value.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = [value.crow_indices(), value.col_indices(), value.values()]
        made, said = "sparse_compressed_tensor", f"layout={spelled(writing, value.layout)}"
    else:
        parts = [value.ccol_indices(), value.row_indices(), value.values()]
        made, said = "sparse_compressed_tensor", f"layout={spelled(writing, value.layout)}"
    texts = [Expression(writing.draft, spec_of(part.detach())).text() for part in parts]
    return f"{writing.refer(torch)}.{made}({', '.join(texts)}, {sizes}, {said})"


def _of_integers(writing: Writing, value: torch.Tensor) -> str:
    """A quantized tensor as a call with the integers that it consists of."""

    def written(part: torch.Tensor) -> str:
        return Expression(writing.draft, spec_of(part)).text()

    made, numbers = f"{writing.refer(torch)}._make_per", written(value.int_repr())
    if value.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        scale, zero = value.q_scale(), value.q_zero_point()
        return f"{made}_tensor_quantized_tensor({numbers}, {scale!r}, {zero})"
    if value.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
        scales, zeros = (
            written(value.q_per_channel_scales()),
            written(value.q_per_channel_zero_points()),
        )
        axis = value.q_per_channel_axis()
        return f"{made}_channel_quantized_tensor({numbers}, {scales}, {zeros}, {axis})"
    raise Unwritable(f"a tensor quantized by {value.qscheme()} has no source text")


@functools.cache
def _has_numbers(dtype: torch.dtype) -> bool:
    try:
        torch.ones(1, dtype=dtype)
    except NotImplementedError:
        return False
    return True


def _quantized(name: str, value: torch.Tensor, plain: str) -> str:
    dtype = f"{name}.{str(value.dtype).removeprefix('torch.')}"
    if value.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        scale, zero = value.q_scale(), value.q_zero_point()
        return f"{name}.quantize_per_tensor({plain}, {scale!r}, {zero}, {dtype})"
    if value.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
        scales = value.q_per_channel_scales().tolist()
        zeros = value.q_per_channel_zero_points().tolist()
        axis = value.q_per_channel_axis()
        return (
            f"{name}.quantize_per_channel({plain}, {name}.tensor({scales}), "
            f"{name}.tensor({zeros}), {axis}, {dtype})"
        )
    raise Unwritable(f"a tensor quantized by {value.qscheme()} has no source text")


def nested(writing: Writing, value: torch.Tensor) -> str:
    """Source text that makes a nested tensor of its unbound parts, strided or jagged.

    Raises:
        Unwritable: the tensor is fake.
    """
    name = writing.refer(torch)
    if is_fake(value) or any(is_fake(part) for part in value.unbind()):
        raise Unwritable("a nested tensor without contents has no source text")
    made = [Expression(writing.draft, spec_of(part.detach())).text() for part in value.unbind()]
    parts = ", ".join(made)
    layout = ", layout=torch.jagged" if value.layout is torch.jagged else ""
    grad = ", requires_grad=True" if value.requires_grad else ""
    return f"{name}.nested.nested_tensor([{parts}]{layout}{grad})"
