"""Judge whether Inductor's code for the functions of a file computes the right numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fullgraph.fixes.observing import find_last_probes, observe_targets, targets_to_observe
from fullgraph.fixes.tracing import Tracer
from fullgraph_engine.protocol import (
    Analyze,
    Failed,
    Finding,
    FindingFound,
    NumericsJudged,
    NumericsVerdict,
    TargetDone,
    TargetReport,
)


@dataclass(frozen=True)
class JudgedTarget:
    """The verdict on one function with one set of inputs; ``inputs`` is the text of a probe
    comment.
    """

    target: str
    inputs: str
    verdict: NumericsVerdict


@dataclass(frozen=True)
class FileNumerics:
    """The verdicts on the functions of a file, and findings about wrong results."""

    targets: tuple[JudgedTarget, ...] = ()
    findings: tuple[Finding, ...] = ()


async def judge_numerics(
    tracer: Tracer,
    request: Analyze,
    reports: Iterable[TargetReport],
    tell: Callable[[str], None] = lambda _: None,
) -> FileNumerics:
    """Compare compiled and eager results of the traced functions that no other traced function
    calls.

    ``request`` describes how the functions were traced. ``tell`` is called with the name of each
    function before it is compiled.
    """
    wanted = targets_to_observe(reports)
    verdicts: dict[tuple[str, int], NumericsVerdict] = {}
    findings: list[Finding] = []
    last_probes = find_last_probes(wanted)
    async for name, event in observe_targets(tracer, request, "numerics", last_probes, tell):
        if isinstance(event, NumericsJudged):
            verdicts[event.target, event.run.probe] = event.verdict
        elif isinstance(event, FindingFound) and event.finding.code.startswith("numerics/"):
            findings.append(event.finding)
        elif isinstance(event, TargetDone) and event.report.error:
            key = event.report.name, event.report.probe_number
            reason = f"The comparison ended: {event.report.error.rstrip('.')}."
            verdicts.setdefault(key, NumericsVerdict("unknown", reason=reason))
        elif isinstance(event, Failed):
            verdicts.setdefault((name, 0), NumericsVerdict("unknown", reason=event.reason))
    missing = NumericsVerdict(
        "unknown", reason="The inputs of this function are known only while a program runs."
    )
    judged = tuple(
        JudgedTarget(
            report.name, probe.inputs, verdicts.get((report.name, report.probe_number), missing)
        )
        for report, probe in wanted
    )
    return FileNumerics(judged, tuple(findings))
