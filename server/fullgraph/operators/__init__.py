"""Resolve the code at a cursor to names and operators of torch, for hover, completion and
signature help.

The operator index lists these names and operators. The modules use neither LSP nor the engine: they
take texts and offsets, and return entries of the index.
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
