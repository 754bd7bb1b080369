"""Trace versions of one file one after the other, each time only the targets that may have changed.

Targets are the functions and module classes of the file to trace.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from fullgraph.fixes.tracing import Traced, Tracer, events
from fullgraph.incremental import ParsedText, align_versions, find_unaffected, parse_text
from fullgraph.incremental.text_maps import CodeMap
from fullgraph.results import Results
from fullgraph_engine.protocol import Analyze, Part


@dataclass(frozen=True)
class _Version:
    """One version of the file with its results."""

    parsed: ParsedText
    results: Results


class Retracer:
    """A tracer of versions of one file, with the settings of one request.

    Targets that a change cannot affect keep their results.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._last: dict[tuple[Part, ...], _Version] = {}
        """Last traced version of the file, by the phases of the trace (such as ``first`` or
        ``paths``) that were requested.
        """

    async def trace(self, request: Analyze) -> Traced:
        """Trace the text of a request; return the findings and reports of all its targets."""
        results, parsed = Results(), parse_text(request.text)
        before = self._last.get(request.parts)
        kept = frozenset[str]()
        if before is not None and parsed is not None:
            kept = _adopt_results(results, before, request, parsed)
            request = dataclasses.replace(request, without=tuple(sorted(kept)))
        results.begin_run(request.only, kept)
        async for event in events(self._tracer.analyze(request)):
            results.apply_event(event)
        results.complete_run()
        if parsed is not None and results.failure is None:
            self._last[request.parts] = _Version(parsed, results)
        return Traced.from_results(request.text, results)


def _adopt_results(
    results: Results, before: _Version, request: Analyze, parsed: ParsedText
) -> frozenset[str]:
    """Copy the results of targets outside the reach of the change, with ranges in the new text;
    return the names of these targets."""
    known = before.results
    change = align_versions(before.parsed, parsed) if not known.note else None
    if change is None:
        return frozenset()
    unaffected = find_unaffected(before.parsed, parsed, change, known.targets)
    moved = known.relocate_to(CodeMap(change.moves, parsed.lines), request.path)
    kept = unaffected & moved.placed
    results.adopt_targets(moved, kept)
    return kept
