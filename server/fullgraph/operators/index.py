"""Load an operator index (the names and operators of an installed torch) and look up its entries.

An index file has a few megabytes. Each entry stays encoded until it is looked up, which takes less
memory than decoded objects and keeps the server's start fast.
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

_MAX_ALIASES = 8


class OperatorIndex:
    """The names of torch by dotted path (``torch.max``), and its operators by qualified name
    (``aten::max``)."""

    def __init__(self, header: IndexHeader, entries: Mapping[str, Entry]) -> None:
        self.header = header
        self._entries = entries
        # Cache a function and not a method: a reference cycle would keep unused indices in memory.
        self._load = functools.lru_cache(maxsize=256)(functools.partial(_decode_entry, entries))

    @classmethod
    def load(cls, path: Path) -> OperatorIndex:
        """Read an index file.

        Raises:
            OSError: the file cannot be read.
            IndexUnreadable: the file is damaged or has another format.
        """
        header, entries = decode_index(path.read_bytes())
        return cls(header, {entry.key: entry for entry in entries})

    @classmethod
    def from_items(
        cls, items: Iterable[Name | Operator], *, complete: bool = True
    ) -> OperatorIndex:
        """Build an index from names and operators in memory.

        ``complete`` is true if they come from a running torch, and false if only from its source
        files.
        """
        entries = {entry.key: entry for entry in map(entry_of, items)}
        header = IndexHeader(INDEX_FORMAT, "", complete, 0, 0, len(entries), "")
        return cls(header, entries)

    def with_operators(self, operators: Iterable[Operator]) -> OperatorIndex:
        """Return an index that also has ``operators``, which a user's file defines; they replace
        operators of the same name.
        """
        more = {operator.name: entry_of(operator) for operator in operators}
        return OperatorIndex(self.header, ChainMap(more, self._entries)) if more else self  # type: ignore[arg-type]

    # -- single entries -----------------------------------------------------------------------

    def entry(self, key: str) -> Entry | None:
        """Return the still encoded entry of a path (``torch.max``) or operator (``aten::max``).

        None if the index does not contain it.
        """
        return self._entries.get(key)

    def name(self, path: str) -> Name | None:
        """Return the entry of a dotted path such as ``torch.max``; None if it does not exist.

        If the path is an alias, the entry of the alias itself is returned.
        """
        found = self._load(path)
        return found if isinstance(found, Name) else None

    def target(self, path: str) -> Name | None:
        """Return the entry of the object that a dotted path such as ``torch.max`` refers to.

        If the path is an alias, this is the entry of the original. None if the path does not exist.
        """
        found = self.name(path)
        for _ in range(_MAX_ALIASES):
            if found is None or not found.alias or (next_ := self.name(found.alias)) is None:
                break
            found = next_
        return found

    def operator(self, name: str) -> Operator | None:
        """Return an operator by its qualified name, for example ``aten::max``; None if it does not
        exist."""
        found = self._load(name)
        return found if isinstance(found, Operator) else None

    # -- several entries ----------------------------------------------------------------------

    def members(self, path: str) -> tuple[Entry, ...]:
        """Return the entries of all members of a module or class, for example of ``torch.nn``."""
        return self._below.get(path, ())

    def operators(self, namespace: str) -> tuple[Entry, ...]:
        """Return the entries of all operators in a namespace, for example ``aten``."""
        return self._below.get(f"{namespace}::", ())

    @functools.cached_property
    def namespaces(self) -> tuple[str, ...]:
        """Sorted namespaces of all operators."""
        return tuple(sorted(key[:-2] for key in self._below if key.endswith("::")))

    def paths_ending_with(self, leaf: str) -> tuple[str, ...]:
        """Return the paths whose last part is ``leaf``, for example ``torch.add`` and
        ``torch.Tensor.add``."""
        return self._by_leaf.get(leaf, ())

    @property
    def leaves(self) -> Iterable[str]:
        """Last parts of all dotted paths in the index, for example ``add`` of ``torch.add``."""
        return self._by_leaf

    @functools.cached_property
    def _below(self) -> dict[str, tuple[Entry, ...]]:
        below: dict[str, list[Entry]] = {}
        for key, entry in self._entries.items():
            below.setdefault(_parent_key(key), []).append(entry)
        return {parent: tuple(entries) for parent, entries in below.items()}

    @functools.cached_property
    def _by_leaf(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for key, entry in self._entries.items():
            if entry.kind != "operator":
                found.setdefault(key.rpartition(".")[2], []).append(key)
        return {leaf: tuple(keys) for leaf, keys in found.items()}


def _decode_entry(entries: Mapping[str, Entry], key: str) -> Name | Operator | None:
    entry = entries.get(key)
    return None if entry is None else entry.decode()


def _parent_key(key: str) -> str:
    namespace, colons, _ = key.partition("::")
    return namespace + colons if colons else key.rpartition(".")[0]
