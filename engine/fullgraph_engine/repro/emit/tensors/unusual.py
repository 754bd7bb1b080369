"""Unusual tensors: sparse, quantized, nested or conjugate."""

from __future__ import annotations

import functools
import math

import torch

from ....torch_internals import dispatcher
from ..printer import Printer
from ..unwritable import UnwritableValue
from .contents import is_fake
from .layouts import Layout, contiguous_strides, size_hint
from .strided import Spec, TensorExpression, spec_of

_DENSE = 1 << 14
"""Maximum number of elements of a sparse tensor to write as the conversion of a dense tensor."""

_SPARSE = (
    *(torch.sparse_coo, torch.sparse_csr, torch.sparse_csc),
    *(torch.sparse_bsr, torch.sparse_bsc),
)

_BITS = {1: torch.uint8, 2: torch.int16}
"""Integer dtypes, by element size in bytes, in which the bits of narrow dtypes are written.

Torch cannot create tensors of the narrow dtypes from numbers.
"""


def unusual_tensor_text(printer: Printer, value: torch.Tensor) -> str | None:
    """Return an expression for a sparse, quantized, nested or conjugate tensor; None for others."""
    sizes = tuple(size_hint(size) for size in value.size())
    grad = value.requires_grad

    def dense_text(dtype: torch.dtype, sizes: tuple[int, ...] = sizes) -> str:
        layout = Layout(sizes, contiguous_strides(sizes))
        spec = Spec(layout, dtype, value.device, False, True, False, None)
        return TensorExpression(printer.program, spec).text()

    if printer.program.store is not None and value.layout in _SPARSE:
        text = _sparse_parts_text(printer, value, sizes)
    elif value.layout is torch.sparse_coo:
        dense = value.sparse_dim()
        if math.prod(sizes) <= _DENSE:
            text = f"{dense_text(value.dtype)}.to_sparse({'' if dense == len(sizes) else dense})"
            text += "" if value.is_coalesced() else ".clone()"
        else:
            many = 1 if value.is_coalesced() else 2  # uncoalesced: two values at one index
            contents = dense_text(value.dtype, sizes=(many, *sizes[dense:]))
            indices = f"torch.zeros({dense}, {many}, dtype=torch.int64)"
            text = f"torch.sparse_coo_tensor({indices}, {contents}, {sizes})"
    elif value.layout in (torch.sparse_csr, torch.sparse_csc):
        text = f"{dense_text(value.dtype)}.to_{str(value.layout).removeprefix('torch.')}()"
    elif value.layout in (torch.sparse_bsr, torch.sparse_bsc):
        block = tuple(value.values().shape[-2:])
        text = f"{dense_text(value.dtype)}.to_{str(value.layout).removeprefix('torch.')}({block})"
    elif value.is_mkldnn:
        text = f"{dense_text(value.dtype)}.to_mkldnn()"
    elif value.layout is not torch.strided:
        raise UnwritableValue(f"a tensor of layout {value.layout} cannot be written as code")
    elif value.is_quantized:
        return _quantized_text(printer, value)
    elif not _has_numbers(value.dtype):
        bits = value.view(_BITS[value.dtype.itemsize])
        text = TensorExpression(printer.program, spec_of(bits)).text()
        return f"{text}.view({value.dtype})"
    elif value.is_complex() and value.is_conj():
        return f"{TensorExpression(printer.program, spec_of(value.conj())).text()}.conj()"
    elif value.is_neg():
        plain = TensorExpression(printer.program, spec_of(dispatcher.negative_view(value))).text()
        return f"torch._neg_view({plain})"
    else:
        return None
    return f"{text}.requires_grad_()" if grad else text


def _sparse_parts_text(printer: Printer, value: torch.Tensor, sizes: tuple[int, ...]) -> str:
    """Return a call that builds a sparse tensor from its indices and values."""
    if value.layout is torch.sparse_coo:
        parts = [value._indices(), value._values()]
        made, option = "sparse_coo_tensor", f"is_coalesced={value.is_coalesced()}"
    else:
        made, option = "sparse_compressed_tensor", f"layout={value.layout}"
        by_rows = value.layout in (torch.sparse_csr, torch.sparse_bsr)
        indices = ("crow_indices", "col_indices") if by_rows else ("ccol_indices", "row_indices")
        parts = [getattr(value, name)() for name in (*indices, "values")]
    texts = [TensorExpression(printer.program, spec_of(part.detach())).text() for part in parts]
    return f"torch.{made}({', '.join(texts)}, {sizes}, {option})"


def _quantized_text(printer: Printer, value: torch.Tensor) -> str:
    """Return a call that builds a quantized tensor from its integers."""
    numbers = TensorExpression(printer.program, spec_of(value.int_repr())).text()
    if value.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        rest = f"{value.q_scale()!r}, {value.q_zero_point()}"
        return f"torch._make_per_tensor_quantized_tensor({numbers}, {rest})"
    if value.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
        parts = (value.q_per_channel_scales(), value.q_per_channel_zero_points())
        shown = [f"torch.tensor({part.tolist()}, dtype={part.dtype})" for part in parts]
        rest = f"{', '.join(shown)}, {value.q_per_channel_axis()}"
        return f"torch._make_per_channel_quantized_tensor({numbers}, {rest})"
    raise UnwritableValue(f"a tensor quantized by {value.qscheme()} cannot be written as code")


@functools.cache
def _has_numbers(dtype: torch.dtype) -> bool:
    try:
        torch.ones(1, dtype=dtype)
    except NotImplementedError:
        return False
    return True


def nested_tensor_text(printer: Printer, value: torch.Tensor) -> str:
    """Return an expression for a nested tensor, strided or jagged, from its component tensors.

    Raises:
        UnwritableValue: the tensor is fake.
    """
    if is_fake(value) or any(is_fake(part) for part in value.unbind()):
        raise UnwritableValue("a nested tensor without contents cannot be written as code")
    made = [
        TensorExpression(printer.program, spec_of(part.detach())).text() for part in value.unbind()
    ]
    parts = ", ".join(made)
    layout = ", layout=torch.jagged" if value.layout is torch.jagged else ""
    grad = ", requires_grad=True" if value.requires_grad else ""
    return f"torch.nested.nested_tensor([{parts}]{layout}{grad})"
