"""What is to be written, and to whom. Needs no torch, so that the host can ask for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..protocol.documents import MOST_TEXT, DocumentKind, DocumentPart


@dataclass
class Commission:
    """``tell`` is called with the attempt and each part, at once: the run may die any time."""

    kinds: tuple[DocumentKind, ...]
    tell: Callable[[str, DocumentPart], None]
    save_events: bool = False
    compare_events: Mapping[int, str] = field(default_factory=dict)
    """Archives of an earlier run, by the number of the ShapeEnv."""
    most: int = MOST_TEXT
    _attempt: str = ""
    _told: dict[DocumentKind, int] = field(default_factory=dict)

    def begin(self, attempt: str) -> None:
        """What comes from here on takes the place of what came before."""
        self._attempt, self._told = attempt, {}

    def wants(self, kind: DocumentKind) -> bool:
        return kind in self.kinds and self._told.get(kind, 0) <= self.most

    def write(
        self,
        kind: DocumentKind,
        title: str,
        text: str,
        *,
        number: int = 0,
        archive: str = "",
        differs: bool = False,
    ) -> None:
        """One more part, cut where the document becomes too long."""
        if not self.wants(kind):
            return
        told = self._told.get(kind, 0)
        self._told[kind] = told + len(text)
        if told + len(text) > self.most:
            self._told[kind] = self.most + 1
            kept = text[: self.most - told]
            mark = "#" if kind == "graph" else "..."
            note = f"{mark} Only the first {self.most:,} characters are shown."
            text = f"{kept[: kept.rfind(chr(10)) + 1]}\n{note}\n"
        self.tell(self._attempt, DocumentPart(kind, title, text, number, archive, differs))
