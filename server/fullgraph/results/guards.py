"""Guards that the last runs reported, and the diagnostics that show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from fullgraph.domain.codes import Severity, documentation_url
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.guards import guard_sentences, kind_slug
from fullgraph_engine.protocol import Finding, Range, TargetReport
from fullgraph_engine.protocol.guards import FoundGuard, GuardedFrame

_MOST_LINES = 12
"""Maximum number of conditions listed in one diagnostic."""


@dataclass(frozen=True)
class ProbeGuards:
    """The compiled frames of one run with their guards; ``probe`` is the number of the run's
    example inputs.

    ``note`` is a sentence for the user about guards that were not reported because of a limit.
    """

    probe_number: int
    frames: tuple[GuardedFrame, ...]
    note: str = ""


@dataclass(frozen=True)
class GuardsByTarget:
    """The guards of one target (traced function or class), in the order of the example inputs of
    its runs.
    """

    runs: tuple[ProbeGuards, ...]

    def merge_with(self, other: GuardsByTarget) -> GuardsByTarget:
        """Return these guards together with the guards of a run with another probe (other
        inputs).
        """
        runs = sorted((*self.runs, *other.runs), key=lambda run: run.probe_number)
        return GuardsByTarget(tuple(runs))

    @cached_property
    def by_probe(self) -> Mapping[int, tuple[GuardedFrame, ...]]:
        """Compiled frames with their guards, by the number of the probe (inputs) that the run
        used.
        """
        return {run.probe_number: run.frames for run in self.runs}

    @property
    def frames(self) -> tuple[GuardedFrame, ...]:
        return tuple(frame for run in self.runs for frame in run.frames)


def guard_findings(
    targets: Iterable[str],
    guards: Mapping[str, GuardsByTarget],
    reports: Iterable[TargetReport],
) -> Iterator[FileFinding]:
    """Yield findings that show all guards of some targets, for users who want to see them.

    There is one for each guard kind and line. Guards without a line are placed at the name of their
    target.
    """
    names = {report.name: report.range for report in reports}
    for target in targets:
        groups: dict[tuple[Range, str], list[FoundGuard]] = {}
        for frame in guards[target].frames if target in guards else ():
            for guard in frame.guards:
                cause = frame.causes[guard.cause] if guard.cause >= 0 else None
                range_ = cause or names.get(target)
                if range_ is not None:
                    groups.setdefault((range_, guard.kind), []).append(guard)
        for (range_, kind), group in groups.items():
            yield _guard_finding(target, range_, kind, group)


def _guard_finding(target: str, range_: Range, kind: str, group: list[FoundGuard]) -> FileFinding:
    conditions = list(dict.fromkeys(line for guard in group for line in guard_sentences(guard)))
    lines = conditions[:_MOST_LINES]
    if len(conditions) > len(lines):
        lines.append(f"… and {len(conditions) - len(lines)} more")
    code = f"guard/{kind_slug(kind)}"
    head = f"{kind}: {lines[0]}" if len(lines) == 1 else f"{kind}, {len(group)} guards"
    finding = Finding(
        code=code,
        message=head,
        range=range_,
        target=target,
        explanation="" if len(lines) == 1 else "\n".join(lines),
        count=len(group),
    )
    return FileFinding(finding, Severity.HINT, (target,), documentation_url(code))
