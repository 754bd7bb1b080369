"""The comment that both sides read: for the engine it is no probe, and the server obeys it."""

from __future__ import annotations

import re

IGNORE = re.compile(r"#\s*fullgraph:[ \t]*ignore(?:\[(?P<codes>[^\]#]*)\])?[ \t]*(?=#|$)")
"""``# fullgraph: ignore[CODE, …]`` behind a line of code hides findings of the line; without codes
all of them."""
