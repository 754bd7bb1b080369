"""Measure the run times of functions: in eager mode, compiled, and compiled with the fixes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fullgraph.domain.positions import text_hash
from fullgraph.fixes.fixing import fixed
from fullgraph.fixes.tracing import events
from fullgraph.fixes.verification import Fix, Tracer
from fullgraph_engine.protocol import (
    Analyze,
    Failed,
    Measured,
    Measurement,
    TargetDone,
    TargetReport,
)

_SECONDS = 240.0
"""Maximum seconds to measure one function; Inductor's C++ compiler is slow."""


@dataclass(frozen=True)
class Timed:
    """Run times of one function with one set of inputs. ``plain`` is without fixes, ``fixed``
    with ``fixes``; None without any fix."""

    target: str
    inputs: str
    plain: Measurement
    fixed: Measurement | None = None
    fixes: tuple[Fix, ...] = ()


async def measured(
    tracer: Tracer,
    request: Analyze,
    reports: Iterable[TargetReport],
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Timed, ...]:
    """Measure the traced functions that no other traced function calls.

    ``request`` describes how they were traced. ``fixed`` times are with the fixes that ``fullgraph
    fix --unsafe`` applies. ``tell`` is called with progress messages.
    """
    traced = [(one, one.probe) for one in reports if one.status == "traced" and one.probe]
    given = [(one, probe) for one, probe in traced if probe.origin != "harvest"]
    wanted = given or traced
    names = tuple(dict.fromkeys(one.name for one, _ in wanted))
    text = request.text
    applied: tuple[Fix, ...] = ()
    after: dict[tuple[str, int], Measurement] = {}
    if any(one.breaks or one.skips for one, _ in traced):
        changed = await fixed(tracer, request, grades=("safe", "unsafe"))
        text, applied = changed.text, changed.applied
    before = await _measure_targets(tracer, request, names, tell)
    if applied:
        other = dataclasses.replace(request, text=text, generation=text_hash(text))
        after = await _measure_targets(tracer, other, names, tell)
    return tuple(
        Timed(
            one.name,
            probe.inputs,
            before.get((one.name, one.probe_number), Measurement(reason=_NOTHING)),
            after.get((one.name, one.probe_number)),
            applied,
        )
        for one, probe in wanted
    )


_NOTHING = "It was not called a second time."


async def _measure_targets(
    tracer: Tracer, request: Analyze, names: tuple[str, ...], tell: Callable[[str], None]
) -> dict[tuple[str, int], Measurement]:
    """Return measurements by function name and number of its inputs.

    Functions are measured one after the other, because they would slow each other down.
    """
    found: dict[tuple[str, int], Measurement] = {}
    for name in names:
        tell(name)
        asked = dataclasses.replace(
            request,
            mode="real",
            parts=("measure",),
            only=(name,),
            jobs=1,
            limits=dataclasses.replace(request.limits, seconds=_SECONDS),
        )
        async for event in events(tracer.analyze(asked)):
            if isinstance(event, Measured):
                found[event.target, event.run.probe] = event.measurement
            elif isinstance(event, TargetDone) and event.report.error:
                key = event.report.name, event.report.probe_number
                found.setdefault(key, Measurement(reason=event.report.error))
            elif isinstance(event, Failed):
                found.setdefault((name, 0), Measurement(reason=event.reason))
    return found
