"""Findings that are selected but that the installed torch cannot report."""

from __future__ import annotations

from fullgraph.domain.codes import may_be_selected
from fullgraph.domain.phrases import listing
from fullgraph.engines import EngineStatus, sentences
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Degraded
from fullgraph_engine.protocol.facts import CODES, WORDS


def hidden_facts(status: EngineStatus, settings: Settings) -> tuple[Degraded, ...]:
    """Return the missing hooks of torch whose findings are selected."""

    def is_asked_for(beginning: str) -> bool:
        return may_be_selected(beginning, settings.select, settings.ignore, settings.severity)

    return tuple(one for one in status.degraded if any(map(is_asked_for, CODES.get(one.fact, ()))))


def hidden_warning(status: EngineStatus, hidden: tuple[Degraded, ...]) -> str:
    """Return a warning about hidden findings with the next step; empty if none are hidden."""
    if not hidden:
        return ""
    words = listing(WORDS[one.fact] for one in hidden)
    reasons = "; ".join(one.reason for one in hidden)
    where = f" in {status.interpreter}" if status.interpreter else ""
    return sentences(
        f"torch {status.torch}{where} does not show fullgraph {words} ({reasons}); where none are "
        "reported, there may be some",
        "Update fullgraph, or choose an interpreter with a torch that `fullgraph doctor` does not "
        "call degraded.",
    )
