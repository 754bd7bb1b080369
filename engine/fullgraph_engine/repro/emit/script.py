"""The script for the user: a header, the program, and a check that sets the exit status."""

from __future__ import annotations

import os
import platform
import sys
import textwrap
from collections.abc import Sequence
from functools import lru_cache

from ..candidate import Candidates
from ..verify.check import assemble_check

_WIDTH = 98
_OFF = "# fullgraph: off  # Run with Python: the exit status is 1 if the problem occurs, else 0."


def assemble_script(program: str, candidates: Candidates, notes: Sequence[str] = ()) -> str:
    """Return the text of a script: header, program and check.

    ``candidates`` has the facts for the header; ``notes`` are further lines of it.
    """
    lines = [f"# {line}" for line in header_lines(candidates, notes)]
    return "\n".join([*lines, _OFF, "", assemble_check(program, candidates.check)])


def header_lines(candidates: Candidates, notes: Sequence[str] = ()) -> list[str]:
    """Return the comment lines at the top of a script: what the script shows, and where that was
    found.

    The lines link to the finding's documentation page if there is one. ``notes`` are further lines.
    """
    all_notes = [*notes, *([candidates.flaky] if candidates.flaky else [])]
    # Cut the title at the semicolon: the documentation page explains the rest.
    title = candidates.title.partition(";")[0] if candidates.href else candidates.title
    return [
        *_wrap_lines(" ".join(title.split())),
        *([candidates.href] if candidates.href else _wrap_lines(candidates.explanation.strip())),
        *_wrap_lines(f"Found at {candidates.place}; {', '.join(environment_lines())}."),
        *(line for note in all_notes for line in _wrap_lines(note)),
    ]


@lru_cache(maxsize=1)
def environment_lines() -> tuple[str, ...]:
    """Return the versions of Python and torch and the devices of this machine, one per line."""
    import torch

    python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    lines = [f"torch {torch.__version__}, {python}"]
    if torch.version.cuda and os.path.exists("/dev/nvidiactl"):  # noqa: PTH110 - no CUDA context
        lines.append(f"CUDA {torch.version.cuda}")
    if sys.flags.optimize:
        lines.append(f"python -O{'O' * (sys.flags.optimize - 1)}")
    return tuple(lines)


def _wrap_lines(words: str) -> list[str]:
    found: list[str] = []
    for line in words.split("\n"):
        found += textwrap.wrap(line, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return found
