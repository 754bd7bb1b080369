"""Determine which kinds of information the installed torch does not provide, by tracing a test
program once per installation."""

from __future__ import annotations

import json
from pathlib import Path

from ..operators.cache import user_cache_folder, write_atomically
from ..protocol import from_plain, to_plain
from ..protocol.facts import Degraded, Fact
from .pipeline import ProofPipeline
from .process_backends.branches import Branches, evaluate_here

_SECONDS = 60.0
"""Maximum seconds of processor time for tracing the test program, which usually takes a third of a
second."""
_MOST_KEPT = 16


def degraded_facts(pipeline: ProofPipeline, *, forks: bool) -> tuple[Degraded, ...]:
    """Return the facts about a trace (such as graphs or guards) that the installed torch does not
    show, each once with all reasons.

    Without ``forks``, the test program runs in this process, from which no others are forked.
    """
    reasons: dict[Fact, list[str]] = {}
    for one in (*pipeline.missing_facts(), *_proven_facts(pipeline, forks)):
        reasons.setdefault(one.fact, []).append(one.reason)
    return tuple(Degraded(fact, "; ".join(words)) for fact, words in reasons.items())


def _proven_facts(pipeline: ProofPipeline, forks: bool) -> tuple[Degraded, ...]:
    build = pipeline.build_key()
    path = _cache_path(build) if build else None
    kept = _read_cache(path) if path is not None else None
    if kept is not None:
        return kept
    answer = (
        Branches()(pipeline.prove_facts, _SECONDS) if forks else evaluate_here(pipeline.prove_facts)
    )
    if forks and answer.value is None and not answer.late:
        # Something outside the engine may have killed the process, so retry once to get a result.
        answer = Branches()(pipeline.prove_facts, _SECONDS)
    if answer.value is None:
        return (
            Degraded("graphs", f"fullgraph's own test program could not be traced: {answer.lost}"),
        )
    if path is not None:
        _write_cache(path, answer.value)
    return answer.value


def _cache_path(build: str) -> Path | None:
    try:
        return user_cache_folder() / "fullgraph" / "proofs" / f"{build}.json"
    except RuntimeError:  # the user does not have a home folder
        return None


def _read_cache(path: Path) -> tuple[Degraded, ...] | None:
    try:
        raw = json.loads(path.read_text("utf-8"))
        return tuple(from_plain(Degraded, item) for item in raw)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write_cache(path: Path, found: tuple[Degraded, ...]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps([to_plain(one) for one in found]).encode())
        kept = sorted(path.parent.glob("*.json"), key=lambda one: one.stat().st_mtime)
        for old in kept[:-_MOST_KEPT]:
            old.unlink()
    except OSError:  # the proof is repeated next time
        return
