"""The tool ``explain``: explain one finding or a finding code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from fullgraph.cli.explain import UnknownCode, explain_code
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.guard_names import other_names
from fullgraph.domain.guards import guard_sentences
from fullgraph.domain.wording import finding_lines
from fullgraph.fixes.tracing import events
from fullgraph.mcp.analysis import Analyzer, Checked
from fullgraph.mcp.answers import ExplainAnswer, Refused, StackFrame
from fullgraph.mcp.jobs import ShowProgress
from fullgraph.mcp.paging import Paging
from fullgraph.mcp.subjects import Subject
from fullgraph.mcp.tools.listing import list_finding
from fullgraph.render.breaks import cause_words
from fullgraph.render.shapes import strip_markdown, values_page
from fullgraph.render.stack import FoldedFrames, fold_stack
from fullgraph.results import Results, collect_results
from fullgraph.results.shapes import all_shapes
from fullgraph_engine.protocol import Frame, Part, Position, Range


def explain_only_code(code: str) -> ExplainAnswer:
    """Return the documentation of a finding code.

    Raises:
        Refused: fullgraph does not have a finding with this code.
    """
    try:
        return ExplainAnswer(about=code, reason=explain_code(code))
    except UnknownCode as error:
        raise Refused(str(error)) from error


async def explain(
    analyzer: Analyzer,
    subject: Subject,
    name: str,
    target: str,
    paging: Paging,
    show_progress: ShowProgress,
) -> ExplainAnswer:
    """Explain the finding of a text with the id or code ``name``.

    ``target`` restricts the trace to one function or class; empty for all.

    Raises:
        Refused: The text could not be traced, or does not have the finding.
    """
    checked = await analyzer.check(subject, show_progress, target=target)
    item = checked.find(name)
    finding = item.finding
    details = await _trace_details(analyzer, checked, item, show_progress)
    values = dict.fromkeys(_values_at(subject, details, finding.range))
    guards = _guards_at(details, finding.range)
    facts = [*(("values", one) for one in values), *(("guards", one) for one in guards)]
    page = paging.page_items(facts)
    answer = ExplainAnswer(
        about=finding.code,
        path=subject.path,
        hash=subject.hash,
        values=tuple(one for kind, one in page.items if kind == "values"),
        guards=tuple(one for kind, one in page.items if kind == "guards"),
        cursor=page.cursor,
    )
    if paging.cursor:
        return answer
    return dataclasses.replace(
        answer,
        finding=list_finding(subject, item),
        reason="\n".join(finding_lines(finding)[1:]),
        hints=finding.hints,
        context=finding.context,
        causes=tuple(cause_words(cause, finding.range.start.line) for cause in finding.causes),
        stack=tuple(_stack_frames(subject, item)),
        notes=(*finding.notes, *other_names(finding), *checked.notes),
        documentation=item.href,
    )


async def _trace_details(
    analyzer: Analyzer, checked: Checked, item: FileFinding, show_progress: ShowProgress
) -> Results:
    """Trace the first target with the finding again, and return the results with its guards and
    values.
    """
    if not item.targets or not item.targets[0]:
        return Results()
    run = item.finding.run
    parts: tuple[Part, ...] = tuple(
        part
        for part in ("first", run.part if run is not None else "first")
        if part in checked.request.parts
    )
    request = dataclasses.replace(
        checked.request, only=item.targets[:1], parts=tuple(dict.fromkeys(parts))
    )
    async with analyzer.engine(checked.subject.own, show_progress) as (engine, _):
        show_progress(f"Tracing {item.targets[0]}")
        return await analyzer.run_cancellable(collect_results(events(engine.analyze(request))))


def _values_at(subject: Subject, details: Results, place: Range) -> Iterator[str]:
    lines = range(place.start.line, place.end.line + 1)
    for shapes in all_shapes(details.shapes.values()):
        if shapes.range.start.line in lines:
            code = " ".join(subject.positions.text_in(shapes.range).split())
            yield strip_markdown(values_page(shapes, code)).replace("\n", "; ")


def _guards_at(details: Results, place: Range) -> list[str]:
    lines = range(place.start.line, place.end.line + 1)
    found: dict[str, None] = {}
    for target in details.guards.values():
        for frame in target.frames:
            for guard in frame.guards:
                cause = frame.causes[guard.cause] if guard.cause >= 0 else None
                if cause is not None and cause.start.line in lines:
                    found.update(dict.fromkeys(guard_sentences(guard)))
    return list(found)


def _stack_frames(subject: Subject, item: FileFinding) -> Iterator[StackFrame]:
    for frame in fold_stack(item.finding.stack):
        if isinstance(frame, FoldedFrames):
            yield StackFrame("", f"{frame.count} frames of {frame.package}")
        else:
            yield _stack_frame(subject, frame)


def _stack_frame(subject: Subject, frame: Frame) -> StackFrame:
    here = frame.path in (str(subject.absolute), subject.path)
    source = subject.line(frame.line) if here else frame.text.strip()
    place = subject.locate(Position(frame.line, frame.byte), frame.path)
    return StackFrame(place, frame.function, source)
