"""Restore builtin functions that a module replaced, because later code depends on them."""

from __future__ import annotations

import builtins

from ..protocol import Finding, Position, Range

_USUAL = ("print", "open", "input", "help", "exit", "quit", "breakpoint", "__import__", "_")
"""Names that libraries commonly redefine and that the engine does not use."""

# Save the builtins before user code, which may replace them, runs.
_known = {name: value for name, value in vars(builtins).items() if name not in _USUAL}
_pairs, _get, _set = tuple(_known.items()), vars(builtins).get, vars(builtins).__setitem__


def restore_builtins() -> tuple[str, ...]:
    """Restore the builtin functions that user code has replaced. Return their names."""
    names: tuple[str, ...] = ()
    for name, value in _pairs:
        if _get(name) is not value:
            _set(name, value)
            names = (*names, name)
    return names


def replacement_finding(names: tuple[str, ...], lines: list[str]) -> Finding:
    """Create the finding that the file replaced the builtin functions ``names``, at its first line
    that mentions ``builtins``."""
    number = next((n for n, line in enumerate(lines) if "builtins" in line), 0)
    text = lines[number].rstrip("\r\n") if lines else ""
    shown = ", ".join(f"`{name}`" for name in names[:5]) + (", …" if len(names) > 5 else "")
    return Finding(
        code="trace/replaced-builtins",
        message=f"This file replaces builtin functions that torch needs: {shown}",
        range=Range(Position(number, 0), Position(number, len(text.encode()))),
        notes=("fullgraph restores them before it traces code.",),
        mode="real",
        identity="trace/replaced-builtins",
    )
