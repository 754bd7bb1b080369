"""Choose the targets of an executed module (functions and module classes), and plan the runs that
trace them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import placeholder, texts
from . import syntax, wire
from .module_reporter import ModuleReporter, target_info
from .pipeline import ModulePipeline, PipelineProbe, PipelineTarget
from .wire import PlannedRun


class TargetPlanner:
    """A planner that decides which functions and module classes of the user's file are traced, and
    with which inputs."""

    def __init__(self, pipeline: ModulePipeline, reporter: ModuleReporter, *, forks: bool) -> None:
        self._pipeline, self._reporter, self._forks = pipeline, reporter, forks
        self.targets: Sequence[PipelineTarget] = ()
        self.probes: dict[int, list[PipelineProbe]] = {}
        """Sets of example inputs of each target, by the index of the target."""
        self.wanted: list[int] = []
        """Indices of the functions and module classes to trace."""
        self._note = ""

    def choose_targets(self, targets: Sequence[PipelineTarget], *, off: bool) -> None:
        """Choose the functions and module classes to trace, and report them to the server.

        Choose all, or only the requested ones; none if a comment turns the file ``off``. If there
        are too many, keep those nearest to the last edit.
        """
        self.targets, self._note = targets, ""
        analyze = self._reporter.analyze
        only, most = analyze.only, analyze.limits.targets
        wanted = [i for i, one in enumerate(targets) if not off and (not only or one.name in only)]
        if len(wanted) > most:
            focus = analyze.focus
            near = sorted(
                wanted,
                key=lambda index: syntax.line_distance(targets[index].body, focus, focus),
            )
            self._note = (
                f"Of the {len(wanted)} targets in this file only the {most} nearest to the last "
                "edit are traced (setting `max-targets`)."
            )
            wanted = sorted(near[:most])
        self._report_targets(wanted)

    def plan_runs(
        self, namespace: dict[str, Any], missing: Mapping[str, BaseException]
    ) -> list[PlannedRun]:
        """Return the runs that trace the chosen targets; call it after the module was executed.

        ``namespace`` has the module's globals, ``missing`` the exceptions of definitions that
        failed, by name. Targets without inputs are reported as such. If some targets do not exist,
        the list of targets is reported again.
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
        """Return the sets of example inputs of a target; if there are none, report the target as
        not traced.

        ``error`` is the exception that its definition raised, or None.
        """
        reporter, analyze = self._reporter, self._reporter.analyze
        placeholder.raised_errors.clear()
        found: list[PipelineProbe] = []
        if error is None:
            known = analyze.recorded, analyze.examples, analyze.callers
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
        """Return the runs of one target, one for each set of inputs.

        ``numbers`` maps target names to indices. ``shared`` maps a tuple of caller names to the
        number of the process that executes these callers to record inputs; new ones are added.
        """
        target = self.targets[index]
        callers: tuple[int, ...] = ()
        if not self._reporter.analyze.nested and all(one.is_guess for one in self.probes[index]):
            callers = tuple(numbers[name] for name in target.used_by if name in numbers)
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
                callers,
                target.body_of_call,
            )
            for number, probe in enumerate(self.probes[index])
        ]

    def _report_targets(self, wanted: list[int]) -> None:
        self.wanted = wanted
        self._reporter.report_targets([self.targets[index] for index in wanted], self._note)
