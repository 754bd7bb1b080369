"""The file that a person gets: what it shows, the program, and a check that exits 1 if it does."""

from __future__ import annotations

import ast
import os
import platform
import sys
import textwrap
from collections.abc import Sequence
from functools import lru_cache

from ..candidate import Candidates
from ..verify.check import assembled

_WIDTH = 88


def script(program: str, candidates: Candidates, notes: Sequence[str] = ()) -> str:
    """Header, program and check."""
    body = assembled(program, candidates.check)
    return f'"""{header(candidates, notes)}"""\n# fullgraph: off\n\n{body}'


def header(candidates: Candidates, notes: Sequence[str] = ()) -> str:
    """What the script is about, for who opens it a year later."""
    title = candidates.title.replace("\n", " ")
    explanation = candidates.explanation.strip()
    said = [*notes, *([candidates.flaky] if candidates.flaky else [])]
    parts = [
        *_wrapped(title),
        "",
        *([*_wrapped(explanation), ""] if explanation else []),
        *([candidates.href, ""] if candidates.href else []),
        *_wrapped(f"Found at {candidates.place}."),
        *_wrapped("Run this file with Python: it exits 1 if it shows this, 0 if it does not."),
        *(line for note in said for line in _wrapped(note)),
        "",
        *environment(),
        "",
    ]
    return "\n".join(parts).replace("\\", "\\\\").replace('"""', "'''")


@lru_cache(maxsize=1)
def environment() -> tuple[str, ...]:
    """Versions and devices, a line for each."""
    import torch

    python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    lines = [f"torch {torch.__version__}, {python}"]
    if torch.version.cuda and os.path.exists("/dev/nvidiactl"):  # noqa: PTH110 - no CUDA context
        lines.append(f"CUDA {torch.version.cuda}")
    if sys.flags.optimize:
        lines.append(f"python -O{'O' * (sys.flags.optimize - 1)}")
    return tuple(lines)


def lines_of_code(script: str) -> int:
    """Lines besides the header that are neither blank nor a comment."""
    tree = ast.parse(script)
    first = tree.body[0] if tree.body else None
    below = 0
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        below = first.end_lineno or 0
    lines = [line.strip() for line in script.split("\n")[below:]]
    return sum(bool(line) and not line.startswith("#") for line in lines)


def _wrapped(words: str) -> list[str]:
    found: list[str] = []
    for line in words.split("\n"):
        found += textwrap.wrap(line, _WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    return found
