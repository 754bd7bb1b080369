"""Handle an ``Analyze`` request whose file is a program, or is imported by programs.

The programs are executed to see what they compile. Then the targets (functions and module classes)
that they did not compile are traced.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import protocol
from ..protocol import (
    Analyze,
    Analyzed,
    Event,
    Failed,
    Finding,
    FindingFound,
    TargetDone,
    TargetInfo,
    TargetsFound,
    hide_unseen_counts,
)
from ..protocol.files import FilesRead, file_state
from ..protocol.regions import Lack
from .analysis import Analysis
from .listener import EventInterceptor
from .programs import ProgramKey, ProgramProcess
from .services import Services
from .wire import ProgramShows

_MAY_COMPILE = re.compile(r"compile|export|import")
_MAY_ACT = re.compile(r"^\S.*\(|__main__", re.MULTILINE)
_LONGEST = 1_000_000
"""Maximum size in bytes of another program's file; larger ones are not executed."""


def may_have_program(request: Analyze) -> bool:
    """Whether a request might run a program. This quick test can be true although no file turns out
    to be a program."""
    known = request.program.candidates
    return request.may_run_programs and (bool(known) or _may_be_program(request.text))


def _may_be_program(text: str) -> bool:
    return bool(_MAY_ACT.search(text) and _MAY_COMPILE.search(text))


