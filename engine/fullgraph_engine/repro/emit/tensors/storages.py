"""Tensors that share memory, written as views of one variable for their storage."""

from __future__ import annotations

import torch

from ..printer import Printer, ProgramBuilder
from ..unwritable import UnwritableValue
from .contents import is_fake
from .layouts import Base, Layout, is_wrapper, layout_of, steps_between, storage_key
from .strided import Spec, TensorExpression


def name_base(program: ProgramBuilder, value: object) -> None:
    """Assign a tensor's storage to a new variable, if the tensor does not cover the whole storage.

    The tensor can then be written as a view of the variable.
    """
    if not isinstance(value, torch.Tensor) or is_wrapper(value):
        return
    key = storage_key(value)
    if key is None or key in program.written.storages:
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
    name = program.fresh_name("base")
    program.add(f"{name} = {TensorExpression(program, spec).text()}")
    program.written.storages[key] = Base(name, whole, value.dtype, grad)


def view_of_known(printer: Printer, value: torch.Tensor) -> str | None:
    """Return an expression for a tensor as a view of a variable that holds its storage, or None."""
    key = storage_key(value)
    base = None if key is None else printer.program.written.storages.get(key)
    if base is None:
        return None
    text = base.name
    layout = base.layout
    if base.requires_grad and (value.is_leaf or not value.requires_grad):
        text += ".detach()"
    if base.dtype != value.dtype:
        text += f".view({value.dtype})"
        scale = base.dtype.itemsize / value.dtype.itemsize
        layout = Layout((int(layout.count * scale),), (1,), int(layout.offset * scale))
        if not base.layout.is_plain:
            raise UnwritableValue("two tensors of different dtypes share parts of a storage")
        if len(base.layout.sizes) != 1:
            text = text.replace(".view(", ".flatten().view(", 1)
    text += steps_between(layout, layout_of(value))
    if value.requires_grad and value.is_leaf:
        text += ".requires_grad_()"
    return text
