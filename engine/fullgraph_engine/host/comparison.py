"""Handle a ``Compare`` request: run two versions of a file on the same inputs, then compare their
behavior.

The original version chooses the inputs, then both versions are called with them. If they differ,
the original runs again to check that it is deterministic. If they differ only in the last bits, it
also runs in double precision. Then the comparison is repeated.
"""

from __future__ import annotations

import contextlib
import difflib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from ..protocol import (
    Analyzed,
    Compare,
    Compared,
    Failed,
    Log,
    Observe,
    Part,
    TargetDone,
    count_equal_ends,
)
from ..protocol.behavior import FOLDER, Judged
from . import wire
from .analysis import Analysis
from .listener import EventInterceptor
from .performer import Performer
from .process_backends import processes
from .services import Services
from .wire import BackendTried, CasesChosen, ComparisonOrder

_GRACE = 5.0
"""Number of seconds by which a run may exceed its time limit before it is killed. A run normally
keeps the limit by itself."""
_JUDGING = 60.0
"""Maximum seconds for the process that compares the recorded calls of two versions. A slower
process is assumed to hang, and is killed."""
_MANY_LINES = 2_000
"""Number of lines above which no exact comparison is made: all lines between the first and the last
change count as changed."""


@dataclass
class _ComparedText:
    """A version of the file to compare, the original or the changed one.

    Its runs write what their calls did to the folder ``folder``.
    """

    text: str
    lines: tuple[int, ...]
    folder: Path
    ended: str = ""
    """Reason why the calls of this version ended early, such as a crash; empty if they were
    completed."""


