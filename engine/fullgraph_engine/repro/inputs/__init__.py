"""Tensor data in files that a script loads.

The contents of tensors are saved in a folder next to the script, in files named by a hash. The
script contains a small loader function that needs only torch and the standard library.
"""

from .loading import NAME, data_note, load_calls, loader_imports, loader_text, needed_files
from .store import TensorStore

__all__ = [
    "NAME",
    "TensorStore",
    "data_note",
    "load_calls",
    "loader_imports",
    "loader_text",
    "needed_files",
]
