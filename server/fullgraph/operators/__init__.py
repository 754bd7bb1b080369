"""Resolve the code at a cursor to operators of torch, using the operator index.

These modules know neither LSP nor the engine: they take texts and offsets, and return index
entries.
"""

from .call import ActiveCall, CallArgument, call_at
from .dotted import DottedName, dotted_at
from .expressions import Certainty
from .imports import Imports
from .index import OperatorIndex
from .seen import Seen, SeenSpan
from .subject import Subject, subject_at

__all__ = [
    "ActiveCall",
    "CallArgument",
    "Certainty",
    "DottedName",
    "Imports",
    "OperatorIndex",
    "Seen",
    "SeenSpan",
    "Subject",
    "call_at",
    "dotted_at",
    "subject_at",
]
