"""Report which module is being imported, so that the server can show progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

_PAUSE = 0.2
"""Minimum seconds between two reports, except for the first module of a package."""

_monotonic = time.monotonic


class ImportProgress:
    """A reporter of imports in progress.

    ``say`` is called with names of modules whose import begins: slow modules, and a few others.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.silent = False
        """True if reports are suppressed because the server does not wait for these imports."""
        self._packages: set[str] = set(sys.stdlib_module_names)
        self._until = _monotonic() + _PAUSE
        self.names: list[str] | None = None
        """Names of the modules looked up, if recording is on."""

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
