"""What hostile files do, by category."""

from __future__ import annotations

import importlib

from tests.soak.hostile.case import Case

CATEGORIES = (
    "loops",
    "recursion",
    "memory",
    "processes",
    "exits",
    "descriptors",
    "monkeypatching",
    "files",
    "network",
    "privileges",
    "objects",
    "native",
)


def cases(category: str) -> tuple[Case, ...]:
    """Those of one category."""
    module = importlib.import_module(f"{__name__}.{category}")
    found: tuple[Case, ...] = module.CASES
    return found
