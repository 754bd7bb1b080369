"""Functorch's minifier, which reduces graphs on which a backend fails."""

from torch._functorch.fx_minifier import minifier

__all__ = ["minifier"]
