"""Messages with documents about one target (graphs, bytecode, ShapeEnv events), which are written
on request."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Literal

from .runs import RunId

DocumentKind = Literal["graph", "guards", "events", "bytecode"]
DOCUMENT_KINDS: tuple[DocumentKind, ...] = typing.get_args(DocumentKind)

MOST_TEXT = 5 << 20
"""Maximum number of characters of a document; a longer one is cut and ends with a note."""


@dataclass(frozen=True)
class SavedEvents:
    """The events of one ShapeEnv from an earlier trace, to compare a later trace with.

    ``number`` counts the ShapeEnvs of a trace from 1. ``archive`` is the JSON that
    ``shapes.comparison.save`` wrote.
    """

    run: RunId
    number: int
    archive: str


@dataclass(frozen=True)
class DocumentPart:
    """One section of a document about a traced target: one graph, one frame or one ShapeEnv.

    A document is its sections in order.
    """

    kind: DocumentKind
    title: str
    text: str
    number: int = 0
    """Number of the section's ShapeEnv in the run, from 1; 0 for a section about a graph or a
    frame."""
    archive: str = ""
    """Events of the section's ShapeEnv as JSON for ``SavedEvents``; empty unless
    ``Analyze.save_events`` is set."""
    differs: bool = False
    """True if the ShapeEnv events differ from the saved events of an earlier run."""


@dataclass(frozen=True)
class DocumentsWritten:
    """Event: new sections of documents about a trace, sent as soon as each is complete.

    If the trace is repeated, with a new ``attempt``, the sections of that attempt replace all
    earlier ones.
    """

    request: int
    target: str
    run: RunId
    attempt: str
    documents: tuple[DocumentPart, ...]
