"""Minimal scripts for one graph on which a backend fails or returns wrong numbers."""

from .candidates import extract_graphs
from .minimize import GraphMinimizer

__all__ = ["GraphMinimizer", "extract_graphs"]
