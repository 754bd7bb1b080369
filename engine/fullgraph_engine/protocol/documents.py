"""Documents about one target: what a run writes down when somebody wants to read it."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Literal

from .runs import RunId

DocumentKind = Literal["graph", "guards", "events", "bytecode"]
DOCUMENT_KINDS: tuple[DocumentKind, ...] = typing.get_args(DocumentKind)

MOST_TEXT = 5 << 20
"""Characters of one document; what does not fit is left out, and the document says so."""


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
    """One graph, one frame, one ShapeEnv; a document is its parts in order."""

    kind: DocumentKind
    title: str
    text: str
    number: int = 0
    """Of events, which ShapeEnv of the run they are of, from 1."""
    archive: str = ""
    """The events in the form of ``SavedEvents``, where ``Analyze`` has ``save_events``."""
    differs: bool = False
    """The events are not those that they were compared with."""


@dataclass(frozen=True)
class DocumentsWritten:
    """Further parts of a run's documents, as soon as they are known.

    A run may start over. What a later ``attempt`` of it writes takes the place of all that an
    earlier one wrote.
    """

    request: int
    target: str
    run: RunId
    attempt: str
    documents: tuple[DocumentPart, ...]
