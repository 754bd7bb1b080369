"""Inputs found by trying: constructor arguments and tensors under which a module runs."""

from .search import Found, NotFound, Search

__all__ = ["Found", "NotFound", "Search"]
