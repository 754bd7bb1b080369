"""What this torch cannot show: found out once for each build, by a program that is traced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

from ..operators.cache import user_cache_folder, write_atomically
from ..protocol import from_plain, to_plain
from ..protocol.facts import Degraded, Fact
from .process_backends.branches import Branches, answer_of

_SECONDS = 60.0
"""Of processor time for the program, which takes a third of a second."""
_MOST_KEPT = 16


class Proving(Protocol):
    """What the pipeline knows of it."""

    def missing(self) -> tuple[Degraded, ...]:
        """What the names that are not there are needed for."""

    def prove(self) -> tuple[Degraded, ...]:
        """What is not seen of a program that has everything; call it in a process that ends."""

    def build(self) -> str:
        """Differs wherever the outcome of ``prove`` might; empty: it is not to be kept."""


def degraded(pipeline: Proving, *, forks: bool) -> tuple[Degraded, ...]:
    """Every fact that is not to be relied on, once, with all reasons.

    Without ``forks`` no process inherits what the program leaves behind in this one.
    """
    reasons: dict[Fact, list[str]] = {}
    for one in (*pipeline.missing(), *_proven(pipeline, forks)):
        reasons.setdefault(one.fact, []).append(one.reason)
    return tuple(Degraded(fact, "; ".join(words)) for fact, words in reasons.items())


def _proven(pipeline: Proving, forks: bool) -> tuple[Degraded, ...]:
    build = pipeline.build()
    path = _path(build) if build else None
    kept = _read(path) if path is not None else None
    if kept is not None:
        return kept
    answer = Branches()(pipeline.prove, _SECONDS) if forks else answer_of(pipeline.prove)
    if forks and answer.value is None and not answer.late:
        # Something else may have ended the process, and nothing would prove it later.
        answer = Branches()(pipeline.prove, _SECONDS)
    if answer.value is None:
        return (Degraded("graphs", f"a test program could not be traced: {answer.lost}"),)
    if path is not None:
        _write(path, answer.value)
    return answer.value


def _path(build: str) -> Path | None:
    try:
        return user_cache_folder() / "fullgraph" / "proofs" / f"{build}.json"
    except RuntimeError:  # the user has no home
        return None


def _read(path: Path) -> tuple[Degraded, ...] | None:
    try:
        raw = json.loads(path.read_text("utf-8"))
        return tuple(from_plain(Degraded, item) for item in raw)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write(path: Path, found: tuple[Degraded, ...]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps([to_plain(one) for one in found]).encode())
        kept = sorted(path.parent.glob("*.json"), key=lambda one: one.stat().st_mtime)
        for old in kept[:-_MOST_KEPT]:
            old.unlink()
    except OSError:  # it is proven again the next time
        return
