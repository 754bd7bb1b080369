"""Send the results of the process that executes the user's file to the engine's main process."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable
from typing import Any

from .. import texts
from ..protocol import (
    Analyze,
    Event,
    Finding,
    FindingFound,
    Importing,
    Log,
    OperatorsRegistered,
    Range,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
)
from ..protocol.files import FilesRead
from . import preamble, wire
from .pipeline import ModulePipeline, PipelineTarget
from .process_backends.channels import ProcessEnds
from .reads import Reads
from .wire import LateImports, ModuleOrder, Upward


class ModuleReporter:
    """A sender of the messages of a module process, the process that executes the user's file.

    Where processes cannot be forked, further processes execute the file again, each for one run. In
    such a process the reporter sends nothing, since the first process has sent it all.
    """

    def __init__(self, job: ModuleOrder, ends: ProcessEnds, pipeline: ModulePipeline) -> None:
        self.job, self.ends = job, ends
        self._pipeline = pipeline
        self.keeps_findings = False
        """True while the file's imports are executed, in a process that may be kept for later
        versions of the file."""
        self.kept: list[Finding] = []
        """Findings about the file's imports. They are reported again for each later version of the
        file executed by a fork of this process."""

    @property
    def analyze(self) -> Analyze:
        return self.job.analyze

    def send(self, message: Upward | Event) -> None:
        if self.job.again is None:
            wire.write_message(self.ends.report, message)

    def report_findings(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.send(FindingFound(self.analyze.request, finding))

    def report_execution_finding(self, finding: Finding) -> None:
        """Report a finding from executing the file.

        A finding about the imports is also stored, for later versions of the file.
        """
        if self.keeps_findings:
            self.kept.append(finding)
        self.report_findings((finding,))

    def report_import(self, module: str) -> None:
        self.send(Importing(self.analyze.request, module))

    def report_late_imports(self, names: Iterable[str], seconds: float) -> None:
        """Report the modules ``names``, whose imports by packages after the user's module took
        ``seconds``, if importing them in advance would save time."""
        loaded = tuple(name for name in names if name in sys.modules)
        if loaded and seconds >= preamble.WORTH_KEEPING:
            self.send(LateImports(loaded, seconds))

    def report_targets(self, targets: Iterable[PipelineTarget], note: str) -> None:
        self.send(TargetsFound(self.analyze.request, tuple(map(target_info, targets)), note))

    def report_target(self, target: PipelineTarget, status: Any, error: str | None) -> None:
        report = TargetReport(target.name, target.kind, target.range, status, error=error)
        self.send(TargetDone(self.analyze.request, report))

    def report_reads(self, reads: Reads | None) -> None:
        """Report the files that user code has read; do nothing if ``reads`` is None because the
        server does not need them."""
        if reads is not None and self.analyze.files:
            self.send(FilesRead.from_files(self.analyze.request, reads.new_states()))

    # -- operators ----------------------------------------------------------------------------

    def check_text(self) -> tuple[Range, ...]:
        """Report definitions of custom operators that torch will reject, before the file is
        executed.

        Return the ranges of the calls that will raise.
        """
        try:
            wrong = self._pipeline.check_text(self.analyze.text)
        except Exception:
            self._log_own_error()
            return ()
        self.report_findings(each.finding for each in wrong)
        return tuple(each.call for each in wrong)

    def check_registered(self) -> None:
        """Report defects of the operators that the user's file registered."""
        try:
            found = self._pipeline.check_registered(self.analyze.text)
        except Exception:
            self._log_own_error()
            return
        self.report_findings(found)

    def report_registered(self) -> None:
        """Report to the server the operators that executing the file and its imports has
        registered."""
        request = self.analyze.request
        try:
            operators = self._pipeline.registered_operators()
        except Exception as error:
            words = f"Could not list the registered operators: {texts.type_and_message(error)}\n"
            self.send(Log(request, "engine", words))
            return
        if operators:
            self.send(OperatorsRegistered(request, operators))

    def _log_own_error(self) -> None:
        """Send the traceback of the current exception, which is a bug of the engine, to the log."""
        self.send(Log(self.analyze.request, "engine", traceback.format_exc()))


def target_info(target: PipelineTarget) -> TargetInfo:
    """Return the name, kind and range of a target as the server's protocol encodes them."""
    return TargetInfo(target.name, target.kind, target.range)
