"""Repros of one graph: a backend that fails on it, or that gives wrong numbers for it."""

from .shrinking import shrink
from .sowing import sow

__all__ = ["shrink", "sow"]
