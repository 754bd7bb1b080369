"""The tool ``graph``: show the graphs, guards, bytecode or shape events of targets."""

from __future__ import annotations

import dataclasses

from fullgraph.cli.show import ChosenPlace, NoTarget, ShownDocuments, trace_documents
from fullgraph.mcp.analysis import Analyzer
from fullgraph.mcp.answers import GraphAnswer, Refused
from fullgraph.mcp.engines import RETRACED
from fullgraph.mcp.jobs import ShowProgress
from fullgraph.mcp.paging import Paging
from fullgraph.mcp.subjects import Subject
from fullgraph.mcp.tools.check import CheckPart
from fullgraph.session.request import analyze_request
from fullgraph_engine.protocol.documents import DocumentKind


async def graph(
    analyzer: Analyzer,
    subject: Subject,
    part: CheckPart,
    kind: DocumentKind,
    paging: Paging,
    show_progress: ShowProgress,
) -> GraphAnswer:
    """Trace the chosen targets and return a document of one kind about each.

    Raises:
        Refused: The text could not be traced, or does not have the target.
    """
    request = analyze_request(
        name=str(subject.absolute),
        text=subject.text,
        generation=subject.hash,
        settings=subject.own.settings,
        project=subject.own.project.root,
    )
    place = ChosenPlace(subject.path, target=part.target, line=part.line)

    async with analyzer.engine(subject.own, show_progress) as (engine, _):
        try:
            documents: ShownDocuments = await analyzer.run_cancellable(
                trace_documents(kind, place, request, engine, show_progress)
            )
        except NoTarget as error:
            raise Refused(str(error)) from error
        notes = (RETRACED,) if engine.restarted else ()
    text, cursor = paging.page_text(documents.text)
    answer = GraphAnswer(subject.path, subject.hash, kind, text, notes, cursor)
    if documents.complete:
        return answer
    incomplete = "A trace ended early, so something may be missing."
    return dataclasses.replace(answer, notes=(*notes, incomplete))
