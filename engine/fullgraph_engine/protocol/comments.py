"""Patterns of the ``# fullgraph:`` comments that hide findings or give a program its arguments."""

from __future__ import annotations

import re
import shlex

IGNORE = re.compile(r"#\s*fullgraph:[ \t]*ignore(?:\[(?P<codes>[^\]#]*)\])?[ \t]*(?=#|$)")
"""Matches ``# fullgraph: ignore[CODE, …]`` after a line of code, which hides these findings on the
line; without codes it hides all."""

RUN = re.compile(r"#\s*fullgraph:[ \t]*run\((?P<arguments>[^\[\]]*)\)[ \t]*(?=#|$)")
"""Matches ``# fullgraph: run(--steps 2)``, which gives a program its command-line arguments.

With brackets between the parentheses, the comment instead gives example inputs of a method named
``run``.
"""


def arguments_in(text: str) -> tuple[str, ...] | None:
    """Return the command-line arguments in a file's ``# fullgraph: run(…)`` comment; None if it
    lacks this comment.
    """
    for line in text.split("\n"):
        found = RUN.search(line) if "fullgraph" in line else None
        if found is not None:
            try:
                return tuple(shlex.split(found["arguments"]))
            except ValueError:  # a quotation mark is missing
                return tuple(found["arguments"].split())
    return None
