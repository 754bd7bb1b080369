"""Repros of one graph: a backend that fails on it, or that gives wrong numbers for it."""

from .shrinking import Shrinking
from .sowing import sow

__all__ = ["Shrinking", "sow"]
