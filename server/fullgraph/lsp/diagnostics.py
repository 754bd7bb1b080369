"""Convert findings to LSP diagnostics."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lsprotocol import types

from fullgraph.domain.calls import calls_clause
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.guard_names import other_names
from fullgraph.domain.phrases import listing
from fullgraph.domain.wording import (
    consequence,
    explanation,
    message_lines,
    repeated_words,
    same_cause_lines,
)
from fullgraph.lsp.places import OtherTexts, range_in, range_json, text_edits
from fullgraph.render.breaks import cost_clause
from fullgraph.render.terminal import FindingFile, finding_text
from fullgraph.session.documents import Document
from fullgraph.session.session import Session
from fullgraph_engine.protocol import Range

SOURCE = "fullgraph"
_MOST_HINTS = 3


class DiagnosticBuilder:
    """Builds LSP diagnostics from findings, limited to fields that the client supports."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._texts = OtherTexts()

    def for_finding(self, item: FileFinding, document: Document) -> types.Diagnostic:
        finding, client = item.finding, self._session.client
        has_description = client.code_description and item.href
        unnecessary = client.unnecessary_tag and finding.unnecessary
        return types.Diagnostic(
            range=range_in(document, finding.range),
            severity=types.DiagnosticSeverity(item.shown_severity.number),
            code=finding.code,
            code_description=types.CodeDescription(item.href) if has_description else None,
            source=SOURCE,
            message=_message_text(item),
            tags=[types.DiagnosticTag.Unnecessary] if unnecessary else None,
            related_information=self._related_information(item, document),
            data=_client_data(item, document) if client.diagnostic_data else None,
        )

    def _related_information(
        self, item: FileFinding, document: Document
    ) -> list[types.DiagnosticRelatedInformation] | None:
        if not self._session.client.related_information:
            return None
        related = [
            types.DiagnosticRelatedInformation(
                types.Location(document.uri, range_in(document, place)), words
            )
            for place, words in _same_cause_places(item)
        ]
        opened = self._session.files.documents() if item.finding.related else {}
        for other in item.finding.related:
            location = self._texts.find_location(other.path, other.range, document, opened)
            if location is not None:
                related.append(types.DiagnosticRelatedInformation(location, other.message))
        return related or None


def result_id(items: Sequence[dict[str, Any]]) -> str:
    """Return a hash of diagnostics as their LSP result id. It does not depend on the version of the
    text, so equal diagnostics keep it."""
    text = json.dumps(items, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _same_cause_places(item: FileFinding) -> Iterator[tuple[Range, str]]:
    if item.same_as is not None:
        yield item.same_as, "First place with this cause"
    for place in item.also:
        yield place, "Place with the same cause"


def _message_text(item: FileFinding) -> str:
    finding = item.finding
    if item.same_as is not None:
        return "\n".join(same_cause_lines(finding, item.same_as.start.line))
    lines = message_lines(finding)
    lines += filter(None, [consequence(finding)])
    if finding.cost is not None:
        lines.append(f"Cost: {cost_clause(finding.cost)}.")
    if item.also:
        repeated = repeated_words(finding)
        lines.append(f"{repeated[0].upper()}{repeated[1:]} on {_line_words(item.also)}.")
    if clause := calls_clause(finding):
        lines.append(f"Seen {clause}.")
    lines += [f"Also: {name}." for name in other_names(finding)]
    lines += filter(None, [explanation(finding)])
    lines += [f"Hint: {hint}" for hint in finding.hints[:_MOST_HINTS]]
    return "\n".join(lines)


def _line_words(places: Iterable[Range]) -> str:
    numbers = list(dict.fromkeys(str(place.start.line + 1) for place in places))
    return f"line{'s' if len(numbers) > 1 else ''} {listing(numbers)}"


def _client_data(item: FileFinding, document: Document) -> dict[str, Any]:
    """Return the ``data`` of a diagnostic as JSON, for clients with their own display of
    findings."""
    finding = item.finding
    name = document.name
    place = FindingFile(name.rsplit("/", 1)[-1], name, document.positions)
    return {
        "id": item.id,
        "rendered": finding_text(item, place),
        "href": item.href,
        "targets": list(item.targets),
        "count": finding.count,
        "mode": finding.mode,
        "calls": {one.region: list(one.numbers) for one in finding.calls},
        "fixes": [
            {
                "title": fix.title,
                "preferred": fix.preferred,
                "edits": [
                    {"range": range_json(edit.range), "newText": edit.new_text}
                    for edit in text_edits(document, fix.edits)
                ],
            }
            for fix in finding.fixes
        ],
    }
