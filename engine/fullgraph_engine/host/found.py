"""What searches have found, by file: it is tried first when the file is analyzed again."""

from __future__ import annotations

from ..protocol import FoundProbe

_MOST_FILES = 64


class FoundProbes:
    """Of the files that were analyzed last."""

    def __init__(self) -> None:
        self._by_path: dict[str, dict[str, FoundProbe]] = {}

    def of(self, path: str) -> tuple[FoundProbe, ...]:
        return tuple(self._by_path.get(path, {}).values())

    def add(self, path: str, found: FoundProbe) -> None:
        known = self._by_path.pop(path, {})
        known[found.target] = found
        self._by_path[path] = known
        while len(self._by_path) > _MOST_FILES:
            del self._by_path[next(iter(self._by_path))]

    def forget_unfound(self, path: str) -> None:
        """What the file imports is no more what it was."""
        for one in self.of(path):
            if not one.comment:
                self.forget(path, one.target)

    def forget(self, path: str, target: str) -> None:
        self._by_path.get(path, {}).pop(target, None)
