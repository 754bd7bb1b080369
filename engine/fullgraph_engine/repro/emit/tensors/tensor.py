"""Tensors, parameters and buffers written as expressions."""

from __future__ import annotations

from dataclasses import replace

import torch

from ....torch_internals import dispatcher
from ..printer import Printer
from ..unwritable import UnwritableValue
from .contents import is_fake, is_uninitialized
from .layouts import is_wrapper
from .storages import view_of_known
from .strided import Spec, TensorExpression, spec_of, with_contents
from .unusual import nested_tensor_text, unusual_tensor_text


def write_tensor(printer: Printer, value: torch.Tensor, path: str | None) -> str:
    """Return an expression that recreates a tensor or a parameter.

    ``path`` is the path to the tensor in the written value, such as ``.weight``; None if it cannot
    be assigned.
    """
    kind = type(value)
    if dispatcher.is_functorch_wrapped(value):
        raise UnwritableValue("a tensor inside a functorch transform cannot be written as code")
    if is_uninitialized(value):
        return f"torch.nn.parameter.{kind.__name__}()"
    if isinstance(value, torch.nn.Parameter) or getattr(value, "_is_param", False):
        return parameter_text(printer, value)
    if value.is_nested or value.layout is torch.jagged:
        return nested_tensor_text(printer, value)
    if is_wrapper(value) and not is_fake(value):
        raise UnwritableValue(f"a {kind.__module__}.{kind.__qualname__} cannot be written as code")
    text = unusual_tensor_text(printer, value)
    if text is None:
        text = view_of_known(printer, value)
    if text is None:
        text = TensorExpression(printer.program, spec_of(value)).text()
    if kind is not torch.Tensor and not is_fake(value) and not hasattr(value, "_is_buffer"):
        text = f"{text}.as_subclass({printer.refer_to(kind)})"
    return text


def parameter_text(printer: Printer, value: torch.Tensor) -> str:
    """Return a call of ``torch.nn.Parameter`` that recreates a parameter.

    The new parameter may have another dtype, if a later ``.to`` call on the module converts it.
    """
    made = replace(_inner_spec(printer, value), requires_grad=False, is_leaf=True)
    kind = type(value)
    owner = "torch.nn.Parameter"
    if kind is not torch.nn.Parameter and not is_fake(value) and not hasattr(value, "_is_param"):
        owner = printer.refer_to(kind)
    frozen = "" if value.requires_grad else ", requires_grad=False"
    return f"{owner}({TensorExpression(printer.program, made).text()}{frozen})"


def buffer_text(printer: Printer, value: torch.Tensor) -> str:
    """Return an expression that recreates a buffer of a module.

    The new buffer may have another dtype, if a later ``.to`` call on the module converts it.
    """
    if type(value) is not torch.Tensor and not is_fake(value):
        return printer.expression(value, None)
    if value.layout is not torch.strided or value.is_quantized:
        return printer.expression(value, None)
    return TensorExpression(printer.program, _inner_spec(printer, value)).text()


def _inner_spec(printer: Printer, value: torch.Tensor) -> Spec:
    """Return the properties with which to create a parameter or buffer of a module.

    If a later call on the whole module converts the dtype or device, the tensor is created as
    float32 or on the CPU.
    """
    spec, outer = spec_of(value), printer.outer
    dtype = outer.creation_dtype(spec.dtype)
    data = None if spec.data is None else spec.data.to(dtype)
    device = spec.device if outer.device is None else torch.device("cpu")
    return replace(spec, dtype=dtype, data=data, device=device)


def refill_statement(printer: Printer, value: torch.Tensor) -> str:
    """Return a statement that copies the contents of ``value`` into a new tensor.

    In the statement, ``{0}`` stands for the new tensor. Return "" if the contents are unknown.
    """
    data = spec_of(value).data
    if data is None or not data.numel():
        return ""
    plain = replace(spec_of(value), device=torch.device("cpu"))
    known = TensorExpression(printer.program, plain).contents_text(
        plain.layout.sizes, data.cpu(), "", ""
    )
    if known is not None:
        return f"{{0}}.data.copy_({known})"
    text = with_contents(printer.program, "{0}", data)
    return "" if text == "{0}" else text
