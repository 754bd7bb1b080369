"""Patterns of the ``# fullgraph:`` comments that hide findings or give a program its arguments."""

from __future__ import annotations

import re

IGNORE = re.compile(r"#\s*fullgraph:[ \t]*ignore(?:\[(?P<codes>[^\]#]*)\])?[ \t]*(?=#|$)")
"""``# fullgraph: ignore[CODE, …]`` after a line of code hides these findings on the line; without
codes it hides all.
"""

RUN = re.compile(r"#\s*fullgraph:[ \t]*run\((?P<arguments>[^\[\]]*)\)[ \t]*(?=#|$)")
"""``# fullgraph: run(--steps 2)`` gives a program its command-line arguments. With brackets it
would be the probe of a method ``run``.
"""
