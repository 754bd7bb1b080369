"""Functorch's minifier of graphs that a backend fails on."""

from torch._functorch.fx_minifier import minifier

__all__ = ["minifier"]
