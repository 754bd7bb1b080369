"""The guards of a target, by frame and by the line that caused them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .places import Position, Range

# Bound now: user code in the engine's processes may replace the functions of `json`.
_loads, _dumps = json.loads, json.dumps

_SOURCE = "\x7f"
"""Stands for the source of a guard in its expressions, which most of them begin with."""


@dataclass(frozen=True)
class FoundGuard:
    """A condition that compiled code is only valid under.

    ``kind`` is the class of the guard in Dynamo's tree, ``source`` the value that it is about in
    Dynamo's words, of type ``type``; both are empty where it is about no value or several.
    ``cause`` is an index into the causes of its frame, or -1. ``deep``: what asked for it is in a
    library, called from the line of the cause if there is one.
    """

    kind: str
    source: str
    expressions: tuple[str, ...]
    type: str = ""
    cause: int = -1
    deep: bool = False


@dataclass(frozen=True)
class GuardedFrame:
    """A compiled frame. Lines are zero-based; ``path`` is empty for the analyzed file.

    ``entered``: how often its code was run, each time but the first after all guards held; -1
    where that is not known. ``causes``: ranges of the analyzed text, None for one that an edit
    has removed.
    """

    function: str
    path: str
    first_line: int
    last_line: int
    compile_id: str
    entered: int
    causes: tuple[Range | None, ...]
    guards: tuple[FoundGuard, ...]


@dataclass(frozen=True)
class GuardsFound:
    """Once per run of a target, after its findings; ``note`` says if not all are told.

    There can be thousands, so they travel as text.
    """

    request: int
    target: str
    packed: str
    note: str = ""
    probe_number: int = 0

    @classmethod
    def of(
        cls,
        request: int,
        target: str,
        frames: Iterable[GuardedFrame],
        note: str = "",
        probe_number: int = 0,
    ) -> GuardsFound:
        table: dict[str, int] = {}
        packed = [_packed(frame, table) for frame in frames]
        text = _dumps([list(table), packed], separators=(",", ":"), ensure_ascii=False)
        return cls(request, target, text, note, probe_number)

    def frames(self) -> tuple[GuardedFrame, ...]:
        """What was packed; nothing if it is not of this form."""
        try:
            table, frames = _loads(self.packed)
            return tuple(_unpacked(frame, table) for frame in frames)
        except (ValueError, TypeError, IndexError, KeyError):
            return ()


def _packed(frame: GuardedFrame, table: dict[str, int]) -> list[Any]:
    def word(text: str) -> int:
        return table.setdefault(text, len(table))

    causes = [
        [cause.start.line, cause.start.byte, cause.end.line, cause.end.byte] if cause else None
        for cause in frame.causes
    ]
    guards = []
    for guard in frame.guards:
        source = guard.source
        expressions = (
            [text.replace(source, _SOURCE) for text in guard.expressions]
            if source
            else guard.expressions
        )
        kind, type_ = word(guard.kind), word(guard.type)
        guards.append([kind, source, type_, guard.cause, int(guard.deep), *expressions])
    place = [frame.function, frame.path, frame.first_line, frame.last_line]
    return [*place, frame.compile_id, frame.entered, causes, guards]


def _unpacked(raw: list[Any], table: list[str]) -> GuardedFrame:
    function, path, first, last, compile_id, entered, causes, guards = raw
    return GuardedFrame(
        str(function),
        str(path),
        int(first),
        int(last),
        str(compile_id),
        int(entered),
        tuple(
            Range(Position(*cause[:2]), Position(*cause[2:])) if cause else None for cause in causes
        ),
        tuple(_guards(guards, table)),
    )


def _guards(raw: list[list[Any]], table: list[str]) -> Iterator[FoundGuard]:
    for kind, source, type_, cause, deep, *expressions in raw:
        told = tuple(text.replace(_SOURCE, source) for text in expressions)
        yield FoundGuard(table[kind], source, told, table[type_], cause, bool(deep))
