"""Layouts of tensors in their storage, and the methods that convert one to another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..unwritable import UnwritableValue
from .spelling import comma_separated


@dataclass(frozen=True)
class Layout:
    """The positions of a strided tensor's elements in its storage."""

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
        raise UnwritableValue(f"the size {value} has no value")
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
    """Return method calls, like ``.t()``, that turn a tensor of layout ``base`` into ``wanted``."""
    if base == wanted:
        return "[:]" if base.sizes else ".view(())"
    for steps in _candidate_steps(base, wanted):
        if apply_steps(base, steps) == wanted:
            return steps
    return _as_strided_text(wanted)


def _candidate_steps(base: Layout, wanted: Layout) -> Iterator[str]:
    rank = len(wanted.sizes)
    if base.is_plain and wanted.offset == 0 and base.count == wanted.count:
        yield f".view({comma_separated(wanted.sizes) or '()'})"
    if rank == len(base.sizes):
        indices = _slice_text(base, wanted)
        if indices is not None:
            yield indices
    if rank < len(base.sizes):
        for dims in itertools.combinations(range(len(base.sizes)), len(base.sizes) - rank):
            indices = _slice_text(base, wanted, dims)
            if indices is not None:
                yield indices
    for first, second in itertools.combinations(range(rank), 2):
        yield ".t()" if rank == 2 else f".transpose({first}, {second})"
    if 2 < rank <= 5:
        for order in itertools.permutations(range(rank)):
            yield f".permute({comma_separated(order)})"


def _slice_text(base: Layout, wanted: Layout, selected: tuple[int, ...] = ()) -> str | None:
    """Return indexing such as ``[1:, ::2]`` that turns layout ``base`` into ``wanted``, or None.

    One index selects in each of the ``selected`` dimensions.
    """
    left = wanted.offset - base.offset
    kept = iter(zip(wanted.sizes, wanted.strides, strict=True))
    parts = []
    if left < 0:
        return None
    for dim, (size, stride) in enumerate(zip(base.sizes, base.strides, strict=True)):
        if stride <= 0:
            return None
        start, left = (min(left // stride, size - 1), left) if size else (0, left)
        left -= start * stride
        if dim in selected:
            parts.append(str(start))
            continue
        length, step = next(kept, (0, 0))
        if step % stride or length == 0:
            return None
        step = step // stride if length > 1 else 1
        stop = start + (length - 1) * step + 1
        if step < 1 or stop > size:
            return None
        begin = str(start) if start else ""
        end = "" if stop + step > size and step > 1 else str(stop) if stop < size else ""
        parts.append(f"{begin}:{end}:{step}" if step > 1 else f"{begin}:{end}")
    while len(parts) > 1 and parts[-1] == ":":
        parts.pop()
    return None if left else f"[{', '.join(parts)}]"


def apply_steps(base: Layout, steps: str) -> Layout | None:
    """Return the layout after these method calls on a tensor of layout ``base``.

    The calls run on a meta tensor. The result is None if they fail.
    """
    tensor = torch.empty(0, device="meta").as_strided(base.sizes, base.strides, base.offset)
    try:
        return layout_of(eval(f"tensor{steps}", {"tensor": tensor, "torch": torch}))
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None


def _as_strided_text(layout: Layout) -> str:
    offset = f", {layout.offset}" if layout.offset else ""
    return f".as_strided({layout.sizes}, {layout.strides}{offset})"


def dense_order(layout: Layout) -> tuple[int, ...] | None:
    """Return the dimensions from outermost to innermost in memory; None if there are gaps."""
    order = sorted(
        range(len(layout.sizes)), key=lambda dim: (-layout.strides[dim], -layout.sizes[dim], dim)
    )
    strides = contiguous_strides([layout.sizes[dim] for dim in order])
    if all(layout.strides[dim] == stride for dim, stride in zip(order, strides, strict=True)):
        return tuple(order)
    return None


def candidate_bases(layout: Layout, dense: tuple[int, ...] | None) -> Iterator[Layout]:
    """Yield contiguous layouts that have ``layout`` as a simple view."""
    if any(stride == 0 for stride in layout.strides):
        pairs = zip(layout.sizes, layout.strides, strict=True)
        sizes = tuple(1 if stride == 0 else size for size, stride in pairs)
        yield Layout(sizes, contiguous_strides(sizes))
    if dense is not None and layout.offset == 0:
        sizes = tuple(layout.sizes[dim] for dim in dense)
        yield Layout(sizes, contiguous_strides(sizes))
    if layout.count and layout.sizes:
        rows = _row_layout(layout)
        if rows is not None:
            yield rows
    extent = layout.extent
    yield Layout((extent,), (1,))


def _row_layout(layout: Layout) -> Layout | None:
    """Return the contiguous layout that ``layout`` slices in each dimension, or None."""
    outer = layout.strides[:-1]
    if min(layout.strides) < 1 or not outer:
        return None
    if any(stride % inner for stride, inner in itertools.pairwise(layout.strides)):
        return None
    inner_sizes = [stride // inner for stride, inner in itertools.pairwise(outer)]
    sizes = (-(-layout.extent // outer[0]), *inner_sizes, outer[-1])
    return Layout(sizes, contiguous_strides(sizes))


StorageKey = tuple[int, str]


@dataclass(frozen=True)
class Base:
    """A variable with the tensor that owns a storage; other tensors are written as its views."""

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
    """Record that a variable holds a tensor, so that later tensors become views of it."""
    key = storage_key(value)
    if key is None or key in storages or is_wrapper(value):
        return
    storages[key] = Base(name, layout_of(value), value.dtype, value.requires_grad)


def is_wrapper(value: torch.Tensor) -> bool:
    """Whether a tensor is a subclass that wraps other tensors."""
    return hasattr(value, "__tensor_flatten__") or value.layout is torch.jagged
