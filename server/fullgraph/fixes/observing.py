"""Call the traced functions of a file again, to measure or to compare them.

It does not import the rewrites, because each check imports this module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

from fullgraph.fixes.tracing import Tracer, events
from fullgraph_engine.protocol import Analyze, Event, Observe, Part, ProbeInfo, TargetReport

_SECONDS = 240.0
"""Maximum seconds to measure or compare one function; Inductor's C++ compiler is slow."""


def targets_to_observe(reports: Iterable[TargetReport]) -> list[tuple[TargetReport, ProbeInfo]]:
    """Return the traced functions to measure or compare, each with its example inputs.

    These are the functions that no other traced function calls, or all of them if each one is
    called by another.
    """
    traced = [(one, one.probe) for one in reports if one.status == "traced" and one.probe]
    given = [(one, probe) for one, probe in traced if probe.origin != "harvest"]
    return given or traced


def find_last_probes(wanted: Sequence[tuple[TargetReport, ProbeInfo]]) -> dict[str, int]:
    """Return the number of the last example inputs of each function, by function name."""
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
    """Run functions in the engine one after the other; yield (function name, event) for each event.

    ``part`` is the phase to run, such as ``measure``. ``last_probes`` maps the name of each
    function to the number of the last example inputs with which it was traced. ``request``
    describes how the functions were traced. ``tell`` is called with each name before that function
    runs.
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
