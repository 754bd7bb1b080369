"""Search for constructor arguments and input tensors with which a module runs without an
exception.
"""

from .certain import CertainError
from .search import FoundInputs, InputSearch, NotFound

__all__ = ["CertainError", "FoundInputs", "InputSearch", "NotFound"]