class ProgramRun:
    """The state of a request that executes programs to see what they compile; the event loop treats
    it like an ``Analysis``.

    The file's own program runs first, then other programs (``candidates``) until one reaches a
    target of the file. Finally, the remaining targets are traced.
    """

    def __init__(self, request: Analyze, host: Services, scratch: str, waited: float) -> None:
        self.request, self.scratch = request, scratch
        self._host, self._waited = host, waited
        self._began = time.monotonic()
        own = [request.path] if _may_be_program(request.text) else []
        self._paths = list(dict.fromkeys((*own, *request.program.candidates)))
        self._process: ProgramProcess | None = None
        self._notes: list[str] = []
        self._targets: dict[str, TargetInfo] = {}
        self._compiled = False
        """True if a program compiled any function so far, in this file or in another one."""
        self._failures: list[FindingFound] = []
        """Findings that explain why this file failed as a program. They are sent only if no other
        program executes the file successfully."""
        self._analysis: Analysis | None = None
        self._lines = request.focus, request.focus
        """First and last zero-based line that the user looks at; targets near them are traced
        first."""
        self._finished = False

    def begin(self) -> None:
        """Start the first of the programs that the request executes."""
        self._next_program()

    # -- programs -------------------------------------------------------------------------------

    def _next_program(self, *, again: str = "", lacks: Lack = "") -> None:
        """Start the next program; if there is none, continue with tracing.

        If ``again`` is the path of a program, start that program again, on fake tensors. This
        machine lacks the resource ``lacks``, such as a GPU.
        """
        while self._paths or again:
            path, again = again or self._paths.pop(0), ""
            text = self.request.text if path == self.request.path else _text_of(path, self.request)
            if not text:
                continue
            key = ProgramKey.for_request(self.request, path, text, lacks)
            self._process = self._host.programs.find(key, self.request, self._host)
            for shown in list(self._process.shown):
                self._handle_report(shown)
            if self._process.is_over:
                self._program_ended()
                return
            fresh = not self._process.listeners
            self._process.listeners.append(self._handle_report)
            if fresh:
                self._process.begin()
            return
        self._trace_rest()

    def _handle_report(self, shown: ProgramShows | None) -> None:
        if shown is None:
            self._program_ended()
            return
        elsewhere = self.request.program.elsewhere
        if shown.path != self.request.path or not set(elsewhere).isdisjoint(shown.deeper):
            return
        event: Any = protocol.decode(shown.event)
        event = replace(event, request=self.request.request)
        if isinstance(event, TargetDone):
            report = hide_unseen_counts(event.report, self._host.degraded)
            self._compiled = self._compiled or bool(report.compiled)
            if report.name not in self._targets:
                self._targets[report.name] = TargetInfo(report.name, report.kind, report.range)
                self._report_targets()
            event = replace(event, report=report)
        elif isinstance(event, FindingFound) and self._may_be_otherwise(event.finding):
            self._failures.append(event)
            return
        self._host.send(event)

    def _may_be_otherwise(self, finding: Finding) -> bool:
        """Whether a finding only says that this file fails when it is executed as a program.

        Such a finding is wrong if another program executes the file successfully.
        """
        alone = self._process is not None and self._process.key.path == self.request.path
        stopped = finding.code == "trace/eager-error" or finding.code.startswith("program/")
        return stopped and alone and bool(self._paths)

    def _program_ended(self) -> None:
        process, self._process = self._process, None
        if self._finished or process is None:
            return
        path = process.key.path
        files = [*process.files, *([file_state(path)] if path != self.request.path else [])]
        if process.done is not None:
            self._host.send(FilesRead.from_files(self.request.request, files))
        done = process.done
        if done is None and process.was_started:
            # The program's process was killed and would be killed again.
            self._end_now()
            return
        if done is not None and done.refused:
            step = "Change the setting `program.backend`, or the option `--program-backend`."
            self._end_with(Failed(self.request.request, done.refused, step))
            return
        if done is not None and done.lacks and not process.key.lacks:
            self._next_program(again=process.key.path, lacks=done.lacks)
            return
        if done is not None and done.ran:
            if done.note and done.note not in self._notes:
                self._notes.append(done.note)
            self._compiled = self._compiled or done.called > 0
            if done.called and self._targets and path != self.request.path:
                self._failures.clear()
        if self._compiled and (self._targets or path == self.request.path):
            self._trace_rest()
        else:
            self._next_program()

    # -- what programs do not reach -------------------------------------------------------------

    def _trace_rest(self) -> None:
        """Trace the targets (functions and module classes of the file) that no program compiled.

        If the file's own program compiled any target, end the request instead, unless it asks to
        trace targets that the program does not compile.
        """
        request = self.request
        self._report_failures()
        if self._compiled and self._targets and not request.program.uncompiled:
            self._end_now()
            return
        known = tuple(dict.fromkeys((*request.without, *self._targets)))
        rest = replace(request, without=known)
        listener = EventInterceptor(self._host, self._forward_event)
        self._analysis = Analysis(rest, listener, self.scratch, self._waited)
        self._analysis.prioritize(*self._lines)
        self._analysis.begin()

    def _end_now(self) -> None:
        """End the request without tracing any targets; it has only the results of the programs."""
        self._report_failures()
        self._report_targets()
        seconds = round(time.monotonic() - self._began, 4)
        self._end_with(Analyzed(self.request.request, self.request.generation, seconds))

    def _forward_event(self, message: Any) -> None:
        """Send the server an event from tracing the remaining targets.

        A list of targets is first merged with the targets that programs compiled.
        """
        if isinstance(message, TargetsFound):
            own_targets = self._targets
            others = tuple(one for one in message.targets if one.name not in own_targets)
            note = " ".join(filter(None, (*self._notes, message.note)))
            message = replace(
                message, targets=_sort_targets((*own_targets.values(), *others)), note=note
            )
        elif isinstance(message, TargetDone) and self._targets:
            message = replace(message, report=replace(message.report, compiled=False))
        if isinstance(message, (Analyzed, Failed)):
            self._analysis = None
            self._end_with(message)
            return
        self._host.send(message)

    def _report_failures(self) -> None:
        """Send the findings that explain why the file failed as a program."""
        failures, self._failures = self._failures, []
        for event in failures:
            self._host.send(event)

    def _report_targets(self) -> None:
        """Send the server the functions and module classes of the file that programs have called so
        far."""
        number, note = self.request.request, " ".join(self._notes)
        self._host.send(TargetsFound(number, _sort_targets(self._targets.values()), note))

    # -- interface to the event loop ------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Number of processes that this request still has to start."""
        return self._analysis.waiting if self._analysis is not None else 0

    def next_deadline(self) -> float:
        if self._analysis is not None:
            return self._analysis.next_deadline()
        return self._process.next_deadline() if self._process is not None else float("inf")

    def tick(self, now: float) -> None:
        if self._analysis is not None:
            self._analysis.tick(now)
        elif self._process is not None:
            self._process.tick(now)

    # -- the end --------------------------------------------------------------------------------

    def prioritize(self, first: int, last: int) -> None:
        """Trace first the targets near the zero-based lines ``first`` to ``last``, among the
        targets that programs do not reach."""
        self._lines = first, last
        if self._analysis is not None:
            self._analysis.prioritize(first, last)

    def cancel(self) -> None:
        """Cancel the request. Events that were already sent remain valid."""
        if self._analysis is not None:
            self._analysis.cancel()
            return
        process, self._process = self._process, None
        seconds = round(time.monotonic() - self._began, 4)
        request = self.request
        self._end_with(Analyzed(request.request, request.generation, seconds, cancelled=True))
        if process is not None and self._handle_report in process.listeners:
            process.listeners.remove(self._handle_report)
            if not process.listeners:
                process.kill()

    def _end_with(self, last: Event) -> None:
        if self._finished:
            return
        self._finished = True
        self._host.send(last)
        self._host.remove_request(self.request.request)
        self._host.clean_up([], self.scratch)


def _sort_targets(targets: Iterable[TargetInfo]) -> tuple[TargetInfo, ...]:
    """Sort targets by their positions in the file."""
    return tuple(sorted(targets, key=lambda one: (one.range.start.line, one.range.start.byte)))


def _text_of(path: str, request: Analyze) -> str:
    """Return the text of another program's file from the editor or the disk; empty if it is too
    large or cannot be read."""
    for file in request.open_files:
        if file.path == path:
            return file.text
    try:
        if Path(path).stat().st_size > _LONGEST:
            return ""
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
