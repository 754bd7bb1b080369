"""The operator index of one torch, as the server holds it: found at once, decoded when asked for.

The file is a few megabytes. Its lines are kept as they are and decoded one at a time, which costs
less memory than all of them as objects, and nothing when the server starts.
"""

from __future__ import annotations

import functools
from collections import ChainMap
from collections.abc import Iterable, Mapping
from pathlib import Path

from fullgraph_engine.protocol.operators import (
    INDEX_FORMAT,
    Entry,
    IndexHeader,
    Name,
    Operator,
    decode_index,
    entry_of,
)

_ALIASES_DEEP = 8


class OperatorIndex:
    """Names by dotted path, operators by namespace and name."""

    def __init__(self, header: IndexHeader, entries: Mapping[str, Entry]) -> None:
        self.header = header
        self._entries = entries
        # Not a method: the index would be part of a cycle, and stay long after it is of no use.
        self._load = functools.lru_cache(maxsize=256)(functools.partial(_decoded, entries))

    @classmethod
    def load(cls, path: Path) -> OperatorIndex:
        """Read an index file.

        Raises:
            OSError: it cannot be read.
            IndexUnreadable: it is no index of this format.
        """
        header, entries = decode_index(path.read_bytes())
        return cls(header, {entry.key: entry for entry in entries})

    @classmethod
    def of(cls, items: Iterable[Name | Operator], *, complete: bool = True) -> OperatorIndex:
        """An index that is in no file."""
        entries = {entry.key: entry for entry in map(entry_of, items)}
        header = IndexHeader(INDEX_FORMAT, "", complete, 0, 0, len(entries), "")
        return cls(header, entries)

    def with_operators(self, operators: Iterable[Operator]) -> OperatorIndex:
        """This index and operators that a file registered, which hide others of their names."""
        more = {operator.name: entry_of(operator) for operator in operators}
        return OperatorIndex(self.header, ChainMap(more, self._entries)) if more else self  # type: ignore[arg-type]

    # -- one ----------------------------------------------------------------------------------

    def entry(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def name(self, path: str) -> Name | None:
        """The name of a path as it stands in the index, an alias as one."""
        found = self._load(path)
        return found if isinstance(found, Name) else None

    def target(self, path: str) -> Name | None:
        """The name that a path stands for, through aliases."""
        found = self.name(path)
        for _ in range(_ALIASES_DEEP):
            if found is None or not found.alias or (next_ := self.name(found.alias)) is None:
                break
            found = next_
        return found

    def operator(self, name: str) -> Operator | None:
        """An operator by namespace and name, ``aten::max``."""
        found = self._load(name)
        return found if isinstance(found, Operator) else None

    # -- many ---------------------------------------------------------------------------------

    def members(self, path: str) -> tuple[Entry, ...]:
        """What a module or class has: the entries one step below its path."""
        return self._below.get(path, ())

    def operators(self, namespace: str) -> tuple[Entry, ...]:
        return self._below.get(f"{namespace}::", ())

    @functools.cached_property
    def namespaces(self) -> tuple[str, ...]:
        return tuple(sorted(key[:-2] for key in self._below if key.endswith("::")))

    def called(self, leaf: str) -> tuple[str, ...]:
        """The paths of all names whose last part this is: ``torch.add``, ``torch.Tensor.add``."""
        return self._by_leaf.get(leaf, ())

    @property
    def leaves(self) -> Iterable[str]:
        """The last parts of all names."""
        return self._by_leaf

    @functools.cached_property
    def _below(self) -> dict[str, tuple[Entry, ...]]:
        below: dict[str, list[Entry]] = {}
        for key, entry in self._entries.items():
            below.setdefault(_parent(key), []).append(entry)
        return {parent: tuple(entries) for parent, entries in below.items()}

    @functools.cached_property
    def _by_leaf(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for key, entry in self._entries.items():
            if entry.kind != "operator":
                found.setdefault(key.rpartition(".")[2], []).append(key)
        return {leaf: tuple(keys) for leaf, keys in found.items()}


def _decoded(entries: Mapping[str, Entry], key: str) -> Name | Operator | None:
    entry = entries.get(key)
    return None if entry is None else entry.decode()


def _parent(key: str) -> str:
    namespace, colons, _ = key.partition("::")
    return namespace + colons if colons else key.rpartition(".")[0]
