"""Lists of expressions as text."""

from __future__ import annotations


def repeated(texts: list[str], *, immutable: bool = False) -> str:
    """A list display; equal parts as a product or a comprehension."""
    shown = f"[{', '.join(texts)}]"
    if len(texts) > 1 and len(set(texts)) == 1:
        if immutable:
            short = f"[{texts[0]}] * {len(texts)}"
        else:
            short = f"[{texts[0]} for _ in range({len(texts)})]"
        if len(short) < len(shown) and (len(texts) > 2 or len(shown) > 60):
            return short
    return shown


def spread(shown: str) -> str:
    """A list display as arguments."""
    return f"*{shown}" if shown.endswith(")]") and " for _ in " in shown else shown[1:-1]
