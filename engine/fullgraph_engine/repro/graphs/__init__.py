"""Repros of one graph: a backend that fails on it, or that gives wrong numbers for it."""

from .candidates import extract
from .minimize import Minimizer

__all__ = ["Minimizer", "extract"]
