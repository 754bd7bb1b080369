"""Summarize an open file: its findings, what was traced in it, and what was not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from fullgraph.domain.file_summary import FileSummary, FindingCounts, Gap, NotTraced, Obstacle
from fullgraph.engines import EngineState
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.definitions import is_switched_off, list_definitions
from fullgraph.session.file_traces import LONGEST_TRACED
from fullgraph.session.listener import SessionState
from fullgraph.session.request import may_have_targets
from fullgraph.session.session import Session
from fullgraph.session.unit_events import Reason
from fullgraph_engine.protocol import TargetReport


def summarize_file(session: Session, unit: AnalysisUnit) -> FileSummary:
    """Return the findings of a file, what was traced in it, and the reason if nothing was."""
    reports = [shown.report for shown in unit.view.reports()]
    counts = FindingCounts.count(unit.view.findings())
    by_name: dict[str, list[TargetReport]] = defaultdict(list)
    for report in reports:
        by_name[report.name].append(report)
    gaps = {name: _gap_of(its) for name, its in by_name.items()}
    not_traced = [
        NotTraced(name, by_name[name][0].range.start.line, gap)
        for name, gap in gaps.items()
        if gap is not None
    ]
    traced = len(gaps) - len(not_traced)
    if session.permission.may_execute:
        not_traced += _find_unreached(unit.document.text, reports)
    tracing = unit.busy or unit.waiting or _is_starting(session, unit)
    relevant = bool(reports) or may_have_targets(unit.document.text)
    return FileSummary(
        counts,
        traced,
        tuple(not_traced),
        _missed_lines(reports),
        tracing,
        relevant,
        None if reports or tracing or not relevant else _find_obstacle(session, unit),
    )


def _gap_of(reports: Iterable[TargetReport]) -> Gap | None:
    """Return the reason why no run traced the target that ``reports`` describe; None if a run
    did.
    """
    reports = list(reports)
    if any(report.status == "traced" for report in reports):
        return None
    if all(report.status == "no-probe" for report in reports):
        uncompiled = any(report.compiled is False for report in reports)
        return Gap.NOT_COMPILED if uncompiled else Gap.NO_INPUTS
    is_left_out = any(report.status == "skipped" for report in reports)
    return Gap.TIME_LIMIT if is_left_out else Gap.FAILED


def _find_unreached(text: str, reports: Iterable[TargetReport]) -> Iterator[NotTraced]:
    """Yield the definitions whose lines no trace reached, except for targets."""
    names, reached = set(), set[int]()
    for report in reports:
        names.add(report.name)
        if report.coverage is not None:
            reached.update(report.coverage.traced)
        elif report.status == "traced" and not report.is_inside_region:
            # This torch does not show which lines it traces.
            return
    for one in list_definitions(text):
        if one.name not in names and reached.isdisjoint(one.lines):
            yield NotTraced(one.name, one.line, one.gap)


def _missed_lines(reports: Iterable[TargetReport]) -> tuple[int, ...]:
    """Return the lines of traced functions that no run of any target reached."""
    reached, missed = set[int](), set[int]()
    for report in reports:
        if report.coverage is not None:
            reached.update(report.coverage.traced)
            missed.update(report.coverage.untraced)
    return tuple(sorted(missed - reached))


def _is_starting(session: Session, unit: AnalysisUnit) -> bool:
    """Whether the only reason that the file is untraced is that the server or its engine is still
    starting.
    """
    permission = session.permission
    if not permission.configured.is_set():
        return True
    if permission.explain_refusal(unit, Reason.OPENED):
        return False
    status = session.engines.find_status(unit)
    return status is not None and status.state is EngineState.STARTING


def _find_obstacle(session: Session, unit: AnalysisUnit) -> Obstacle:
    """Return the reason why no function or module of a file was traced."""
    permission, engines = session.permission, session.engines
    if refusal := permission.explain_refusal(unit, Reason.OPENED):
        if permission.may_execute:
            return Obstacle(refusal, "Analyze the file by command to trace it anyway.", True)
        status = engines.status
        untrusted = status.state is SessionState.UNTRUSTED
        return Obstacle(refusal, status.next_step if untrusted else "")
    if is_switched_off(unit.document.text):
        words = "The comment `# fullgraph: off` excludes this file."
        return Obstacle(words, "Remove the comment.", in_text=True)
    length = len(unit.document.text)
    if length > LONGEST_TRACED:
        reason = f"The file has {length:,} characters, more than {LONGEST_TRACED:,}."
        return Obstacle(reason, "Analyze the file by command to trace it anyway.", True)
    engine = engines.find_status(unit)
    if engine is None and engines.status.state is SessionState.UNUSABLE:
        return Obstacle(engines.status.message, engines.status.next_step)
    if engine is not None and engine.state is not EngineState.READY:
        return Obstacle(engine.message, engine.next_step)
    if unit.traces.unparsed:
        return Obstacle("The text has a syntax error.")
    if unit.traces.complete is None:
        next_step = "Analyze the file by command to trace it."
        return Obstacle("No trace of the file has ended.", next_step, by_command=True)
    return Obstacle(
        "The file has no module with a `forward`, no compiled function and no probe comment.",
        "Write a probe comment such as `# fullgraph: f32[4, 16]` above a function.",
    )