class ComparisonSession:
    """The state of one ``Compare`` request, which calls two versions of a file with equal inputs
    and compares what they do.

    The event loop treats it like an ``Analysis``.
    """

    def __init__(self, request: Compare, host: Services, scratch: str) -> None:
        self.request, self.scratch = request, scratch
        self._host = host
        self._began = time.monotonic()
        text, changed = request.analyze.text, request.changed
        before, after = differing_lines(text, changed if request.covering else text)
        self._original = _ComparedText(text, before, Path(scratch, "original"))
        self._changed = _ComparedText(changed, after, Path(scratch, "changed"))
        self._chosen: dict[int, CasesChosen] = {}
        self._running: list[Analysis] = []
        self._cpu: float | None = None
        """Processor time in seconds of the request's ended processes; None if unknown."""
        self._next: Callable[[], None] = self._observe
        self._comparer = Performer(host, self._from_comparer, self._comparer_ended)
        self._deadline = float("inf")
        self._judged: Judged | None = None
        self._compiled: BackendTried | None = None
        """Result of compiling one version of the file with all example inputs: the first failure,
        or a success; None before the first result."""
        self._again = self._in_double = False
        """Two flags: whether the original version was called a second time, and whether it was
        called in double precision."""
        self._finished = False

    def begin(self) -> None:
        """Start the first run of the request.

        If the request asks to compile, the run compiles the changed version. Otherwise it executes
        the original version and chooses the inputs with which both versions are called.
        """
        if self.request.compiled_by is not None:
            self._compile(self._changed, self._after_compiled)
            return
        request, lines = self.request, self._original.lines
        order = Observe(request.seconds, lines, at_random=request.at_random)
        self._run(self._original, ("cases",), order)

    # -- the runs -----------------------------------------------------------------------------

    def _run(self, text: _ComparedText, parts: tuple[Part, ...], order: Observe) -> None:
        request = self.request
        order = replace(order, last_probe=request.last_probe)
        limits = request.analyze.limits
        seconds = min(limits.seconds, 3 * order.seconds + _GRACE)
        analyze = replace(
            request.analyze,
            request=request.request,
            text=text.text,
            mode="real",
            only=(request.target,),
            limits=replace(limits, seconds=seconds),
            parts=parts,
            nice=0,
            documents=(),
            observe=order,
        )
        text.ended = ""
        # Each run gets its own folder, because a saved process with executed imports may continue
        # to use it.
        left = mkdtemp(dir=self._host.scratch)
        analysis: list[Analysis] = []

        def handle_event(message: Any) -> None:
            self._handle_event(message, text, analysis, left)

        analysis.append(Analysis(analyze, EventInterceptor(self._host, handle_event), left))
        self._running.append(analysis[0])
        analysis[0].begin()

    def _handle_event(
        self, message: Any, text: _ComparedText, analysis: list[Analysis], left: str
    ) -> None:
        """Handle an event of the run that calls one version of the file, instead of sending the
        event to the server.

        ``text`` is the version, ``analysis`` contains the analysis that executes the version, and
        ``left`` is the temporary folder of the run.
        """
        if self._finished:
            return
        if isinstance(message, Log) and message.stream == "engine":
            self._host.send(message)
        elif isinstance(message, CasesChosen):
            self._chosen.setdefault(message.probe, message)
        elif isinstance(message, BackendTried):
            if self._compiled is None or self._compiled.outcome == "same":
                self._compiled = message
        elif isinstance(message, TargetDone):
            report = message.report
            if report.status == "no-probe":
                text.ended = f"fullgraph doesn't know the inputs of {report.name}"
            elif report.error and not text.ended:
                text.ended = report.error
        elif isinstance(message, (Analyzed, Failed)):
            if isinstance(message, Failed):
                text.ended = message.reason.rstrip(".")
            else:
                self._add_cpu(message.cpu)
            self._keep_records(left, text)
            self._running = [one for one in self._running if one not in analysis]
            if not self._running:
                self._next()

    def _keep_records(self, left: str, text: _ComparedText) -> None:
        """Move the files with a run's recorded calls from the run's folder ``left``, which is
        removed, to the folder of the version ``text``."""
        text.folder.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):  # the run may have recorded nothing
            for file in list(Path(left, FOLDER).iterdir()):
                file.rename(text.folder / file.name)

    def _observe(self) -> None:
        """Start runs that call the target of both versions with the chosen inputs and record what
        the calls do."""
        cases = self._packed_cases()
        if not any(cases):
            reason = next((one.reason for one in self._chosen.values() if one.reason), "")
            self._end_unverified(reason or self._original_end_reason())
            return
        seconds = self.request.seconds
        self._next = self._start_judgment
        self._run(self._original, ("behavior",), Observe(seconds, self._original.lines, cases))
        # Allow more time, as slower code is not a change of behavior.
        self._run(self._changed, ("behavior",), Observe(2 * seconds, self._changed.lines, cases))

    def _packed_cases(self) -> tuple[str, ...]:
        """Return the chosen inputs in packed form, one text per example call of the target. The
        text is empty if no inputs were chosen for the call."""
        chosen = [self._chosen.get(number) for number in range(max(self._chosen, default=-1) + 1)]
        return tuple(one.packed if one is not None else "" for one in chosen)

    def _original_end_reason(self) -> str:
        ended = self._original.ended
        ended = ended or ("tracing the code failed; `fullgraph check` shows the error")
        return f"The original code could not be run for comparison: {ended.rstrip('.')}."

    # -- the process that compares ------------------------------------------------------------

    def _start_judgment(self) -> None:
        if self._original.ended and not self._again and not self._in_double:
            self._end_unverified(self._original_end_reason())
            return
        left = self._changed
        if not left.ended and not any(left.folder.iterdir()):
            left.ended = (
                f"it has no function or class {self.request.target} that fullgraph can call"
            )
        order = ComparisonOrder(
            self.request,
            self._packed_cases(),
            self._original.lines,
            self._changed.lines,
            str(self._original.folder),
            str(self._changed.folder),
            self._changed.ended,
            self.scratch,
        )
        try:
            self._comparer.begin(order)
        except OSError as error:
            self._end_unverified(
                f"The engine could not start a process: {error.strerror or error}."
            )
            return
        self._deadline = time.monotonic() + _JUDGING

    def _from_comparer(self, line: bytes) -> None:
        message = wire.parse_message(line)
        if isinstance(message, Judged):
            self._judged = message
            used = processes.read_processor_time(self._comparer.pid)
            self._add_cpu(used.used if used is not None else None)
        elif isinstance(message, Log):
            self._host.forward(line + b"\n")

    def _add_cpu(self, seconds: float | None) -> None:
        if seconds is not None:
            self._cpu = round((self._cpu or 0.0) + seconds, 3)

    def _comparer_ended(self) -> None:
        self._deadline = float("inf")
        judged, self._judged = self._judged, None
        if judged is None:
            self._end_unverified("The process that compares results ended before it finished.")
            return
        compared, seconds = judged.compared, 2 * self.request.seconds
        again = any(judged.needs_again) and not self._again
        double = any(judged.needs_double) and not self._in_double
        self._again, self._in_double = self._again or again, self._in_double or double
        if again or double:
            self._next = self._start_judgment
            order = Observe(seconds, self._original.lines, self._packed_cases())
            if again:
                once_more = replace(order, only=judged.needs_again)
                self._run(self._original, ("behavior-again",), once_more)
            if double:
                in_double = replace(order, double=True, only=judged.needs_double)
                self._run(self._original, ("behavior",), in_double)
        elif any(judged.needs_again):
            self._end_unverified(self._original_end_reason())
        else:
            self._finish(compared)

    # -- compiling ----------------------------------------------------------------------------

    def _compile(self, text: _ComparedText, then: Callable[[], None]) -> None:
        """Start a run that compiles one version and compares it with eager calls; ``then`` is
        called after the run."""
        request = self.request
        self._compiled, self._next = None, then
        order = Observe(request.seconds, (), request.cases, compiled_by=request.compiled_by)
        self._run(text, ("behavior",), order)

    def _after_compiled(self) -> None:
        """Compile the original as well if the compiled changed version differs from eager calls."""
        tried = self._compiled
        if tried is None:
            why = self._changed.ended or "the process ended without a result"
            self._end_unverified(f"The changed code was not compiled: {why.rstrip('.')}.")
        elif tried.outcome == "differs":
            self._compile(self._original, lambda: self._after_both_compiled(tried))
        else:
            self._finish(Compared(0, tried.outcome, reason=tried.reason))

    def _after_both_compiled(self, changed: BackendTried) -> None:
        original = self._compiled
        if original is not None and original.outcome == "same":
            self._finish(Compared(0, "differs", reason=changed.reason))
        else:
            self._end_unverified(
                f"{changed.reason} Whether the original compiles could not be determined."
            )

    # -- interface to the event loop ----------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Number of processes that this request still has to start: one per version, and one for
        the comparison."""
        return 2 if self._running else 0

    def next_deadline(self) -> float:
        return min([self._deadline, *(one.next_deadline() for one in self._running)])

    def tick(self, now: float) -> None:
        """Kill the runs and the comparing process if their time limits have passed at time
        ``now``."""
        for one in list(self._running):
            one.tick(now)
        if now >= self._deadline and self._comparer.pid:
            self._deadline = float("inf")
            self._comparer.kill()

    def cancel(self) -> None:
        """Cancel the request and end its processes."""
        self._end("The comparison was cancelled.", cancelled=True)

    # -- the end ------------------------------------------------------------------------------

    def _end_unverified(self, reason: str) -> None:
        self._end(reason)

    def _end(self, reason: str, *, cancelled: bool = False) -> None:
        self._finish(Compared(0, "unverified", reason=reason, cancelled=cancelled))

    def _finish(self, last: Compared) -> None:
        if self._finished:
            return
        self._finished = True
        for one in self._running:
            one.cancel()
        self._running = []
        self._comparer.close()
        self._host.send(
            replace(
                last,
                request=self.request.request,
                target=self.request.target,
                seconds=round(time.monotonic() - self._began, 3),
                cpu=self._cpu,
                packed_cases=self._packed_cases(),
            )
        )
        self._comparer.kill()
        self._host.remove_request(self.request.request)
        self._host.clean_up([self._comparer.pid], self.scratch)


def differing_lines(before: str, after: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the zero-based numbers of the lines of ``before`` that ``after`` lacks, and of the
    lines of ``after`` that ``before`` lacks.

    If a change is very long, all lines from the first to the last difference count.
    """
    old, new = before.splitlines(), after.splitlines()
    first, last = count_equal_ends(old, new)
    old_end, new_end = len(old) - last, len(new) - last
    if old_end - first > _MANY_LINES or new_end - first > _MANY_LINES:
        return tuple(range(first, old_end)), tuple(range(first, new_end))
    matcher = difflib.SequenceMatcher(None, old[first:old_end], new[first:new_end], autojunk=False)
    changes = [one for one in matcher.get_opcodes() if one[0] != "equal"]
    return (
        tuple(first + line for _, start, end, _, _ in changes for line in range(start, end)),
        tuple(first + line for _, _, _, start, end in changes for line in range(start, end)),
    )
