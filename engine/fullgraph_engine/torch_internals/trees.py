"""Nested containers of tensors, flattened as torch itself flattens them."""

from torch.utils import _pytree as pytree

__all__ = ["pytree"]
