"""Find, split and complete the probes in the comments of a text that may be incomplete.

A probe is the text after ``# fullgraph:`` that describes the inputs a function or class is traced
with. Lines are zero-based, and offsets are code points in a line. The engine decides what a probe
means and whether it suits the function.
"""

from fullgraph.probes.comments import (
    ProbeComment,
    comment_on,
    comments_of,
    definition_of,
)
from fullgraph.probes.completion import complete_probe
from fullgraph.probes.scope import scope_at
from fullgraph.probes.tokens import probe_tokens

__all__ = [
    "ProbeComment",
    "comment_on",
    "comments_of",
    "complete_probe",
    "definition_of",
    "probe_tokens",
    "scope_at",
]
