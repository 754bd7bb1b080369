"""Call the traced functions of a file again, to measure or to compare them."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable

from fullgraph.fixes.tracing import Tracer, events
from fullgraph_engine.protocol import Analyze, Event, Part, ProbeInfo, TargetReport

_SECONDS = 240.0
"""Maximum seconds to measure or compare one function; Inductor's C++ compiler is slow."""


def targets_to_observe(reports: Iterable[TargetReport]) -> list[tuple[TargetReport, ProbeInfo]]:
    """Return the traced functions that no other traced function calls, with their inputs; all
    traced functions if each is called by another one."""
    traced = [(one, one.probe) for one in reports if one.status == "traced" and one.probe]
    given = [(one, probe) for one, probe in traced if probe.origin != "harvest"]
    return given or traced


async def observe_targets(
    tracer: Tracer,
    request: Analyze,
    part: Part,
    names: Iterable[str],
    tell: Callable[[str], None],
) -> AsyncIterator[tuple[str, Event]]:
    """Run each function for the purpose ``part``, and yield its name with each event of the engine.

    ``request`` describes how the functions were traced; ``tell`` is called with the name of each
    before it runs. They run one after the other, because they would slow each other down.
    """
    for name in names:
        tell(name)
        asked = dataclasses.replace(
            request,
            mode="real",
            parts=(part,),
            only=(name,),
            jobs=1,
            limits=dataclasses.replace(request.limits, seconds=_SECONDS),
        )
        async for event in events(tracer.analyze(asked)):
            yield name, event
