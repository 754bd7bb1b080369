"""Indices of the operators in each interpreter's torch, as the engines last reported them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fullgraph.operators.index import OperatorIndex
from fullgraph_engine.protocol import IndexWritten
from fullgraph_engine.protocol.operators import IndexUnreadable, Operator


@dataclass(frozen=True)
class _LoadedIndex:
    """A loaded index and the state of its file: path, modification time in nanoseconds, bytes."""

    state: tuple[str, int, int]
    index: OperatorIndex


class Indices:
    """A loader for operator indices, which works in a thread; the previous index is used until the
    new one is loaded.
    """

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._found: dict[Path, _LoadedIndex] = {}
        self._latest: dict[Path, IndexWritten] = {}

    async def load_index(self, interpreter: Path, event: IndexWritten) -> None:
        """Load the index that an engine reported; log an error if the file is unreadable."""
        self._latest[interpreter] = event
        known = self._found.get(interpreter)
        try:
            # A restarted engine reports the same index file again.
            found = await asyncio.to_thread(_load_index, event.path, known)
        except (OSError, IndexUnreadable) as error:
            if self._latest.get(interpreter) is event:
                self._log(
                    f"The operator index {event.path} cannot be read ({error}): restart the engine "
                    "to create the index again."
                )
            return
        # Meanwhile, a later index may have been loaded, or the engine may have been closed.
        if self._latest.get(interpreter) is event:
            self._found[interpreter] = found

    def find_index(self, interpreter: Path) -> OperatorIndex | None:
        found = self._found.get(interpreter)
        return None if found is None else found.index

    def forget_index(self, interpreter: Path) -> None:
        self._found.pop(interpreter, None)
        self._latest.pop(interpreter, None)


class ExtendedIndex:
    """The index of torch's operators together with the operators that one file registers; cached
    until either changes.
    """

    def __init__(self) -> None:
        self._index: OperatorIndex | None = None
        self._operators: tuple[Operator, ...] = ()
        self._extended: OperatorIndex | None = None

    def extend_index(self, index: OperatorIndex, operators: tuple[Operator, ...]) -> OperatorIndex:
        same = self._index is index and self._operators == operators
        if self._extended is None or not same:
            self._index, self._operators = index, operators
            self._extended = index.with_operators(operators)
        return self._extended


def _load_index(path: str, known: _LoadedIndex | None) -> _LoadedIndex:
    found = Path(path).stat()
    state = (path, found.st_mtime_ns, found.st_size)
    if known is not None and known.state == state:
        return known
    index = OperatorIndex.load(Path(path))
    # Build the completion lists here, so that the first completion does not wait for them.
    index.members("torch")
    index.paths_ending_with("")
    return _LoadedIndex(state, index)
