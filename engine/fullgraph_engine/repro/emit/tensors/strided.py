"""Expressions that create strided tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ...inputs.loading import NAME as STORED
from ..printer import ProgramBuilder
from .contents import (
    INTEGERS,
    READ,
    SIGNED,
    base_contents,
    evaluates_to,
    guess_expressions,
    is_exact,
    is_fake,
    is_mask,
    is_readable,
    is_unit,
    nested_lists,
    number_of,
    range_of,
)
from .layouts import (
    Layout,
    contiguous_strides,
    dense_order,
    layout_of,
    new_base,
)
from .spelling import as_arguments, as_tuple

INLINE = 16
"""Maximum number of tensor elements to write as literals."""

_CHANNELS_LAST = {4: "channels_last", 5: "channels_last_3d"}


@dataclass(frozen=True)
class Spec:
    """The properties of a tensor that its expression must recreate.

    ``data`` are its elements, or None if they are unknown.
    """

    layout: Layout
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    is_leaf: bool
    is_view: bool
    data: torch.Tensor | None


def spec_of(value: torch.Tensor) -> Spec:
    """Return the properties of a tensor that its expression must recreate."""
    data: torch.Tensor | None = None
    if is_fake(value):
        data = getattr(value, "constant", None)
    elif value.device.type != "meta":
        data = value.detach()
    return Spec(
        layout_of(value),
        value.dtype,
        value.device,
        value.requires_grad,
        value.is_leaf,
        value._is_view(),
        data,
    )


@dataclass(frozen=True)
class TensorExpression:
    """Writes a Python expression that creates a tensor with given strides."""

    program: ProgramBuilder
    spec: Spec

    def text(self) -> str:
        spec = self.spec
        layout = spec.layout
        inner = spec.requires_grad and not spec.is_leaf
        if layout.is_plain:
            text = self.new_tensor_text(layout.sizes, spec.data, grad=spec.requires_grad)
            return f"{text}.clone()" if inner else text
        base, steps, data = self.steps()
        text = f"{self.new_tensor_text(base.sizes, data, grad=inner)}{steps}"
        return f"{text}.requires_grad_()" if spec.requires_grad and not inner else text

    def steps(self) -> tuple[Layout, str, torch.Tensor | None]:
        """Return how to create the required tensor from a simpler one.

        The result has three parts: the layout of the simpler tensor, the source text of method
        calls on it such as ``.view(4)``, and its elements (None if unknown).
        """
        layout, data = self.spec.layout, self.spec.data
        owns = not self.spec.is_view and not layout.offset and dense_order(layout) is not None
        name = _CHANNELS_LAST.get(len(layout.sizes))
        if owns and name is not None:
            made = torch.empty(layout.sizes, device="meta", memory_format=getattr(torch, name))
            if made.stride() == layout.strides:
                plain = Layout(layout.sizes, contiguous_strides(layout.sizes))
                return plain, f".to(memory_format=torch.{name})", data
        base, steps = new_base(layout)
        # ``clone`` keeps the strides of a tensor without gaps.
        return base, f"{steps}.clone()" if owns else steps, base_contents(data, base, layout)

    def new_tensor_text(
        self, sizes: tuple[int, ...], data: torch.Tensor | None, *, grad: bool
    ) -> str:
        """Return an expression for a new contiguous tensor with these sizes and elements.

        The dtype and device are taken from the required tensor; ``grad`` sets ``requires_grad``.
        """
        spec = self.spec
        where = "" if spec.device.type == "cpu" else f', device="{spec.device}"'
        now = ", requires_grad=True" if grad else ""
        known = self.contents_text(sizes, data, where, now)
        if known is not None:
            return known
        if spec.dtype.is_floating_point or spec.dtype.is_complex:
            text = self.floating_text(sizes, data, where, now)
        else:
            text = self.integer_text(sizes, data, where)
        return with_contents(self.program, text, data)

    def floating_text(
        self, sizes: tuple[int, ...], data: torch.Tensor | None, where: str, now: str
    ) -> str:
        spec = self.spec
        late = ".requires_grad_()" if now else ""
        dtype = f", dtype={spec.dtype}"
        dtype_argument = "" if spec.dtype == torch.float32 else dtype
        if spec.dtype.is_floating_point and spec.dtype.itemsize < 2:
            return f"torch.randn({as_arguments(sizes)}{where}).to({spec.dtype}){late}"
        if is_mask(data) and len(sizes) > 1:
            # A triangular mask may mask other positions, but it never masks a complete row.
            whole = f'torch.full({as_tuple(sizes)}, float("-inf"){dtype_argument}{where})'
            return f"{whole}.triu(1){late}"
        name = "rand" if is_unit(data) else "randn"
        return f"torch.{name}({as_arguments(sizes)}{dtype_argument}{where}{now})"

    def integer_text(self, sizes: tuple[int, ...], data: torch.Tensor | None, where: str) -> str:
        spec = self.spec
        dtype = f", dtype={spec.dtype}"
        if spec.dtype == torch.bool:
            return f"(torch.rand({as_arguments(sizes)}{where}) > 0.5)"
        if spec.dtype not in INTEGERS:
            return f"torch.empty({as_arguments(sizes)}{dtype}{where})"
        low, high = range_of(data)
        dtype_argument = "" if spec.dtype == torch.int64 else dtype
        bounds = f"{high + 1}" if low == 0 else f"{low}, {high + 1}"
        if high + 1 < 1 << 63 and spec.dtype in SIGNED:
            return f"torch.randint({bounds}, {as_tuple(sizes)}{dtype_argument}{where})"
        bounds = f"{max(low, 0)}, {min(high, (1 << 62)) + 1}"
        return f"torch.randint({bounds}, {as_tuple(sizes)}{where}).to({spec.dtype})"

    def contents_text(
        self, sizes: tuple[int, ...], data: torch.Tensor | None, where: str, now: str
    ) -> str | None:
        """Return an expression with the exact elements ``data``; None if they are neither few nor
        regular.

        ``where`` (the device) and ``now`` (``requires_grad``) are the text of keyword arguments to
        append.
        """
        spec = self.spec
        floating = spec.dtype.is_floating_point or spec.dtype.is_complex
        dtype = "" if spec.dtype == torch.float32 else f", dtype={spec.dtype}"
        count = math.prod(sizes)
        if count == 0:
            return f"torch.empty({as_arguments(sizes)}{dtype}{where}{now})"
        if data is None:
            if floating:
                return None
            if spec.dtype == torch.bool:
                return f"torch.ones({as_arguments(sizes)}{dtype}{where})"
            if not sizes and spec.dtype in SIGNED:
                return f"torch.tensor(1{'' if spec.dtype == torch.int64 else dtype}{where})"
            return None
        if count > READ or not is_readable(data):
            return None
        patterns: list[str] = []
        data = data.reshape(sizes) if data.numel() == count else data
        first = number_of(data.flatten()[0])
        written = INLINE if self.program.store is not None or not floating else 1
        if count <= written and is_exact(first, data.flatten()[0]):
            numbers = nested_lists(data)
            implied = spec.dtype in (torch.int64, torch.bool, torch.float32, torch.complex64)
            patterns.append(f"torch.tensor({numbers}{'' if implied else dtype}{where}{now})")
        patterns += guess_expressions(sizes, first, dtype, where, now, data)
        patterns.sort(key=len)
        for text in patterns:
            if evaluates_to(text, data):
                return text
        return None


def with_contents(program: ProgramBuilder, text: str, data: torch.Tensor | None) -> str:
    """Wrap the expression ``text`` in a call that loads ``data``, if tensor data is stored in
    files.
    """
    if program.store is None or data is None or not is_readable(data):
        return text
    name = program.store.save(data)
    if name is None:
        program.note(
            f"only {program.store.most >> 20} MiB of tensor data are saved; other tensors get "
            "random values"
        )
        return text
    return f'{STORED}("{name}", {text})'
