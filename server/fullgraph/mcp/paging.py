"""Limit the size of answers: each has at most as many tokens as the caller wants, and a cursor for
the rest."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fullgraph.mcp.answers import Refused

DEFAULT_BUDGET = 2000
"""Maximum size of an answer in tokens, if the caller does not choose one."""
_CHARACTERS = 4
"""Number of characters that count as one token."""
_FRAME = 600
"""Number of characters that the budget reserves for the parts of an answer outside of its list."""
_LEAST = 400
"""Minimum number of characters for the list of an answer, even if the budget is smaller."""

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """A part of a list; ``cursor`` selects the next part, empty at the end."""

    items: tuple[T, ...]
    cursor: str = ""


@dataclass(frozen=True)
class Paging:
    """The part of an answer that a caller wants: at most ``budget`` tokens, from ``cursor`` on.

    ``version`` is the hash of the analyzed text. A cursor contains it, because the parts of answers
    about different texts do not fit together.
    """

    version: str
    budget: int = DEFAULT_BUDGET
    cursor: str = ""

    @property
    def start(self) -> int:
        """Number of items (or characters of a text) that earlier parts contained.

        Raises:
            Refused: The cursor belongs to another text, or is invalid.
        """
        if not self.cursor:
            return 0
        version, colon, number = self.cursor.rpartition(":")
        if not colon or not number.isdigit():
            raise Refused(
                f"`{self.cursor[:40]}` is not a cursor; pass the `cursor` of the previous answer."
            )
        if version != self.version:
            raise Refused(
                "The text has changed since the previous answer; call the tool again "
                "without a cursor."
            )
        return int(number)

    @property
    def _room(self) -> int:
        return max(_LEAST, self.budget * _CHARACTERS - _FRAME)

    def page_items(self, items: Sequence[T]) -> Page[T]:
        """Return the items that fit into the budget, at least one.

        Raises:
            Refused: The cursor belongs to another text, or is invalid.
        """
        start, used, end = self.start, 0, self.start
        while end < len(items):
            used += len(json.dumps(to_structure(items[end]), ensure_ascii=False))
            if used > self._room and end > start:
                break
            end += 1
        return Page(tuple(items[start:end]), self._cursor_at(end, len(items)))

    def page_text(self, text: str) -> tuple[str, str]:
        """Return the lines of a text that fit into the budget, and the cursor for the rest.

        A first line that exceeds the budget is cut.

        Raises:
            Refused: The cursor belongs to another text, or is invalid.
        """
        start = self.start
        end = start + self._room
        if end < len(text):
            line_end = text.rfind("\n", start, end)
            end = line_end + 1 if line_end > start else end
        return text[start:end], self._cursor_at(end, len(text))

    def _cursor_at(self, position: int, total: int) -> str:
        return f"{self.version}:{position}" if position < total else ""


def to_structure(value: object) -> Any:
    """Convert an answer to JSON data, without fields at their default value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_structure(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if getattr(value, field.name) != field.default
        }
    if isinstance(value, (tuple, list)):
        return [to_structure(item) for item in value]
    return value
