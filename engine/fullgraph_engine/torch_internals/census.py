"""Determine which private names the installed torch has.

Also determine which facts the engine cannot show without the missing ones.
"""

from __future__ import annotations

from ..protocol import Hook
from ..protocol.facts import Degraded, Fact
from . import (
    backends,
    breaks,
    compiler_checks,
    fake_tensors,
    frames,
    graphs,
    guards,
    recompiles,
    regions,
    shapes,
    variables,
)
from .binding import Internal

INTERNALS: tuple[Internal, ...] = tuple(
    internal
    for family in (
        breaks,
        frames,
        graphs,
        recompiles,
        guards,
        shapes,
        fake_tensors,
        variables,
        backends,
        regions,
        compiler_checks,
    )
    for internal in family.INTERNALS
)


def list_hooks() -> tuple[Hook, ...]:
    """List all private names of torch that the engine needs, and whether this torch has them."""
    found = []
    for internal in INTERNALS:
        spelling = internal.find_spelling()
        detail = "not found" if spelling is None else spelling.releases
        found.append(Hook(internal.name, spelling is not None, internal.purpose, detail))
    count = len(breaks.break_numbers())
    found.append(
        Hook(
            "torch/_dynamo/graph_break_registry.json",
            count > 0,
            "numbers of graph breaks and links to their pages",
            f"{count} break types"
            if count
            else "this torch does not have the file, so graph breaks have words instead of numbers",
        )
    )
    return tuple(found)


def find_degraded_facts() -> tuple[Degraded, ...]:
    """Return the facts that the engine cannot show because the installed torch lacks private
    names."""
    missing_names: dict[Fact, list[str]] = {}
    for internal in INTERNALS:
        if internal.find_spelling() is None:
            missing_names.setdefault(internal.fact, []).append(internal.name)
    return tuple(
        Degraded(fact, f"this torch does not have {', '.join(names)}")
        for fact, names in missing_names.items()
    )
