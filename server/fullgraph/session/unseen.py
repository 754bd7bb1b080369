"""Findings that the user selected but that fullgraph cannot detect with the installed torch."""

from __future__ import annotations

from fullgraph.domain.codes import may_be_selected
from fullgraph.domain.phrases import listing
from fullgraph.engines import EngineStatus, sentences
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Degraded
from fullgraph_engine.protocol.facts import CODES, WORDS


def hidden_facts(status: EngineStatus, settings: Settings) -> tuple[Degraded, ...]:
    """Return the facts about traces that the installed torch does not show completely, if findings
    selected by the user depend on them."""

    def is_asked_for(beginning: str) -> bool:
        return may_be_selected(beginning, settings.select, settings.ignore, settings.severity)

    return tuple(one for one in status.degraded if any(map(is_asked_for, CODES.get(one.fact, ()))))


def hidden_warning(status: EngineStatus, hidden: tuple[Degraded, ...]) -> str:
    """Return a warning about findings that cannot be detected, with the next step for the user;
    empty if ``hidden`` is empty.
    """
    if not hidden:
        return ""
    words = listing(WORDS[one.fact] for one in hidden)
    reasons = "; ".join(one.reason for one in hidden)
    where = f" in {status.interpreter}" if status.interpreter else ""
    return sentences(
        f"fullgraph cannot detect {words} with torch {status.torch}{where} ({reasons}), so "
        "findings about them may be missing",
        "Update fullgraph, or choose an interpreter with a torch that `fullgraph doctor` does not "
        "call degraded.",
    )
