"""Builtin functions that a module replaced: nothing that comes after it would work."""

from __future__ import annotations

import builtins

from ..protocol import Finding, Position, Range

_USUAL = ("print", "open", "input", "help", "exit", "quit", "breakpoint", "__import__", "_")
"""Names that libraries give a meaning of their own, and that nothing here depends on."""

# Bound now: these may be the ones that are replaced.
_known = {name: value for name, value in vars(builtins).items() if name not in _USUAL}
_pairs, _get, _set = tuple(_known.items()), vars(builtins).get, vars(builtins).__setitem__


def restore() -> tuple[str, ...]:
    """Put back what was replaced; the names of it."""
    names: tuple[str, ...] = ()
    for name, value in _pairs:
        if _get(name) is not value:
            _set(name, value)
            names = (*names, name)
    return names


def finding(names: tuple[str, ...], lines: list[str]) -> Finding:
    """That this was done, at the first line of the text that speaks of builtins."""
    number = next((n for n, line in enumerate(lines) if "builtins" in line), 0)
    text = lines[number].rstrip("\r\n") if lines else ""
    shown = ", ".join(f"`{name}`" for name in names[:5]) + (", …" if len(names) > 5 else "")
    return Finding(
        code="trace/replaced-builtins",
        message=f"The module replaces builtin functions that torch needs: {shown}",
        range=Range(Position(number, 0), Position(number, len(text.encode()))),
        notes=("They are put back before anything is traced.",),
        mode="real",
        identity="trace/replaced-builtins",
    )
