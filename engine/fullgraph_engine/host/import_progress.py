"""Which import is going on, for whoever waits for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

_PAUSE = 0.2
"""Seconds in which no other module is named, unless it is the first of its package."""

_monotonic = time.monotonic


class ImportProgress:
    """``say`` is called with the names of modules whose import begins, but only of some: those that
    may take long, and now and then another."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.silent = False
        """Nobody waits for what is imported now."""
        self._packages: set[str] = set(sys.stdlib_module_names)
        self._until = _monotonic() + _PAUSE
        self.names: list[str] | None = None
        """What was looked for, while somebody wants to know."""

    def begins(self, name: str) -> None:
        """Python looks for a module that it does not have yet."""
        if self.names is not None:
            self.names.append(name)
        if self.silent:
            return
        package = name.partition(".")[0]
        now = _monotonic()
        if now < self._until and package in self._packages:
            return
        self._packages.add(package)
        self._until = now + _PAUSE
        self._say(name)
