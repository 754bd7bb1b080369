"""Search for constructor arguments and tensors with which a module runs."""

from .search import FoundInputs, InputSearch, NotFound

__all__ = ["FoundInputs", "InputSearch", "NotFound"]
