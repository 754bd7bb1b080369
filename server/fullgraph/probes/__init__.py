"""Probe comments as they stand in a text that may be unfinished: where, and of which definition.

Lines are zero-based, offsets are code points in a line. What a probe means, and whether it fits,
the engine says.
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
