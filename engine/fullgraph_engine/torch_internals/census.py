"""Which private names this torch has, and what is degraded without the others."""

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


def hooks() -> tuple[Hook, ...]:
    """Every name that this torch may lack, and whether it does."""
    found = []
    for internal in INTERNALS:
        spelling = internal.spelling()
        detail = "not found" if spelling is None else spelling.releases
        found.append(Hook(internal.name, spelling is not None, internal.purpose, detail))
    ids = len(breaks.registry())
    found.append(
        Hook(
            "torch/_dynamo/graph_break_registry.json",
            ids > 0,
            "numbers of graph breaks and links to their pages",
            f"{ids} break types" if ids else "not shipped with this torch: slugs are used",
        )
    )
    return tuple(found)


def missing() -> tuple[Degraded, ...]:
    """The facts that are degraded as this torch has not all the names they need."""
    lacking: dict[Fact, list[str]] = {}
    for internal in INTERNALS:
        if internal.spelling() is None:
            lacking.setdefault(internal.fact, []).append(internal.name)
    return tuple(
        Degraded(fact, f"it has no {', no '.join(names)}") for fact, names in lacking.items()
    )
