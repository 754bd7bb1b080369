"""Build the operator index in two stages, before and after torch is imported, and cache it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

from .cache import IndexCache, Installation, find_installation, write_atomically


class InstalledOperators:
    """The operator index of this interpreter's torch."""

    def __init__(self, installed: Installation, yaml: str) -> None:
        self._installed, self._yaml = installed, yaml
        self._cache = IndexCache(installed.cache_key())

    @classmethod
    def find_installed(cls, yaml: str) -> InstalledOperators | None:
        """Locate the installed torch; None if it is not installed.

        ``yaml`` is the path of a folder with PyYAML, for interpreters without it; empty for none.
        """
        installed = find_installation(yaml)
        return cls(installed, yaml) if installed is not None else None

    def cached_index(self) -> Path | None:
        """Return the file of the complete index that an earlier engine cached; None without one."""
        return self._cache.find_complete()

    def write_static_index(self, out: Path) -> None:
        """Write the index that can be built without importing torch to the file ``out``."""
        from . import static
        from .sources import find_sources

        gc.disable()  # this process ends after writing, so nothing needs to be collected
        yaml = Path(self._yaml) if self._yaml else None
        write_atomically(out, static.build_static_index(find_sources(yaml, None)))

    def write_complete_index(
        self, static: Path | None, scratch: Path, say: Callable[[str], None]
    ) -> Path:
        """Write the complete index and return its path, in the cache or else in the folder
        ``scratch``.

        ``static`` is the file that ``write_static_index`` wrote; None if it failed. ``say``
        receives a sentence for the user if the index cannot be cached.
        """
        from .index_completion import build_complete_index

        gc.disable()
        data = build_complete_index(static)
        if static is not None or not self._installed.readable:
            try:
                return self._cache.write(data)
            except (OSError, RuntimeError) as error:
                say(f"The operator index is not kept for the next start: {error}")
        path = scratch / "complete.index"
        write_atomically(path, data)
        return path
