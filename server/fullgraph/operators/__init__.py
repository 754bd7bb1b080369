"""What the code around a cursor means in terms of torch's operators.

Knows no LSP and no engine: texts and offsets in, entries of the index out.
"""

from .call import ActiveCall, Argument, call_at
from .dotted import Dotted, dotted_at
from .expressions import Certainty
from .imports import Imports
from .index import OperatorIndex
from .seen import Seen, SeenSpan
from .subject import Subject, subject_at

__all__ = [
    "ActiveCall",
    "Argument",
    "Certainty",
    "Dotted",
    "Imports",
    "OperatorIndex",
    "Seen",
    "SeenSpan",
    "Subject",
    "call_at",
    "dotted_at",
    "subject_at",
]
