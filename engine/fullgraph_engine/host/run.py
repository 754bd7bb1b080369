"""A run: one probe of one target, in a process of its own that ends with it."""

from __future__ import annotations

import os
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any, NoReturn

from ..documents import Commission
from ..protocol import (
    Analyse,
    CourseFound,
    DocumentsWritten,
    Finding,
    FindingFound,
    ForecastFound,
    GuardsFound,
    Log,
    Mode,
    Part,
    ShapesFound,
    TargetReport,
    ValuesSeen,
    place_words,
)
from ..protocol.course import MOST_STEPS
from ..protocol.documents import DocumentPart
from . import blackbox, descriptors, exits, frames, limits, placeholder, sandbox, wire
from .branches import Branches, silence
from .pipeline import Pipeline, Probe, Target
from .wire import Launch, RunDone, SeedsMade

_exit, _monotonic = os._exit, time.monotonic
LOST = 97
"""Exit status of a process whose way to the parent was closed by user code."""
_MOST_FINDINGS = 2000
_LAST = 0.1
"""The part of the time of a forecast that is kept for telling what it has found."""
GRACE = 0.15
"""Seconds that the parent is given to act before the interpreter writes down its stacks."""


def main(
    launch: Launch,
    given: list[int],
    analyse: Analyse,
    pipeline: Pipeline,
    target: Target,
    probe: Probe,
    namespace: dict[str, Any],
    lines: list[str],
    forking: Callable[[bool], None],
) -> NoReturn:
    """Never returns, whatever the user's code does to the interpreter."""
    try:
        _main(launch, given, analyse, pipeline, target, probe, namespace, lines, forking)
    except wire.Lost:
        _exit(LOST)
    finally:
        _exit(0)


def _main(
    launch: Launch,
    given: list[int],
    analyse: Analyse,
    pipeline: Pipeline,
    target: Target,
    probe: Probe,
    namespace: dict[str, Any],
    lines: list[str],
    forking: Callable[[bool], None],
) -> None:
    report, stdout, stderr, box = given
    report, box = descriptors.raised(report), descriptors.raised(box)
    descriptors.attach(stdout, stderr)

    def interrupted(number: int, frame: FrameType | None) -> None:
        try:
            stack = pipeline.where(frame)
        except Exception:  # in the middle of anything
            stack = ()
        blackbox.at_stack(box, stack or frames.of_stack(frame))

    limits.reset_signals(interrupted)
    blackbox.attend(box)
    blackbox.dump_at(box, launch.seconds + GRACE)
    limits.apply(launch.memory)
    exits.ignore()
    # The same choices on every edit: findings must not come and go by chance.
    random.seed(0)
    placeholder.touched.clear()

    emitted: dict[str, Finding] = {}

    def emit(finding: Finding) -> None:
        if emitted.get(finding.identity) == finding and finding.identity:
            return
        if len(emitted) >= _MOST_FINDINGS and finding.identity not in emitted:
            return
        if finding.code.startswith("trace/") and placeholder.behind(finding.message):
            return  # told at the statement that failed, and in the report
        if f"({placeholder.Placeholder.__name__})" in finding.context:
            return  # the tracer looked into one
        if finding.code == "trace/eager-error" and sandbox.REFUSED in finding.message:
            finding = replace(finding, code="trace/sandboxed")
        if finding.code.startswith("graph-break/"):
            blackbox.at_place(box, finding.range)
        emitted[finding.identity or str(len(emitted))] = finding
        if launch.part != "forecast":  # told in one, so that it replaces an earlier one in one
            wire.report(report, FindingFound(analyse.request, finding))

    def written(attempt: str, part: DocumentPart) -> None:
        run, attempt = _name(target, launch), f"{launch.mode} {attempt}"
        wire.report(report, DocumentsWritten(analyse.request, target.name, run, attempt, (part,)))

    def foretell(forecast: Any) -> None:
        rows, note, seconds = tuple(forecast.rows), forecast.note, forecast.seconds
        run, found = _name(target, launch), tuple(emitted.values())
        number = analyse.request
        wire.report(report, ForecastFound(number, target.name, run, rows, found, note, seconds))

    asked: dict[str, Any] = {}
    if analyse.documents:
        asked["documents"] = Commission(analyse.documents, written)
    if launch.part == "forecast":
        descriptors.flush()
        silence()
        until = _monotonic() + (1 - _LAST) * launch.seconds
        asked.update(branch=Branches(forking, until), foretell=foretell)

    started = _monotonic()
    mode: Mode = launch.mode
    needs_real: str | None = None
    try:
        if launch.part == "seeds":
            needs_real = _sow(report, launch, analyse, pipeline, target, probe, namespace)
            wire.report(report, RunDone(_untraced(target, probe), needs_real))
            return
        outcome = pipeline.run_target(
            target,
            probe,
            namespace,
            path=analyse.path,
            text=analyse.text,
            mode=mode,
            part=launch.part,
            emit=emit,
            run=_name(target, launch),
            **asked,
        )
        for finding in outcome.findings:
            emit(finding)
        if outcome.values:
            seen = ValuesSeen.of(analyse.request, target.name, outcome.values)
            wire.report(report, seen)
        if outcome.shapes:
            shapes, note = outcome.shapes, outcome.shapes_note
            wire.report(report, ShapesFound.of(analyse.request, target.name, shapes, note))
        if outcome.guards:
            guards, note = outcome.guards, outcome.guards_note
            wire.report(report, GuardsFound.of(analyse.request, target.name, guards, note))
        if outcome.course:
            steps = tuple(outcome.course[:MOST_STEPS])
            left_out = len(outcome.course) - len(steps)
            wire.report(report, CourseFound(analyse.request, target.name, steps, left_out))
        done, needs_real = outcome.report, outcome.needs_real
    except wire.Lost:
        raise
    except BaseException as error:
        if isinstance(error, MemoryError):
            limits.lift()
        done = _failed(error, launch, analyse, target, probe, lines, emit)
        done = replace(done, seconds=round(_monotonic() - started, 4))
        stack = frames.of_traceback(error.__traceback__)
        if frames.innermost(stack, analyse.path) is None:
            words = "".join(traceback.format_exception(error))
            wire.report(report, Log(analyse.request, "engine", words))
    missing = placeholder.behind(done.error or needs_real or "")
    if missing is not None:
        done, needs_real = replace(done, error=str(missing)), None
    descriptors.flush()
    wire.report(report, RunDone(done, needs_real))


