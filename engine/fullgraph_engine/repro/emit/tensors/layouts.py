"""Layouts of tensors in their storage, and the methods that convert one to another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..unwritable import UnwritableValue
from .spelling import comma_separated


@dataclass(frozen=True)
class Layout:
    """The positions of a tensor's elements in its storage: sizes, strides and offset."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def count(self) -> int:
        return math.prod(self.sizes)

    @property
    def extent(self) -> int:
        """Number of elements that the storage must have."""
        if self.count == 0:
            return self.offset
        spans = zip(self.sizes, self.strides, strict=True)
        return self.offset + sum((size - 1) * stride for size, stride in spans) + 1

    @property
    def is_plain(self) -> bool:
        return self.offset == 0 and self.strides == contiguous_strides(self.sizes)


def contiguous_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a new contiguous tensor."""
    strides = [1] * len(sizes)
    for dim in range(len(sizes) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(sizes[dim + 1], 1)
    return tuple(strides)


def size_hint(value: Any) -> Any:
    """Return the number that a symbolic size has in the run (its hint), or a plain size itself."""
    node = getattr(value, "node", None)
    if node is None:
        return value
    known = getattr(node, "hint", None)
    if known is None:
        raise UnwritableValue(f"the symbolic size {value} has no known value")
    return known


def layout_of(value: torch.Tensor) -> Layout:
    """Return the sizes, strides and storage offset of a tensor, with hints for symbols.

    Raises:
        UnwritableValue: a symbol lacks a hint.
    """
    return Layout(
        tuple(size_hint(size) for size in value.size()),
        tuple(size_hint(stride) for stride in value.stride()),
        size_hint(value.storage_offset()),
    )


def steps_between(base: Layout, wanted: Layout) -> str:
    """Return method calls on a tensor of layout ``base``, like ``[1]``, that give the layout
    ``wanted``.
    """
    if base == wanted:
        return "[:]" if base.sizes else ".view(())"
    if base.is_plain and wanted.is_plain and base.count == wanted.count:
        return f".view({comma_separated(wanted.sizes) or '()'})"
    if base.sizes and base.strides[0] and base.sizes[1:] == wanted.sizes:
        index, rest = divmod(wanted.offset - base.offset, base.strides[0])
        if base.strides[1:] == wanted.strides and not rest and 0 <= index < base.sizes[0]:
            return f"[{index}]"
    offset = f", {wanted.offset}" if wanted.offset else ""
    return f".as_strided({wanted.sizes}, {wanted.strides}{offset})"


def new_base(layout: Layout) -> tuple[Layout, str]:
    """Return a contiguous layout for a new tensor, and method calls that turn it into ``layout``.

    The calls are an ``expand``, a permutation, or an ``as_strided``.
    """
    pairs = tuple(zip(layout.sizes, layout.strides, strict=True))
    single = tuple(1 if stride == 0 else size for size, stride in pairs)
    base = Layout(single, contiguous_strides(single))
    expanded = tuple(
        0 if new < size else stride
        for size, new, stride in zip(layout.sizes, single, base.strides, strict=True)
    )
    if not layout.offset and 0 in expanded and expanded == layout.strides:
        return base, f".expand({comma_separated(layout.sizes)})"
    dense = dense_order(layout)
    if dense is not None and not layout.offset:
        sizes = tuple(layout.sizes[dim] for dim in dense)
        order = [dense.index(dim) for dim in range(len(dense))]
        steps = ".t()" if order == [1, 0] else f".permute({comma_separated(order)})"
        return Layout(sizes, contiguous_strides(sizes)), steps
    base = Layout((layout.extent,), (1,))
    return base, steps_between(base, layout)


def dense_order(layout: Layout) -> tuple[int, ...] | None:
    """Return the dimensions from outermost to innermost in memory; None if there are gaps."""
    order = sorted(
        range(len(layout.sizes)), key=lambda dim: (-layout.strides[dim], -layout.sizes[dim], dim)
    )
    strides = contiguous_strides([layout.sizes[dim] for dim in order])
    if all(layout.strides[dim] == stride for dim, stride in zip(order, strides, strict=True)):
        return tuple(order)
    return None


StorageKey = tuple[int, str]


@dataclass(frozen=True)
class Base:
    """A variable whose tensor is the base of a storage.

    Other tensors in this storage are written as views of the variable.
    """

    name: str
    layout: Layout
    dtype: torch.dtype
    requires_grad: bool


def storage_key(value: torch.Tensor) -> StorageKey | None:
    """Return a key that tensors with the same memory share, or None for tensors without memory."""
    try:
        if value.layout != torch.strided or value.is_quantized or not value.numel():
            return None
        return (value.untyped_storage()._cdata, str(value.device))
    except (NotImplementedError, RuntimeError):
        return None


def remember_storage(storages: dict[StorageKey, Base], value: torch.Tensor, name: str) -> None:
    """Record that the variable ``name`` holds a tensor, so that later tensors become views of
    it.
    """
    key = storage_key(value)
    if key is None or key in storages or is_wrapper(value):
        return
    storages[key] = Base(name, layout_of(value), value.dtype, value.requires_grad)


def is_wrapper(value: torch.Tensor) -> bool:
    """Whether a tensor is a subclass that wraps other tensors."""
    return hasattr(value, "__tensor_flatten__") or value.layout is torch.jagged
