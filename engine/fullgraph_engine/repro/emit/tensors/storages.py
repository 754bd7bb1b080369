"""Tensors that share memory: the first has a name, others are written as views of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..unwritable import Unwritable
from .contents import is_fake
from .layouts import Layout, layout_of, steps_between
from .spelling import spelled
from .strided import Expression, Spec

if TYPE_CHECKING:
    from ..program import Draft
    from ..values import Writing

StorageKey = tuple[int, str]


@dataclass(frozen=True)
class Base:
    """A tensor with a name, of whose storage others are views."""

    name: str
    layout: Layout
    dtype: torch.dtype
    requires_grad: bool


def storage_key(value: torch.Tensor) -> StorageKey | None:
    """What two tensors have in common that share memory; None where there is nothing to share."""
    try:
        if value.layout != torch.strided or value.is_quantized or not value.numel():
            return None
        return (value.untyped_storage()._cdata, str(value.device))
    except (NotImplementedError, RuntimeError):
        return None


def remember(storages: dict[StorageKey, Base], value: torch.Tensor, name: str) -> None:
    """``name`` is ``value``; the next tensor with its storage is written as a view of it."""
    key = storage_key(value)
    if key is None or key in storages or is_wrapper(value):
        return
    storages[key] = Base(name, layout_of(value), value.dtype, value.requires_grad)


def name_base(draft: Draft, value: object) -> None:
    """Give the storage of ``value`` a name, if ``value`` is only a part of it."""
    if not isinstance(value, torch.Tensor) or is_wrapper(value):
        return
    key = storage_key(value)
    if key is None or key in draft.written.storages:
        return
    count = value.untyped_storage().nbytes() // value.dtype.itemsize
    layout = layout_of(value)
    if layout.is_plain and layout.count == count:
        return
    base = value._base
    whole = Layout((count,), (1,))
    if base is not None and base.dtype == value.dtype:
        of_base = layout_of(base)
        if of_base.is_plain and of_base.count == count:
            whole = of_base
    data = None
    if not is_fake(value) and value.device.type != "meta":
        flat = torch.empty(0, dtype=value.dtype, device=value.device)
        data = flat.set_(value.untyped_storage(), 0, whole.sizes, whole.strides)
    grad = value.requires_grad and not value.is_leaf
    spec = Spec(whole, value.dtype, value.device, grad, True, False, data)
    name = draft.fresh("base")
    draft.add(f"{name} = {Expression(draft, spec).text()}")
    draft.written.storages[key] = Base(name, whole, value.dtype, grad)


def view_of_known(writing: Writing, value: torch.Tensor) -> str | None:
    """``value`` as a view of a tensor of the program with the same storage."""
    key = storage_key(value)
    base = None if key is None else writing.draft.written.storages.get(key)
    if base is None:
        return None
    text = base.name
    layout = base.layout
    if base.requires_grad and (value.is_leaf or not value.requires_grad):
        text += ".detach()"
    if base.dtype != value.dtype:
        text += f".view({spelled(writing, value.dtype)})"
        scale = base.dtype.itemsize / value.dtype.itemsize
        layout = Layout((int(layout.count * scale),), (1,), int(layout.offset * scale))
        if not base.layout.is_plain:
            raise Unwritable("two tensors of different dtypes share a storage in parts")
        if len(base.layout.sizes) != 1:
            text = text.replace(".view(", ".flatten().view(", 1)
    text += steps_between(layout, layout_of(value))
    if value.requires_grad and value.is_leaf:
        text += ".requires_grad_()"
    return text


def is_wrapper(value: torch.Tensor) -> bool:
    """A subclass that holds other tensors in the place of a storage."""
    return hasattr(value, "__tensor_flatten__") or value.layout is torch.jagged
