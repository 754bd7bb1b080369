"""Hover section with the guards of the last trace on the expression under the cursor."""

from __future__ import annotations

import re

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.hovers.section import HoverSection
from fullgraph.operators.text import TokenizedText
from fullgraph.render.guards import GuardQuery, answer_markdown, answer_text, find_guards
from fullgraph.session.analysis_unit import AnalysisUnit

_STEP = re.compile(r"\.\w+|\[(?:\d+|'[^'\n]*'|\"[^\"\n]*\")\]")
_PATH = re.compile(rf"(?<![\w.\])])[^\W\d]\w*(?:{_STEP.pattern})*")


def section(context: ServerContext, unit: AnalysisUnit, offset: int) -> HoverSection | None:
    """Return the part of a hover that lists the guards on the expression under the cursor.

    ``offset`` is the cursor's position in the text, in code points. The result is None if the
    expression does not have guards.
    """
    if not unit.results.guards:
        return None
    expression = expression_at(unit.document.text, offset)
    if expression is None:
        return None
    start, end = expression
    line, _ = unit.document.position_at(start)
    words = unit.document.text[start:end].replace('"', "'")
    query = GuardQuery(words, line)
    answer = find_guards(
        query, (frame for target in unit.results.guards.values() for frame in target.frames)
    )
    page = answer_markdown(query, answer)
    return HoverSection(page, answer_text(query, answer), start, end) if page else None


def expression_at(text: str, offset: int) -> tuple[int, int] | None:
    """Return (start, end) of the dotted expression that ends with the name at ``offset``; None if
    no name is there.

    In ``self.blocks[0].weight`` with the cursor on ``blocks`` this is ``self.blocks``.
    """
    begin = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    for match in _PATH.finditer(text, begin, end if end >= 0 else len(text)):
        if not match.start() <= offset <= match.end():
            continue
        if TokenizedText.for_text(text).place_at(match.start() + 1) is None:
            return None  # the match is in a comment or a string
        stop = re.compile(r"\w+").match(text, match.start())
        last = stop.end() if stop else match.end()
        while last < offset and (step := _STEP.match(text, last, match.end())) is not None:
            last = step.end()
        return match.start(), last
    return None