def _sow(
    report: int,
    launch: Launch,
    analyse: Analyse,
    pipeline: Pipeline,
    target: Target,
    probe: Probe,
    namespace: dict[str, Any],
) -> str | None:
    """Write programs that may show the wanted finding; why to do it with real tensors, or None."""
    assert analyse.wanted is not None
    sown = pipeline.sow(
        target,
        probe,
        namespace,
        path=analyse.path,
        text=analyse.text,
        mode=launch.mode,
        wanted=analyse.wanted,
    )
    if sown.needs_real is None:
        wire.report(report, SeedsMade(sown.packed, sown.reason))
    return sown.needs_real


def _untraced(target: Target, probe: Probe) -> TargetReport:
    return TargetReport(target.name, target.kind, target.range, "traced", probe=probe.info)


_SUFFIXES: dict[Part, str] = {"first": "", "second": "+", "forecast": "~", "seeds": "!"}


def _name(target: Target, launch: Launch) -> str:
    return name_of(target.name, launch.probe, launch.part)


def name_of(target: str, probe: int, part: Part) -> str:
    """How a run is called in what it finds."""
    return f"{target}#{probe}{_SUFFIXES[part]}"


def _failed(
    error: BaseException,
    launch: Launch,
    analyse: Analyse,
    target: Target,
    probe: Probe,
    lines: list[str],
    emit: Any,
) -> TargetReport:
    """What the pipeline let through: ``sys.exit`` in the user's code, or a mistake of ours."""
    stack = frames.of_traceback(error.__traceback__)
    here = frames.innermost(stack, analyse.path)
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if here is None:
        code, where = "trace/incomplete", target.range
        reason = f"fullgraph itself failed on this target: {words}"
    else:
        code, where = "trace/eager-error", frames.range_of(here, lines)
        reason = f"The code raises here: {words}"
    emit(
        Finding(
            code=code,
            message=reason,
            range=where,
            target=target.name,
            stack=stack,
            mode="real" if launch.mode == "real" else "fake",
            identity=f"{code}@{place_words(where)}",
            run=_name(target, launch),
        )
    )
    return TargetReport(
        name=target.name,
        kind=target.kind,
        range=target.range,
        status="failed",
        mode="real" if launch.mode == "real" else "fake",
        probe=probe.info,
        error=reason,
    )
