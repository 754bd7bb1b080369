"""Assign readable names to the symbols that Dynamo creates for sizes.

A size that the user named keeps that name. Every other size gets a generated name, the same in each
frame.
"""

from __future__ import annotations

import re
import weakref
from typing import Any

import torch

_SYMBOL_NAME = re.compile(r"\b[a-z]{1,4}\d+\b")
_SIZE_SOURCE = re.compile(r"(?P<tensor>L\['\w+'\](?:\[[^\[\]]+\])*)\.size\(\)\[(?P<axis>\d+)\]")
_ITEM_ACCESS = re.compile(r"\[(?:(?P<number>\d+)|'(?P<key>[^']*)')\]")


class FrameNames:
    """Names and sources of the symbolic sizes that one compiled frame uses, while Dynamo traces it.

    ``variables`` are the frame's local variables by name.
    """

    def __init__(self, variables: Any = None) -> None:
        self.names: dict[str, str] = {}
        self.sources: dict[str, tuple[str, int | None]] = {}
        self.variables = variables


class SizeNames:
    """Names of symbolic sizes in one run: the user's name, or a unique letter and number."""

    def __init__(self) -> None:
        self._user_names: dict[int, tuple[weakref.ref[Any], dict[int, str]]] = {}
        self._generated_names: dict[object, str] = {}

    def set_name(self, tensor: torch.Tensor, dim: int, name: str) -> None:
        """Set the user's name for a size of a tensor, before a frame receives the tensor."""
        known = self._user_names.get(id(tensor))
        if known is None or known[0]() is not tensor:
            known = self._user_names[id(tensor)] = weakref.ref(tensor), {}
        known[1][dim] = name

    def note_symbol(self, frame: FrameNames, symbol: str, source: str, hint: int | None) -> str:
        """Record a new symbolic size; return the user's name for it, or "" if the user did not name
        it.

        ``source`` is Dynamo's name of the size, and ``hint`` its value in this run.
        """
        frame.sources[symbol] = source, hint
        match = _SIZE_SOURCE.fullmatch(source)
        if match is None or not self._user_names:
            return ""
        tensor = _find_value(match["tensor"], frame.variables)
        known = self._user_names.get(id(tensor))
        if known is not None and known[0]() is tensor:
            name = known[1].get(int(match["axis"]))
            if name is not None:
                frame.names[symbol] = name
                return name
        return ""

    def format_size(self, frame: FrameNames, size: Any) -> str:
        """Format a size or number with the names that the user sees, such as ``2*batch``."""
        text = str(size)
        if isinstance(size, int):
            return text
        is_symbol = _SYMBOL_NAME.fullmatch(text) is not None

        def replace_symbol(match: re.Match[str]) -> str:
            name = self._symbol_name(frame, match[0])
            return name if is_symbol or name.isidentifier() else f"({name})"

        text = _SYMBOL_NAME.sub(replace_symbol, text)
        while text.startswith("(") and text.endswith(")") and _is_enclosed(text):
            text = text[1:-1]
        return text

    def _symbol_name(self, frame: FrameNames, symbol: str) -> str:
        name = frame.names.get(symbol)
        if name is not None:
            return name
        source, hint = frame.sources.get(symbol, ("", None))
        key: object = (source, hint) if source else (id(frame), symbol)
        known = self._generated_names.get(key)
        if known is None:
            letter = symbol.rstrip("0123456789")
            used_names = {*self._generated_names.values()}
            for _, names in self._user_names.values():
                used_names.update(names.values())
            number = 0
            while f"{letter}{number}" in used_names:
                number += 1
            known = self._generated_names[key] = f"{letter}{number}"
            if not source:
                frame.names[symbol] = known
        return known


def _find_value(source: str, scope: Any) -> Any:
    """Return the value that Dynamo names ``source``, such as ``L['x'][0]``; None if unknown.

    ``scope`` has the variables by name. Only exact built-in containers are indexed, so that no code
    of the user runs.
    """
    value: Any = scope
    for match in _ITEM_ACCESS.finditer(source):
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


def _is_enclosed(text: str) -> bool:
    """Whether the last bracket of a text closes the first one, as in ``(a + b)``."""
    depth = 0
    for number, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return number == len(text) - 1
    return False
