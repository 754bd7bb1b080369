"""The two stages in which the index of an installation is made, and where it is kept."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

from .cache import Cache, Installation, installation, write_whole


class InstalledOperators:
    """The index of this interpreter's torch."""

    def __init__(self, installed: Installation, yaml: str) -> None:
        self._installed, self._yaml = installed, yaml
        self._cache = Cache(installed.key())

    @classmethod
    def found(cls, yaml: str) -> InstalledOperators | None:
        """None where there is no torch. ``yaml`` is a folder that holds PyYAML."""
        installed = installation(yaml)
        return cls(installed, yaml) if installed is not None else None

    def kept(self) -> Path | None:
        """The complete index that an earlier engine has made."""
        return self._cache.found()

    def read(self, out: Path) -> None:
        """Write what can be known without importing torch."""
        from . import static
        from .sources import sources

        gc.disable()  # everything that is made lives until the end of the process
        yaml = Path(self._yaml) if self._yaml else None
        write_whole(out, static.build(sources(yaml, None)))

    def survey(self, static: Path | None, scratch: Path, say: Callable[[str], None]) -> Path:
        """Write the complete index, from the running torch and what ``read`` wrote."""
        from .index_completion import take

        gc.disable()
        data = take(static)
        if static is not None or not self._installed.readable:
            try:
                return self._cache.write(data)
            except (OSError, RuntimeError) as error:
                say(f"The operator index is not kept for the next start: {error}")
        path = scratch / "complete.index"
        write_whole(path, data)
        return path
