"""Choose the targets of an executed module, and plan the runs that trace them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import placeholder, texts
from . import syntax, wire
from .module_reporter import ModuleReporter, target_info
from .pipeline import ModulePipeline, PipelineProbe, PipelineTarget
from .wire import PlannedRun


class TargetPlanner:
    """The targets of a module process and the inputs of their runs."""

    def __init__(self, pipeline: ModulePipeline, reporter: ModuleReporter, *, forks: bool) -> None:
        self._pipeline, self._reporter, self._forks = pipeline, reporter, forks
        self.targets: Sequence[PipelineTarget] = ()
        self.probes: dict[int, list[PipelineProbe]] = {}
        """Inputs of the planned runs, by the index of their target."""
        self.wanted: list[int] = []
        """Indices of the targets to trace."""
        self._note = ""

    def choose_targets(self, targets: Sequence[PipelineTarget], *, off: bool) -> None:
        """Choose and report the targets to trace: the requested ones, or all; none if the file is
        ``off``. If there are too many, keep the targets nearest to the cursor."""
        self.targets, self._note = targets, ""
        analyze = self._reporter.analyze
        only, most = analyze.only, analyze.limits.targets
        wanted = [i for i, one in enumerate(targets) if not off and (not only or one.name in only)]
        if len(wanted) > most:
            focus = analyze.focus
            near = sorted(
                wanted, key=lambda index: syntax.line_distance(targets[index].body, focus)
            )
            self._note = (
                f"Of the {len(wanted)} targets in this file only the {most} nearest to the last "
                "edit are traced."
            )
            wanted = sorted(near[:most])
        self._report_targets(wanted)

    def plan_runs(
        self, namespace: dict[str, Any], missing: Mapping[str, BaseException]
    ) -> list[PlannedRun]:
        """Return the runs of the wanted targets, after the module with ``namespace`` was executed.
        ``missing`` has the exceptions of definitions that failed, by name.

        Report targets that cannot run, and report the targets again if some do not exist.
        """
        runs: list[PlannedRun] = []
        left: list[int] = []
        numbers = {self.targets[index].name: index for index in self.wanted}
        shared: dict[tuple[str, ...], int] = {}
        for index in self.wanted:
            target = self.targets[index]
            gone = missing.get(getattr(target, "definition", "") or target.name)
            if gone is None and not self._pipeline.confirm(target, namespace):
                continue
            left.append(index)
            if target.name not in self._reporter.analyze.without:
                self.probes[index] = self._find_probes(target, namespace, gone)
                runs += self._plan_target(index, numbers, shared)
        if left != self.wanted:
            self._report_targets(left)
        return runs

    def _find_probes(
        self, target: PipelineTarget, namespace: dict[str, Any], error: BaseException | None
    ) -> list[PipelineProbe]:
        """Return the inputs of a target, and report the target if there are none. ``error`` is the
        exception of its definition, or None."""
        reporter, analyze = self._reporter, self._reporter.analyze
        placeholder.raised_errors.clear()
        found: list[PipelineProbe] = []
        if error is None:
            known = analyze.recorded, analyze.examples
            try:
                found = list(self._pipeline.plan_probes(target, namespace, self.targets, *known))
            except wire.ParentUnreachable:
                raise
            except BaseException as raised:
                error = raised
        if error is not None:
            words = texts.error_message(error) or type(error).__name__
            reporter.report_target(target, "failed", words)
        elif not found:
            reporter.report_findings((self._pipeline.missing_probe(target, analyze.text),))
            reporter.report_target(target, "no-probe", None)
        return found

    def _plan_target(
        self, index: int, numbers: Mapping[str, int], shared: dict[tuple[str, ...], int]
    ) -> Sequence[PlannedRun]:
        """Return the runs of a target. ``numbers`` has the indices of the targets by name.
        ``shared`` numbers the enclosing runs by the names of the callers that they execute."""
        target = self.targets[index]
        return [
            PlannedRun(
                index,
                number,
                target_info(target),
                target.body,
                probe.info,
                probe.waits,
                tuple(numbers[name] for name in probe.after if name in numbers),
                shared.setdefault(probe.users, len(shared))
                if self._forks and probe.users
                else None,
            )
            for number, probe in enumerate(self.probes[index])
        ]

    def _report_targets(self, wanted: list[int]) -> None:
        self.wanted = wanted
        self._reporter.report_targets([self.targets[index] for index in wanted], self._note)
