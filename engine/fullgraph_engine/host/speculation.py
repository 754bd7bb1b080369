"""What further paths of a target were to be traced, by file, to begin with it before it is known.

The first question of these paths is most often the same after an edit: what the target does in its
other mode. A processor that has nothing else to do works on it while the first run goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol import Mode

_MOST_FILES = 64


@dataclass(frozen=True)
class Expected:
    """With which tensors the paths of a target were traced, and what was known to begin with."""

    mode: Mode
    known: str


class ExpectedPaths:
    """Of the files that were analyzed last, by target and number of the probe."""

    def __init__(self) -> None:
        self._by_path: dict[str, dict[tuple[str, int], Expected]] = {}

    def of(self, path: str, target: str, probe: int) -> Expected | None:
        return self._by_path.get(path, {}).get((target, probe))

    def add(self, path: str, target: str, probe: int, expected: Expected) -> None:
        known = self._by_path.pop(path, {})
        known[target, probe] = expected
        self._by_path[path] = known
        while len(self._by_path) > _MOST_FILES:
            del self._by_path[next(iter(self._by_path))]

    def forget(self, path: str, target: str, probe: int) -> None:
        self._by_path.get(path, {}).pop((target, probe), None)
