"""Comments other than probes: to hide findings, and to give a program its arguments."""

from __future__ import annotations

import re

IGNORE = re.compile(r"#\s*fullgraph:[ \t]*ignore(?:\[(?P<codes>[^\]#]*)\])?[ \t]*(?=#|$)")
"""``# fullgraph: ignore[CODE, …]`` behind a line of code hides findings of the line; without codes
all of them."""

RUN = re.compile(r"#\s*fullgraph:[ \t]*run\((?P<arguments>[^\[\]]*)\)[ \t]*(?=#|$)")
"""``# fullgraph: run(--steps 2)`` gives the command-line arguments of a program. With brackets it
would be the probe of a method ``run``."""
