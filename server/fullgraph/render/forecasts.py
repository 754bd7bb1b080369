"""Describe which further calls of a function will recompile it, for a code lens and for a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fullgraph_engine.protocol import ForecastRow
from fullgraph_engine.protocol.recompiles import Verdict

_MOST_NAMES = 3
"""Maximum number of expressions that a code lens about recompiles names."""
_MOST_REASONS = 3

_VERDICTS: dict[Verdict, str] = {
    "stays": "does not recompile",
    "once": "recompiles once, then works for all values",
    "conditional": "recompiles when the result of a condition on this value changes",
    "always": "**recompiles on each new value**",
}


def forecast_clause(rows: Iterable[ForecastRow]) -> str:
    """Return a clause that names the arguments or sizes, such as ``x.shape[0]``, whose every change
    recompiles; empty without any.
    """
    always = [row for row in rows if row.verdict == "always"]
    if any(row.kind == "call" for row in always):
        return "recompiles at every call"
    names = list(dict.fromkeys(row.name for row in always))
    if not names:
        return ""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"recompiles on each new value of {', '.join(names[:_MOST_NAMES])}{more}"


def forecast_page(
    target: str, rows: Sequence[ForecastRow], notes: Sequence[str], *, fresh: bool
) -> str:
    """Describe as Markdown which further calls recompile the function ``target``.

    ``rows`` are the changes of arguments and their effects, ``notes`` further sentences. ``fresh``
    is false if the forecast is from a trace before the last one.
    """
    age = "" if fresh else " (predicted before the last trace)"
    lines = [f"**Predicted recompiles in further calls of `{target}`**{age}", ""]
    lines += [f"- {_row_words(row)}" for row in rows]
    if rows and notes:
        lines.append("")
    return "\n".join([*lines, "\n\n".join(notes)]).rstrip()


def _row_words(row: ForecastRow) -> str:
    tried = ", ".join(row.tried)
    if row.kind == "call":
        called = "the same inputs again"
    elif row.first:
        called = f"`{row.name}`: {row.first} → {tried}"
    else:
        called = f"`{row.name}`: {tried}"
    verdict = _VERDICTS[row.verdict]
    if row.kind == "flag" and row.verdict == "once":
        verdict = "recompiles once for each value"
    reasons = "; ".join(row.reasons[:_MOST_REASONS])
    if len(row.reasons) > _MOST_REASONS:
        reasons += f"; and {len(row.reasons) - _MOST_REASONS} more"
    return f"{called}: {verdict}" + (f" ({reasons})" if reasons else "")
