"""Requests for documents about a run (graphs, bytecode, ShapeEnv events).

The host process uses this module too, so it does not import torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..protocol.documents import MOST_TEXT, DocumentKind, DocumentPart


@dataclass
class DocumentRequest:
    """A request for documents about one trace of a target, and the function that receives their
    sections.

    ``send_part`` is called as soon as a section is complete, because the run's process may end at
    any time. Its arguments are the number of the attempt to trace the target, and the section.
    """

    kinds: tuple[DocumentKind, ...]
    send_part: Callable[[str, DocumentPart], None]
    save_events: bool = False
    compare_events: Mapping[int, str] = field(default_factory=dict)
    """ShapeEnv events of an earlier run to compare this run with, as JSON by the number of the
    ShapeEnv."""
    most: int = MOST_TEXT
    _attempt: str = ""
    _sent: dict[DocumentKind, int] = field(default_factory=dict)

    def begin_attempt(self, attempt: str) -> None:
        """Begin another attempt to trace the target, for example with real tensors.

        Its sections replace all earlier ones.
        """
        self._attempt, self._sent = attempt, {}

    def wants_kind(self, kind: DocumentKind) -> bool:
        return kind in self.kinds and self._sent.get(kind, 0) <= self.most

    def write_part(
        self,
        kind: DocumentKind,
        title: str,
        text: str,
        *,
        number: int = 0,
        archive: str = "",
        differs: bool = False,
    ) -> None:
        """Send one section of a document to the receiver; cut the section if the document becomes
        too long.

        ``number`` is the number of the graph or ShapeEnv. For a ShapeEnv, ``archive`` has its
        events as JSON, and ``differs`` is true if the events differ from an earlier run.
        """
        if not self.wants_kind(kind):
            return
        sent = self._sent.get(kind, 0)
        self._sent[kind] = sent + len(text)
        if sent + len(text) > self.most:
            self._sent[kind] = self.most + 1
            visible = text[: self.most - sent]
            mark = "#" if kind == "graph" else "..."
            note = f"{mark} Only the first {self.most:,} characters are shown."
            text = f"{visible[: visible.rfind(chr(10)) + 1]}\n{note}\n"
        self.send_part(self._attempt, DocumentPart(kind, title, text, number, archive, differs))
