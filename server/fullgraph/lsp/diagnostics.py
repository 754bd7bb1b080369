"""Convert findings to diagnostics."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lsprotocol import types

from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.phrases import listing
from fullgraph.lsp.edits import text_edits
from fullgraph.lsp.places import OtherTexts, range_in
from fullgraph.render.terminal import FindingFile, finding_text
from fullgraph.session.analysis_unit import Unit
from fullgraph.session.documents import Document
from fullgraph.session.session import Session
from fullgraph_engine.protocol import Range

SOURCE = "fullgraph"
_MOST_HINTS = 3


class Diagnostics:
    """Builds diagnostics that fit the capabilities of the client."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._texts = OtherTexts()

    def of(self, unit: Unit, open_: dict[str, Document]) -> list[types.Diagnostic]:
        return [self.one(item, unit.document, open_) for item in unit.findings()]

    def one(
        self, item: FileFinding, document: Document, open_: dict[str, Document]
    ) -> types.Diagnostic:
        finding, client = item.finding, self._session.client
        described = client.code_description and item.href
        severity = item.severity if item.same_as is None else Severity.HINT
        unnecessary = client.unnecessary_tag and finding.unnecessary
        return types.Diagnostic(
            range=range_in(document, finding.range),
            severity=types.DiagnosticSeverity(severity.number),
            code=finding.code,
            code_description=types.CodeDescription(item.href) if described else None,
            source=SOURCE,
            message=_message(item),
            tags=[types.DiagnosticTag.Unnecessary] if unnecessary else None,
            related_information=self._related(item, document, open_),
            data=_data(item, document) if client.diagnostic_data else None,
        )

    def _related(
        self, item: FileFinding, document: Document, open_: dict[str, Document]
    ) -> list[types.DiagnosticRelatedInformation] | None:
        if not self._session.client.related_information:
            return None
        related = [
            types.DiagnosticRelatedInformation(
                types.Location(document.uri, range_in(document, place)), words
            )
            for place, words in _of_one_cause(item)
        ]
        for other in item.finding.related:
            location = self._texts.location(other.path, other.range, document, open_)
            if location is not None:
                related.append(types.DiagnosticRelatedInformation(location, other.message))
        return related or None


def result_id(items: Sequence[dict[str, Any]]) -> str:
    """Return a result id that only depends on the diagnostics, not on the version of the text."""
    text = json.dumps(items, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _of_one_cause(item: FileFinding) -> Iterator[tuple[Range, str]]:
    if item.same_as is not None:
        yield item.same_as, "The first break of this cause"
    for place in item.also:
        yield place, "Breaks here as well, for the same cause"


def _message(item: FileFinding) -> str:
    finding = item.finding
    if item.same_as is not None:
        return f"Same cause as line {item.same_as.start.line + 1}: {finding.message}"
    lines = [finding.message]
    if item.also:
        lines.append(f"The same cause breaks graphs on {_lines(item.also)}.")
    explanation = finding.explanation.strip()
    if explanation and explanation not in finding.message:
        lines.append(explanation)
    lines += [f"Hint: {hint}" for hint in finding.hints[:_MOST_HINTS]]
    return "\n".join(lines)


def _lines(places: Iterable[Range]) -> str:
    numbers = list(dict.fromkeys(str(place.start.line + 1) for place in places))
    return f"line{'s' if len(numbers) > 1 else ''} {listing(numbers)}"


def _data(item: FileFinding, document: Document) -> dict[str, Any]:
    """Return additional data for clients with their own display of findings, as JSON."""
    finding = item.finding
    name = document.name
    place = FindingFile(name.rsplit("/", 1)[-1], name, document.positions)
    return {
        "rendered": finding_text(item, place),
        "href": item.href,
        "targets": list(item.targets),
        "count": finding.count,
        "mode": finding.mode,
        "fixes": [
            {
                "title": fix.title,
                "preferred": fix.preferred,
                "edits": [
                    {"range": _plain(edit.range), "newText": edit.new_text}
                    for edit in text_edits(document, fix.edits)
                ],
            }
            for fix in finding.fixes
        ],
    }


def _plain(range_: types.Range) -> dict[str, Any]:
    return {
        "start": {"line": range_.start.line, "character": range_.start.character},
        "end": {"line": range_.end.line, "character": range_.end.character},
    }
