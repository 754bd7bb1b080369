"""Build the operator index in two stages, before and after torch is imported, and cache it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

from .cache import IndexCache, Installation, find_installation, write_atomically


class InstalledOperators:
    """Builds and caches the operator index of the torch that this interpreter has.

    ``yaml`` is the path of a folder with PyYAML; empty for none.
    """

    def __init__(self, installed: Installation, yaml: str) -> None:
        self._installed, self._yaml = installed, yaml
        self._cache = IndexCache(installed.cache_key())

    @classmethod
    def find_installed(cls, yaml: str) -> InstalledOperators | None:
        """Create the builder for the installed torch; None if torch is not installed.

        ``yaml`` is the path of a folder with PyYAML, for interpreters without it; empty for none.
        """
        installed = find_installation(yaml)
        return cls(installed, yaml) if installed is not None else None

    def cached_index(self) -> Path | None:
        """Return the file of the complete index that an earlier engine cached; None if it is not
        cached.
        """
        return self._cache.find_complete()

    def write_static_index(self, out: Path) -> None:
        """Build the part of the index that does not need an import of torch, and write it to the
        file ``out``."""
        from . import static
        from .sources import find_sources

        gc.disable()  # this process ends after writing, so collecting garbage would waste time
        yaml = Path(self._yaml) if self._yaml else None
        write_atomically(out, static.build_static_index(find_sources(yaml)))

    def write_complete_index(
        self, static: Path | None, scratch: Path, say: Callable[[str], None]
    ) -> Path:
        """Build the complete index with the imported torch, write it, and return the path of the
        file.

        ``static`` is the file that ``write_static_index`` wrote; None if that failed. If the index
        cannot be cached, it is written to the folder ``scratch``, and ``say`` receives a sentence
        for the user.
        """
        from .index_completion import build_complete_index

        gc.disable()
        data = build_complete_index(static)
        if static is not None or not self._installed.readable:
            try:
                return self._cache.write(data)
            except (OSError, RuntimeError) as error:
                say(
                    "The operator index could not be saved, so it is built again at the next "
                    f"start: {error}"
                )
        path = scratch / "complete.index"
        write_atomically(path, data)
        return path
