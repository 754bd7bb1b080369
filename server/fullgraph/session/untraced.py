"""Lines that no trace of a target reached, which the editor shows faded on request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fullgraph.domain.codes import Severity, documentation_url
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.positions import TextPositions
from fullgraph_engine.protocol import Finding, Position, Range, TargetReport

CODE = "trace/untraced"


def untraced_findings(
    targets: Iterable[str], reports: Iterable[TargetReport], text: TextPositions
) -> Iterator[FileFinding]:
    """Yield a finding for each block of lines that no trace of a target reached."""
    by_target: dict[str, set[int]] = {}
    for report in reports:
        if report.lines is not None:
            lines = set(report.untraced)
            by_target[report.name] = by_target.get(report.name, lines) & lines
    for target in targets:
        for first, last in _line_blocks(sorted(by_target.get(target, ()))):
            indented = text.line(first)
            start = len(indented) - len(indented.lstrip())
            finding = Finding(
                code=CODE,
                message=f"Not traced by any run of `{target}`",
                range=Range(Position(first, start), text.line_end(last)),
                target=target,
                unnecessary=True,
            )
            yield FileFinding(finding, Severity.HINT, (target,), documentation_url(CODE))


def _line_blocks(lines: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each block of consecutive lines."""
    first = last = None
    for line in lines:
        if first is None or last is None or line > last + 1:
            if first is not None and last is not None:
                yield first, last
            first = line
        last = line
    if first is not None and last is not None:
        yield first, last
