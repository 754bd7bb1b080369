"""Call the traced functions of a file again, to measure or to compare them."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from fullgraph.fixes.tracing import Tracer, events
from fullgraph_engine.protocol import Analyze, Event, Observe, Part, ProbeInfo, TargetReport

_SECONDS = 240.0
"""Maximum seconds to measure or compare one function; Inductor's C++ compiler is slow."""


def targets_to_observe(reports: Iterable[TargetReport]) -> list[tuple[TargetReport, ProbeInfo]]:
    """Return the traced functions that no other traced function calls, with their inputs; all
    traced functions if each is called by another one."""
    traced = [(one, one.probe) for one in reports if one.status == "traced" and one.probe]
    given = [(one, probe) for one, probe in traced if probe.origin != "harvest"]
    return given or traced


def find_last_probes(wanted: Sequence[tuple[TargetReport, ProbeInfo]]) -> dict[str, int]:
    """Return the number of the last inputs of each function, by its name."""
    return {
        one.name: max(other.probe_number for other, _ in wanted if other.name == one.name)
        for one, _ in wanted
    }


async def observe_targets(
    tracer: Tracer,
    request: Analyze,
    part: Part,
    last_probes: Mapping[str, int],
    tell: Callable[[str], None],
) -> AsyncIterator[tuple[str, Event]]:
    """Run each function for the purpose ``part``, and yield its name with each event of the engine.

    ``last_probes`` has the names of the functions, and the number of the last example inputs with
    which each was traced. ``request`` describes how the functions were traced; ``tell`` is called
    with the name of each before it runs. They run one after the other, because they would slow each
    other down.
    """
    for name, last_probe in last_probes.items():
        tell(name)
        asked = dataclasses.replace(
            request,
            mode="real",
            parts=(part,),
            only=(name,),
            observe=Observe(_SECONDS, (), last_probe=last_probe),
            jobs=1,
            limits=dataclasses.replace(request.limits, seconds=_SECONDS),
        )
        async for event in events(tracer.analyze(asked)):
            yield name, event
