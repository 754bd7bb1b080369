"""Search for constructor arguments and input tensors with which a module runs without an
exception.
"""

from .search import FoundInputs, InputSearch, NotFound

__all__ = ["FoundInputs", "InputSearch", "NotFound"]
