"""The tool ``repro``: make a short script that shows a finding."""

from __future__ import annotations

import dataclasses

from fullgraph.domain.repro import ReductionState
from fullgraph.mcp.analysis import Analyzer
from fullgraph.mcp.answers import Refused, ReproAnswer
from fullgraph.mcp.jobs import ShowProgress
from fullgraph.mcp.subjects import Subject
from fullgraph.render.repro import outcome_words, reduction_words
from fullgraph.session.repro import follow_reproduction, is_reproducible, reproduce_request


async def reproduce(
    analyzer: Analyzer, subject: Subject, name: str, seconds: float, show_progress: ShowProgress
) -> ReproAnswer:
    """Reduce the code that causes a finding to a short script.

    ``name`` is the id or code of the finding, ``seconds`` the time limit; 0 for the time limit of
    the settings.

    Raises:
        Refused: The text could not be traced, does not have the finding, or a script cannot show
            it.
    """
    checked = await analyzer.check(subject, show_progress)
    item = checked.find(name)
    if not is_reproducible(item.finding.code):
        raise Refused(f"`{item.finding.code}` cannot be reproduced in a separate script.")
    wanted = item.run_findings[0].to_wanted()
    request = reproduce_request(checked.request, wanted, subject.own.settings)
    if seconds:
        request = dataclasses.replace(request, seconds=seconds)

    def report(state: ReductionState) -> None:
        show_progress(f"Reducing: {reduction_words(state)}")

    async with analyzer.engine(subject.own, show_progress) as (engine, _):
        outcome = await analyzer.run_cancellable(
            follow_reproduction(engine.reproduce(request), report)
        )
    notes = (*checked.notes, *filter(None, [outcome.reason]))
    return ReproAnswer(
        subject.path,
        subject.hash,
        item.id,
        outcome.found.script if outcome.found is not None else "",
        outcome.verified,
        outcome_words(outcome),
        notes,
    )
