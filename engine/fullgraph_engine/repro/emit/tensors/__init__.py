"""Tensors as expressions: random where the contents say nothing, and else as they are.

Shape, dtype, device, strides, gradness and leafness are kept. Contents are kept where they decide
what happens: small integers and booleans, constants, masks; of larger integers the range. A draft
with a store keeps all: few numbers in the text, many in a file that the program loads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from ....torch_internals import dispatcher
from ..unwritable import Unwritable
from .contents import is_fake
from .layouts import Layout, hint, layout_of
from .spelling import spelled
from .storages import Base, StorageKey, is_wrapper, name_base, remember, storage_key, view_of_known
from .strided import INLINE, Expression, spec_of, with_contents
from .unusual import exotic, nested

if TYPE_CHECKING:
    from ..values import Writing

__all__ = [
    "INLINE",
    "Base",
    "Layout",
    "StorageKey",
    "buffer",
    "hint",
    "is_fake",
    "is_uninitialized",
    "layout_of",
    "name_base",
    "parameter",
    "refilled",
    "remember",
    "spelled",
    "storage_key",
    "written",
]


def is_uninitialized(value: object) -> bool:
    """Whether the shape of a parameter is not known before the first call."""
    return hasattr(value, "materialize") and isinstance(value, torch.Tensor)


def written(writing: Writing, value: torch.Tensor, place: str | None) -> str:
    """An expression for a tensor or a parameter."""
    kind = type(value)
    name = writing.refer(torch)
    if dispatcher.is_functorch_wrapped(value):
        raise Unwritable("a tensor inside a functorch transform has no source text")
    if is_uninitialized(value):
        return f"{name}.nn.parameter.{kind.__name__}()"
    if isinstance(value, torch.nn.Parameter) or getattr(value, "_is_param", False):
        return parameter(writing, value)
    if value.is_nested or value.layout is torch.jagged:
        return nested(writing, value)
    if is_wrapper(value) and not is_fake(value):
        raise Unwritable(f"a {kind.__module__}.{kind.__qualname__} has no source text")
    text = exotic(writing, value)
    if text is None:
        text = view_of_known(writing, value)
    if text is None:
        text = Expression(writing.draft, spec_of(value)).text()
    if kind is not torch.Tensor and not is_fake(value) and not hasattr(value, "_is_buffer"):
        text = f"{text}.as_subclass({writing.refer(kind)})"
    return text


def parameter(writing: Writing, value: torch.Tensor) -> str:
    """``torch.nn.Parameter(…)``, with the dtype and on the device that are not set later."""
    spec = spec_of(value)
    made = replace(spec, requires_grad=False, is_leaf=True, dtype=writing.outer.written(spec.dtype))
    if spec.dtype != made.dtype and made.data is not None:
        made = replace(made, data=made.data.to(made.dtype))
    if writing.outer.device is not None:
        made = replace(made, device=torch.device("cpu"))
    name = writing.refer(torch)
    kind = type(value)
    owner = f"{name}.nn.Parameter"
    if kind is not torch.nn.Parameter and not is_fake(value) and not hasattr(value, "_is_param"):
        owner = writing.refer(kind)
    frozen = "" if value.requires_grad else ", requires_grad=False"
    return f"{owner}({Expression(writing.draft, made).text()}{frozen})"


def buffer(writing: Writing, value: torch.Tensor) -> str:
    """A buffer, which a later ``.to`` of its module converts."""
    if type(value) is not torch.Tensor and not is_fake(value):
        return writing.expression(value, None)
    spec = spec_of(value)
    made = replace(spec, dtype=writing.outer.written(spec.dtype))
    if made.dtype != spec.dtype and made.data is not None:
        made = replace(made, data=made.data.to(made.dtype))
    if writing.outer.device is not None:
        made = replace(made, device=torch.device("cpu"))
    if value.layout is not torch.strided or value.is_quantized:
        return writing.expression(value, None)
    return Expression(writing.draft, made).text()


def refilled(writing: Writing, value: torch.Tensor) -> str:
    """The statement that gives a tensor at ``{0}`` the contents of ``value``; empty if nothing is
    known of them, or there is no room."""
    data = spec_of(value).data
    if data is None or not data.numel():
        return ""
    plain = replace(spec_of(value), device=torch.device("cpu"))
    known = Expression(writing.draft, plain).known(plain.layout.sizes, data.cpu(), "", "")
    if known is not None:
        return f"{{0}}.data.copy_({known})"
    text = with_contents(writing.draft, "{0}", data)
    return "" if text == "{0}" else text
