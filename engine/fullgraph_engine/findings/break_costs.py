"""Costs of graph breaks: the graphs that each break splits, and how often it waits for the GPU."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from ..protocol import BreakCause, BreakCost, Finding, GraphCut, Range
from ..torch_internals.breaks import cannot_read_tensors, reading_operation
from ..tracing.recording import Break, Recording, Stack
from . import breaks
from .places import SourceText


class BreakCosts:
    """The costs of all graph breaks in one recorded trace of a target.

    Dynamo compiles a function up to its break, and then the code after the break as another
    function. A break in an inlined function splits each of its callers as well.
    """

    def __init__(
        self, recording: Recording, source: SourceText, fallback: Range, target: str
    ) -> None:
        self._recording, self._source, self._target = recording, source, target
        self._frames = {frame.id: frame for frame in recording.frames}
        self._ops: dict[int, int] = defaultdict(int)
        for graph in recording.graphs:
            self._ops[graph.frame] += len(graph.ops)
        self._guards = {code.frame: code.guards for code in recording.guarded}
        # A frame has at most one break, its last: Dynamo restarted its analysis after the earlier
        # ones.
        self._last = {
            record.frame: record for record in recording.breaks if record.frame in self._frames
        }
        self._rest = self._find_resumed()
        self._whole = {rest: frame for frame, found in self._rest.items() for rest in found}
        self._records: dict[str, list[Break]] = defaultdict(list)
        self._causes: dict[str, dict[str, BreakCause]] = defaultdict(dict)
        for record in self._last.values():
            finding = breaks.break_finding(record, source, fallback)
            self._records[finding.identity].append(record)
            for cause in finding.causes:
                self._causes[finding.identity].setdefault(cause.identity, cause)

    def causes(self, identity: str) -> tuple[BreakCause, ...]:
        """Return the causes of the graph break whose finding has this ``identity``.

        The result is empty if Dynamo reported the break only in an attempt that it later restarted.
        """
        return tuple(self._causes[identity].values()) if identity in self._causes else ()

    def cost(self, finding: Finding) -> BreakCost | None:
        """Return the cost of the graph break that a finding reports.

        None if Dynamo reported the break only in an attempt that it later restarted.
        """
        records = self._records.get(finding.identity)
        if not records:
            return None
        read = self._count_reads(finding.range)
        sync = next(filter(None, map(_read_by, records)), "Tensor.item()" if read else "")
        met = max(read, self._count_reached(records), 1)
        beside = {near for record in records for near in self._frames_beside(record.frame)}
        rest = {one for record in records for one in self._rest.get(record.frame, ())}
        eager = [record for record in records if record.outcome in _EAGER]
        return BreakCost(
            target=self._target,
            met=met,
            cuts=self._graph_cuts(records),
            graphs=sum(map(self._count_runs, beside)),
            ops=sum(self._ops[frame] * self._count_runs(frame) for frame in beside),
            eager=tuple(dict.fromkeys(self._frame_name(record.frame) for record in eager)),
            dropped=sum(one.ops for one in eager if one.outcome == "frame-skipped"),
            sync=sync,
            syncs=(read or met) if sync else 0,
            sync_free=not sync and all(map(_is_sync_free, records)),
            resumes=sum(self._frames[frame].outcome == "compiled" for frame in rest),
            guards=sum(self._guards.get(frame, 0) for frame in rest),
        )

    def _graph_cuts(self, records: Iterable[Break]) -> tuple[GraphCut, ...]:
        runs: Counter[tuple[str, int, int]] = Counter()
        for record in records:
            before, after = self._graphs_before(record.frame), self._graphs_after(record.frame)
            if before or after:
                most = max((self._ops[frame] for frame in after), default=0)
                cut = (
                    self._frame_name(record.frame),
                    sum(self._ops[frame] for frame in before),
                    most,
                )
                runs[cut] += max(map(self._count_runs, (record.frame, *before, *after)))
        return tuple(GraphCut(*cut, number) for cut, number in runs.items())

    def _frames_beside(self, frame: int) -> tuple[int, ...]:
        return (*self._graphs_before(frame), *self._graphs_after(frame))

    def _graphs_before(self, frame: int) -> tuple[int, ...]:
        """Return the frame whose graph ends at the break of ``frame``, as a tuple of its number.

        If ``frame`` lacks operators, this is the frame that it continues after an earlier break.
        The tuple is empty if no operators were captured before the break.
        """
        at: int | None = frame
        while at is not None:
            if self._ops[at]:
                return (at,)
            at = self._whole.get(at)
        return ()

    def _graphs_after(self, frame: int) -> tuple[int, ...]:
        """Return the numbers of the frames whose graphs begin after the break of ``frame``.

        There are several after a recompile.
        """
        found: list[int] = []
        for rest in self._rest.get(frame, ()):
            found += (rest,) if self._ops[rest] else self._graphs_after(rest)
        return tuple(found)

    def _count_runs(self, frame: int) -> int:
        return self._recording.entries.get(frame, 0)

    def _count_reached(self, records: Iterable[Break]) -> int:
        """Return how often the call reached a break.

        If a break is in an inlined function, Dynamo reports it again for each function that inlined
        it. Only reports with the fewest inlined functions count.
        """
        by_level: dict[Stack, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for record in records:
            place = record.stack[-1:]
            near = (record.frame, *self._rest.get(record.frame, ()))
            runs = self._count_runs(near[0]) or sum(map(self._count_runs, near[1:]))
            by_level[place][record.inlined] += max(runs, 1)
        return sum(levels[min(levels)] for levels in by_level.values())

    def _count_reads(self, place: Range) -> int:
        """Return how often code outside of graphs read a tensor's value (such as by ``item()``) at
        this source range."""
        count = 0
        for chosen in self._recording.chosen:
            frame = self._source.innermost(chosen.stack)
            count += frame is not None and self._source.range_of(frame) == place
        return count

    def _frame_name(self, frame: int) -> str:
        traced = self._frames[frame]
        return self._source.function(traced.path, traced.function, traced.line)

    def _find_resumed(self) -> dict[int, list[int]]:
        """Map each frame with a break to the frames that continue its function after the break, by
        number.

        A nested call ends before its caller continues. So if several frames of one function wait to
        be continued, the last one continues first.
        """
        found: dict[int, list[int]] = {}
        waiting: dict[tuple[str, str], list[int]] = defaultdict(list)
        known: dict[int, list[int]] = {}
        """Numbers of the frames compiled from one resume function, by its code number; each
        recompile adds one.
        """
        same: dict[tuple[int, Stack], list[int]] = {}
        for id_, frame in sorted(self._frames.items()):
            key = frame.path, self._frame_name(id_)
            if frame.resumed:
                if frame.code not in known and waiting[key]:
                    known[frame.code] = found[waiting[key].pop()]
                if frame.code in known:
                    known[frame.code].append(id_)
            record = self._last.get(id_)
            if record is None or frame.outcome != "compiled":
                continue
            # If a recompile has the same break, it continues in the same resume function.
            place = frame.code, record.stack[-record.inlined :]
            if place not in same:
                same[place] = []
                waiting[key].append(id_)
            found[id_] = same[place]
        return found


_EAGER = ("frame-skipped", "rest-skipped")


def _is_sync_free(record: Break) -> bool:
    return cannot_read_tensors(record.causes[0].kind, record.causes[0].context)


def _read_by(record: Break) -> str:
    return reading_operation(record.causes[0].kind, record.causes[0].context)
