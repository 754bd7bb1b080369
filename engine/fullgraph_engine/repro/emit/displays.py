"""Source text of literals and lists, and names of classes."""

from __future__ import annotations

import builtins
import math


def list_display(texts: list[str], *, immutable: bool = False) -> str:
    """Return the source text of a list, from the texts of its items.

    Equal items become a product (``[0] * 9``) or a comprehension.
    """
    shown = f"[{', '.join(texts)}]"
    if len(texts) > 1 and len(set(texts)) == 1:
        if immutable:
            short = f"[{texts[0]}] * {len(texts)}"
        else:
            short = f"[{texts[0]} for _ in range({len(texts)})]"
        if len(short) < len(shown) and (len(texts) > 2 or len(shown) > 60):
            return short
    return shown


def spread_arguments(shown: str) -> str:
    """Return the items of a list display as arguments of a call: ``1, 2`` for ``[1, 2]``."""
    return f"*{shown}" if shown.endswith(")]") and " for _ in " in shown else shown[1:-1]


def literal_text(value: object) -> str | None:
    """Return the source text of a constant, such as ``1.5`` or ``'a'``; None for other values."""
    kind = type(value)
    if value is None or value is Ellipsis or value is NotImplemented or kind is bool:
        return repr(value)
    if kind is str or kind is bytes:
        return repr(value)
    if kind is int:
        assert isinstance(value, int)
        return repr(value) if value.bit_length() < 10_000 else f"int({hex(value)!r}, 16)"
    if kind is float:
        assert isinstance(value, float)
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if kind is complex:
        assert isinstance(value, complex)
        text = repr(value)
        if text[0].isdigit() and "n" not in text:
            return text
        return f"complex({literal_text(value.real)}, {literal_text(value.imag)})"
    return None


def kind_name(kind: type) -> str:
    """Return the name of a class to show in messages."""
    where = "" if kind.__module__ == builtins.__name__ else f"{kind.__module__}."
    return f"{where}{kind.__qualname__}"
