"""Report which module is being imported, so that the server can show progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

_PAUSE = 0.2
"""Minimum seconds between two reports, except for the first module of a package."""

_monotonic = time.monotonic


class ImportProgress:
    """A reporter of imports in progress, for a progress display.

    ``say`` is called with the name of a module when its import begins, at most every 0.2 seconds,
    and for the first module of each package.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.silent = False
        """True to suppress reports, because the server does not wait for the current imports."""
        self._packages: set[str] = set(sys.stdlib_module_names)
        self._until = _monotonic() + _PAUSE
        self.names: list[str] | None = None
        """Names of all modules looked up so far; None if they are not recorded."""

    def begins(self, name: str) -> None:
        """Report that Python begins to look up the module ``name``, unless another report was sent
        shortly before."""
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
