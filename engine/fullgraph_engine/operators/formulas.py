"""Convert the LaTeX formulas of torch's docstrings to one line of plain characters."""

# ruff: noqa: RUF001

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

_SYMBOLS = {
    "times": "×", "cdot": "·", "ast": "*", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥",
    "neq": "≠", "ne": "≠", "approx": "≈", "sum": "Σ", "infty": "∞", "dots": "…", "ldots": "…",
    "rightarrow": "→", "to": "→", "otimes": "⊗", "top": "T", "lceil": "ceil(", "rceil": ")",
    "lfloor": "floor(", "rfloor": ")", "left": "", "right": "",
}  # fmt: skip
_FUNCTIONS = re.compile(r"log|exp|(?:sin|cos|tan)h?|max|min|det")
_COMMAND = re.compile(r"\\([A-Za-z]+)|\\([,;: ])|\\(\W|_)")


def _plain_fraction(found: re.Match[str]) -> str:
    over, under = (
        part if re.fullmatch(r"[\w.\\]*", part) else f"({part})" for part in found.groups()
    )
    return f"{over} / {under}"


_GROUPS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\{\{([^{}]*)\}\}"), r"{\1}"),
    (re.compile(r"\\mathbb\s*\{R\}"), "ℝ"),
    (re.compile(r"\\(?:text\w*|math\w+|operatorname)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\\sqrt\s*\{([^{}]*)\}"), r"sqrt(\1)"),
    (re.compile(r"\\frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), _plain_fraction),
    (re.compile(r"([_^])\{(-?\w*|\\?[^\w\s]|\\\w+|\([^(){}]*\))\}"), r"\1\2"),
    (re.compile(r"([_^])\{([^{}]*)\}"), r"\1(\2)"),
)
"""Patterns of groups without inner braces, and their plain forms; applied until none is left."""


def plain_formula(latex: str) -> str:
    r"""Convert a LaTeX formula to plain characters; empty if it has an unsupported command.

    For example, ``\left\lceil \frac{a}{b} \right\rceil`` becomes ``ceil(a / b)``.
    """
    # Docstrings without the `r` prefix write two backslashes for one.
    text, before = re.sub(r"\\\\(?=[A-Za-z])", r"\\", latex), ""
    while text != before:
        before = text
        for pattern, plain in _GROUPS:
            text = pattern.sub(plain, text)
    text = re.sub(r"\{([^{}]*)\}", r"\1", _COMMAND.sub(_plain_command, text))
    if re.search(r"[\\{}]", text):
        return ""
    text = re.sub(r"([(\[]) +", r"\1", re.sub(r" +([)\],])", r"\1", text))
    return " ".join(text.split())


def _plain_command(command: re.Match[str]) -> str:
    """Return the plain form of a matched LaTeX command; an unknown command stays as it is."""
    name, space, character = command.groups()
    if name is None:
        return " " if space else {"|": "‖"}.get(character, character)
    if name in _SYMBOLS:
        return _SYMBOLS[name]
    if _FUNCTIONS.fullmatch(name):
        return str(name)
    size = "CAPITAL" if name[0].isupper() else "SMALL"
    letter = name.removeprefix("var").upper()
    try:
        return unicodedata.lookup(f"GREEK {size} LETTER {letter}")
    except KeyError:
        return command[0]
