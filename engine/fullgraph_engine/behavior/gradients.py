"""Compute gradients that depend on each element of a result."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

import torch


def gradients_of_outputs(
    ends: Sequence[torch.Tensor],
    starts: Sequence[torch.Tensor],
    *,
    names: Iterable[str] | None = None,
    retain_graph: bool = False,
) -> list[torch.Tensor | None]:
    """Return the gradients of a weighted sum of the tensors ``ends`` with respect to ``starts``.

    The result is empty if ``ends`` or ``starts`` is empty. A gradient is None if no tensor of
    ``ends`` depends on that tensor of ``starts``. The random weights depend on the ``names`` of the
    tensors, by default on their indices. Exceptions of ``torch.autograd.grad`` propagate.
    """
    if not ends or not starts:
        return []
    weights = list(map(gradient_weights, ends, names or map(str, range(len(ends)))))
    return list(
        torch.autograd.grad(ends, starts, weights, retain_graph=retain_graph, allow_unused=True)
    )


def gradient_weights(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Return random numbers in the shape of a result, which its backward pass starts from.

    With equal weights, gradients would cancel out behind a softmax or a normalization, and only
    rounding would be left. The seed depends only on ``name``. Each number is exact in every
    floating-point dtype of 16 bits or more. A tensor of a subclass has equal weights.
    """
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return torch.ones_like(tensor)
    generator = torch.Generator("cpu").manual_seed(zlib.crc32(name.encode()))
    weights = torch.randn(tensor.shape, generator=generator, dtype=torch.float32, device="cpu")
    return ((weights * 16).round() / 16 + 1 / 32).to(tensor.dtype).to(tensor.device)
