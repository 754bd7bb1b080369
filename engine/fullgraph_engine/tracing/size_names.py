"""What the user would call the symbols that Dynamo makes of sizes.

The user has names for some of them; each of the others gets one, and the same in every frame.
"""

from __future__ import annotations

import re
import weakref
from typing import Any

import torch

_SYMBOL = re.compile(r"\b[a-z]{1,4}\d+\b")
_SIZE = re.compile(r"(?P<tensor>L\['\w+'\](?:\[[^\[\]]+\])*)\.size\(\)\[(?P<axis>\d+)\]")
_ITEM = re.compile(r"\[(?:(?P<number>\d+)|'(?P<key>[^']*)')\]")


class FrameNames:
    """The symbols of one attempt at a frame; the frame's ``variables`` are where they begin."""

    def __init__(self, variables: Any = None) -> None:
        self.names: dict[str, str] = {}
        self.sources: dict[str, tuple[str, int | None]] = {}
        self.variables = variables


class SizeNames:
    """Names for symbols: the user's, else a letter and a number, unique in the run."""

    def __init__(self) -> None:
        self._wished: dict[int, tuple[weakref.ref[Any], dict[int, str]]] = {}
        self._unnamed: dict[object, str] = {}

    def wish(self, tensor: torch.Tensor, dim: int, name: str) -> None:
        """The user's name of a size, before the tensor comes to a frame."""
        known = self._wished.get(id(tensor))
        if known is None or known[0]() is not tensor:
            known = self._wished[id(tensor)] = weakref.ref(tensor), {}
        known[1][dim] = name

    def created(self, frame: FrameNames, symbol: str, source: str, hint: int | None) -> str:
        """A symbol begins; the user's name of it, if there is one."""
        frame.sources[symbol] = source, hint
        match = _SIZE.fullmatch(source)
        if match is None or not self._wished:
            return ""
        tensor = _found(match["tensor"], frame.variables)
        wished = self._wished.get(id(tensor))
        if wished is not None and wished[0]() is tensor:
            name = wished[1].get(int(match["axis"]))
            if name is not None:
                frame.names[symbol] = name
                return name
        return ""

    def words(self, frame: FrameNames, size: Any) -> str:
        """A size or number as the probe would write it."""
        words = str(size)
        if isinstance(size, int):
            return words
        alone = _SYMBOL.fullmatch(words) is not None

        def named(match: re.Match[str]) -> str:
            name = self._symbol(frame, match[0])
            return name if alone or name.isidentifier() else f"({name})"

        words = _SYMBOL.sub(named, words)
        while words.startswith("(") and words.endswith(")") and _encloses(words):
            words = words[1:-1]
        return words

    def _symbol(self, frame: FrameNames, symbol: str) -> str:
        name = frame.names.get(symbol)
        if name is not None:
            return name
        source, hint = frame.sources.get(symbol, ("", None))
        key: object = (source, hint) if source else (id(frame), symbol)
        known = self._unnamed.get(key)
        if known is None:
            letter = symbol.rstrip("0123456789")
            taken = {*self._unnamed.values()}
            for _, wished in self._wished.values():
                taken.update(wished.values())
            number = 0
            while f"{letter}{number}" in taken:
                number += 1
            known = self._unnamed[key] = f"{letter}{number}"
            if not source:
                frame.names[symbol] = known
        return known


def _found(source: str, scope: Any) -> Any:
    """The value of ``L['x'][0]``, if getting it runs no code of the user's."""
    value: Any = scope
    for match in _ITEM.finditer(source):
        key = match["key"] if match["number"] is None else int(match["number"])
        try:
            if type(value) is not dict and not (
                isinstance(key, int) and type(value) in (list, tuple)
            ):
                return None
            value = value[key]
        except (LookupError, TypeError):
            return None
    return value


def _encloses(words: str) -> bool:
    """Whether the first bracket is closed by the last."""
    depth = 0
    for number, letter in enumerate(words):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return number == len(words) - 1
    return False
