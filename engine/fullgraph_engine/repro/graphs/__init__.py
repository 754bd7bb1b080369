"""Repros of one graph: a backend that fails on it, or that gives wrong numbers for it."""

from .candidates import sow
from .minimize import Shrinking

__all__ = ["Shrinking", "sow"]
