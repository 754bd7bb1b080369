"""``fullgraph explain``: print the documentation of a finding code."""

from __future__ import annotations

import difflib
import textwrap

from fullgraph.domain import codes

_WIDTH = 88


class UnknownCode(Exception):
    """Raised if no finding can have the requested code; the message lists similar codes."""


def explain_code(selector: str) -> str:
    """Return the documentation of a finding code as text for a terminal.

    ``selector`` is a whole code, an id (``GB0170``), a family (``graph-break``), or the
    former name of a code.

    Raises:
        UnknownCode: No finding can have this code.
    """
    name = codes.current_name(selector)
    if codes.GRAPH_BREAK_ID.fullmatch(name):
        name = f"graph-break/{name}"
    if not codes.is_known_selector(name):
        raise UnknownCode(_unknown_words(selector))
    full = [code for code in codes.CODES if code.name == name or code.name.endswith(f"/{name}")]
    row = full[0] if full else codes.find_row(name)
    below = [code for code in codes.CODES if code.name.startswith(f"{row.name}/")]
    paragraphs = [
        f"{row.name if full else name}: {row.title}",
        f"Default severity: {row.severity.value}.",
        *(textwrap.fill(paragraph, _WIDTH) for paragraph in row.help.split("\n\n")),
    ]
    if below and row.name == name:
        width = max(len(code.name) for code in below)
        paragraphs.append("\n".join(f"{code.name:<{width}}  {code.title}" for code in below))
    paragraphs.append(codes.documentation_url(name if not full else row.name))
    return "\n\n".join(paragraphs)


def _unknown_words(selector: str) -> str:
    names = [code.name for code in codes.CODES]
    tails = {name.rpartition("/")[2]: name for name in names}
    close = difflib.get_close_matches(selector, [*names, *tails], n=3, cutoff=0.5)
    similar = list(dict.fromkeys(tails.get(one, one) for one in close))
    hint = f" Similar codes: {', '.join(similar)}." if similar else ""
    return f"fullgraph has no finding code `{selector}`.{hint} All codes are in docs/codes.md."
