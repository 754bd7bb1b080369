"""Measure the run times of functions: in eager mode, compiled, and compiled with the fixes."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fullgraph.domain.positions import text_hash
from fullgraph.fixes.fixing import APPLICABLE, Fixed, fixed
from fullgraph.fixes.observing import find_last_probes, observe_targets, targets_to_observe
from fullgraph.fixes.tracing import Tracer, events
from fullgraph.fixes.verification import COMPARE_SECONDS, Fix
from fullgraph_engine.protocol import (
    Analyze,
    Compare,
    Compared,
    Failed,
    Measured,
    Measurement,
    ProbeInfo,
    TargetDone,
    TargetReport,
)

MIN_GAIN = 1.05
"""Minimum ratio of the speed with fixes to the speed without them, for the fixes to count as a
gain; a smaller one is within the noise of a measurement."""


@dataclass(frozen=True)
class Timed:
    """Run times of one function with one set of inputs.

    ``plain`` has the times of the measured text. ``fixed`` has the times of ``changed``, the text
    that results from applying ``fixes``. ``compared`` says whether the function behaves the same in
    both texts. Without any fix, ``fixed`` and ``compared`` are None and ``changed`` is the measured
    text.
    """

    target: str
    inputs: str
    plain: Measurement
    fixed: Measurement | None = None
    fixes: tuple[Fix, ...] = ()
    changed: str = ""
    compared: Compared | None = None
    init: str = ""
    """Arguments of the module's constructor, as in a probe comment."""

    @property
    def gain(self) -> float | None:
        """Ratio of compiled code's speed with the fixes to its speed without them; None if one of
        them was not measured."""
        if self.fixed is None or not self.fixed.compiled or not self.plain.compiled:
            return None
        return self.plain.compiled / self.fixed.compiled

    @property
    def is_applicable(self) -> bool:
        """Whether the fixes are worth applying.

        They make compiled code faster, or leave fewer graphs without making it slower, and no
        difference in behavior was seen.
        """
        if self.is_improved or self.fixed is None or self.gain is None:
            return self.is_improved
        differs = self.compared is not None and self.compared.outcome == "differs"
        return self.fixed.graphs < self.plain.graphs and self.gain * MIN_GAIN >= 1 and not differs

    @property
    def is_improved(self) -> bool:
        """Whether the fixes make compiled code faster, beyond the noise of a measurement, and no
        difference in behavior was seen."""
        differs = self.compared is not None and self.compared.outcome == "differs"
        return self.gain is not None and self.gain >= MIN_GAIN and not differs


async def measured(
    tracer: Tracer,
    request: Analyze,
    reports: Sequence[TargetReport],
    tell: Callable[[str], None] = lambda _: None,
    find_fixes: Callable[[], Awaitable[Fixed]] | None = None,
) -> tuple[Timed, ...]:
    """Measure the traced functions that no other traced function calls.

    ``request`` describes how they were traced. ``tell`` is called with progress messages.
    ``find_fixes`` returns the fixes to measure; without it, they are the fixes of ``fullgraph fix
    --unsafe``.
    """
    wanted = targets_to_observe(reports)
    last_probes = find_last_probes(wanted)
    text = request.text
    applied: tuple[Fix, ...] = ()
    after: dict[tuple[str, int], Measurement] = {}
    same: dict[str, Compared] = {}
    if any(one.breaks or one.skips for one in reports if one.status == "traced"):
        tell("looking for fixes")
        find = find_fixes or partial(
            fixed,
            tracer,
            request,
            grades=APPLICABLE,
            tell=lambda finding: tell(f"looking for fixes, {finding}"),
        )
        preparing = asyncio.ensure_future(_prepare_compiler(tracer, request, last_probes))
        try:
            changed = await find()
            await preparing
        finally:
            preparing.cancel()
        text, applied = changed.text, changed.applied
    before = await _measure_targets(tracer, request, last_probes, tell)
    if applied:
        other = dataclasses.replace(request, text=text, generation=text_hash(text))
        after = await _measure_targets(
            tracer, other, last_probes, lambda name: tell(f"{name} with fixes")
        )
        for name, last_probe in last_probes.items():
            known = _find_comparison(applied, text, name)
            if known is None:
                tell(f"comparing {name} with the original")
                known = await _compare_texts(tracer, request, text, name, last_probe)
            same[name] = known
    return tuple(
        Timed(
            one.name,
            probe.inputs,
            before.get((one.name, one.probe_number), _missing_measurement(probe)),
            after.get((one.name, one.probe_number)),
            applied,
            text,
            same.get(one.name),
            probe.init,
        )
        for one, probe in wanted
    )


def _find_comparison(applied: Sequence[Fix], changed: str, target: str) -> Compared | None:
    """Return the comparison of the original and the fixed function ``target`` that was made when
    its only fix was verified.

    ``changed`` is the text with the fix. None if several fixes were applied, or if that comparison
    could not tell whether the two versions behave the same.
    """
    if len(applied) != 1 or applied[0].candidate.text != changed:
        return None
    known = (one for one in applied[0].compared if one.target == target)
    return next((one for one in known if one.outcome != "unverified"), None)


async def _compare_texts(
    tracer: Tracer, request: Analyze, changed: str, target: str, last_probe: int
) -> Compared:
    """Compare the behavior of the function ``target`` in the text of the request and in the text
    ``changed``.

    ``last_probe`` is the number of the last example inputs with which the function was traced.
    """
    asked = Compare(
        0, request, target, changed, seconds=COMPARE_SECONDS, covering=False, last_probe=last_probe
    )
    found = [event async for event in events(tracer.compare(asked)) if isinstance(event, Compared)]
    return found[-1] if found else Compared(0, "unverified", reason="The engine did not answer.")


_NOTHING = "The compiled code was not called a second time."
_OF_PROGRAM = (
    "The inputs of this function are known only while the whole program runs. Write a probe "
    "comment above the function to measure it."
)


def _missing_measurement(probe: ProbeInfo) -> Measurement:
    """Return an empty measurement of a function, with the reason why the engine did not measure it.

    ``probe`` describes the inputs. If they come from a run of a program, the function is not
    measured, because the program would have to run again.
    """
    return Measurement(reason=_OF_PROGRAM if probe.origin == "program" else _NOTHING)


async def _prepare_compiler(
    tracer: Tracer, request: Analyze, last_probes: Mapping[str, int]
) -> None:
    """Let the engine prepare its first compilation, which takes many seconds, while fixes are
    sought."""
    for name, last_probe in last_probes.items():
        only = {name: last_probe}
        async for _ in observe_targets(tracer, request, "prepare", only, lambda _: None):
            pass
        return


async def _measure_targets(
    tracer: Tracer, request: Analyze, last_probes: Mapping[str, int], tell: Callable[[str], None]
) -> dict[tuple[str, int], Measurement]:
    """Measure functions; return a dictionary from (function name, number of the example inputs) to
    the measurement.

    ``tell`` is called with progress messages.
    """
    found: dict[tuple[str, int], Measurement] = {}
    async for name, event in observe_targets(tracer, request, "measure", last_probes, tell):
        if isinstance(event, Measured):
            found[event.target, event.run.probe] = event.measurement
        elif isinstance(event, TargetDone) and event.report.error:
            key = event.report.name, event.report.probe_number
            found.setdefault(key, Measurement(reason=event.report.error))
        elif isinstance(event, Failed):
            found.setdefault((name, 0), Measurement(reason=event.reason))
    return found
