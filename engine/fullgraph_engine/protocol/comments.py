"""Patterns of the ``# fullgraph:`` comments that hide findings or give a program its arguments."""

from __future__ import annotations

import re

IGNORE = re.compile(r"#\s*fullgraph:[ \t]*ignore(?:\[(?P<codes>[^\]#]*)\])?[ \t]*(?=#|$)")
"""Matches ``# fullgraph: ignore[CODE, …]`` after a line of code, which hides these findings on the
line; without codes it hides all."""

RUN = re.compile(r"#\s*fullgraph:[ \t]*run\((?P<arguments>[^\[\]]*)\)[ \t]*(?=#|$)")
"""Matches ``# fullgraph: run(--steps 2)``, which gives a program its command-line arguments.

With brackets between the parentheses, the comment instead gives example inputs of a method named
``run``.
"""
