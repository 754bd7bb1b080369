"""Torch's functions that flatten nested containers of tensors (pytree)."""

from torch.utils import _pytree as pytree

__all__ = ["pytree"]
