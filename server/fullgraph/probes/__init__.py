"""Probe comments as they stand in a text that may be unfinished: where, and of which definition.

Lines are zero-based, offsets are code points in a line. What a probe means, and whether it fits,
the engine says.
"""

from fullgraph.probes.comments import (
    ProbeComment,
    comment_on,
    comments_of,
    definition_of,
    number_of,
)

__all__ = ["ProbeComment", "comment_on", "comments_of", "definition_of", "number_of"]
