"""Results of earlier analyses that speed up the next analysis of the same file."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from ..protocol import FoundProbe

_MOST_FILES = 64

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class CacheByFile(Generic[_K, _V]):
    """A cache of values by file path and key.

    It keeps only the files to which values were added most recently.
    """

    def __init__(self) -> None:
        self._by_path: dict[str, dict[_K, _V]] = {}

    def entries_of(self, path: str) -> Mapping[_K, _V]:
        return self._by_path.get(path, {})

    def add(self, path: str, key: _K, value: _V) -> None:
        known = self._by_path.pop(path, {})
        known[key] = value
        self._by_path[path] = known
        while len(self._by_path) > _MOST_FILES:
            del self._by_path[next(iter(self._by_path))]

    def forget(self, path: str, key: _K) -> None:
        self._by_path.get(path, {}).pop(key, None)


class FoundProbes(CacheByFile[str, FoundProbe]):
    """Results of searches for example inputs, by file and target name. The next search for the same
    target first tries the inputs that were found before."""

    def forget_unfound(self, path: str) -> None:
        """Forget the failed searches for inputs in a file, because modules that it imports have
        changed."""
        for one in list(self.entries_of(path).values()):
            if not one.comment:
                self.forget(path, one.target)
