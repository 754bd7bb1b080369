"""Documents about one target, which a run writes on request."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Literal

from .runs import RunId

DocumentKind = Literal["graph", "guards", "events", "bytecode"]
DOCUMENT_KINDS: tuple[DocumentKind, ...] = typing.get_args(DocumentKind)

MOST_TEXT = 5 << 20
"""Maximum number of characters of a document; a longer one is cut, and says so."""


@dataclass(frozen=True)
class SavedEvents:
    """The events of one ShapeEnv, which a later run is compared with.

    ``number`` counts the ShapeEnvs of a run from 1. ``archive`` is the JSON that
    ``shapes.comparison.save`` wrote.
    """

    run: RunId
    number: int
    archive: str


@dataclass(frozen=True)
class DocumentPart:
    """One part of a document: a graph, a frame, or a ShapeEnv; a document is its parts in order."""

    kind: DocumentKind
    title: str
    text: str
    number: int = 0
    """Number of the ShapeEnv in the run, from 1; 0 for other parts."""
    archive: str = ""
    """Events as JSON for ``SavedEvents``, if ``Analyze`` has ``save_events``."""
    differs: bool = False
    """True if the events differ from the saved events of the earlier run."""


@dataclass(frozen=True)
class DocumentsWritten:
    """Event: new parts of a run's documents, sent as soon as they are complete.

    A run may start again; the parts of a later ``attempt`` replace all earlier ones.
    """

    request: int
    target: str
    run: RunId
    attempt: str
    documents: tuple[DocumentPart, ...]
