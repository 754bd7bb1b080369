"""Observe what code of this process compiles, with the process's own objects and backends.

A test is observed where it runs: nothing is forked or imported again. The hooks into Dynamo stay
installed, and do nothing outside of an observation.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..protocol import Finding, ProgramRequest, TargetReport
from ..torch_internals import dynamo
from ..torch_internals.exceptions import BREAKS
from ..tracing import hooks, stacks
from .execution import Ending, Program
from .regions import LiveRegion, is_own
from .results import FileResults, ProgramResults
from .watching import RegionWork

_T = TypeVar("_T")


@dataclass(frozen=True)
class SourceLine:
    """A zero-based line of a file."""

    path: str
    line: int


@dataclass(frozen=True)
class ObservedFile:
    """Findings and reports of one file: a report for each compiled callable, and for each function
    that Dynamo traced inside of one.
    """

    path: str
    findings: tuple[Finding, ...]
    reports: tuple[TargetReport, ...]


@dataclass(frozen=True)
class Observed:
    """The work of Dynamo during an observation.

    ``graphs`` is the number of compiled graphs. ``files`` has the findings and reports of each
    workspace file. ``losses`` are errors of the recorder; with any, results may be missing.
    """

    graphs: int
    files: tuple[ObservedFile, ...]
    losses: tuple[str, ...] = ()

    def is_in_library(self, finding: Finding) -> bool:
        """Whether the innermost frame of a finding's stack is in an installed package."""
        return bool(finding.stack) and not is_own(finding.stack[-1].path)

    def lines_of(self, path: str, finding: Finding) -> tuple[SourceLine, ...]:
        """Return the lines that cause a finding of the file at ``path``; several if one call leads
        to several graph breaks.

        A line is in another file if the instruction is in another workspace file or in an installed
        package. If it is in torch or the standard library, return the line of ``path`` that calls
        them, because their code differs between versions.
        """
        here = SourceLine(path, finding.range.start.line)
        found = (
            SourceLine(one.path, one.line) if one.path and not stacks.is_torch(one.path) else here
            for one in finding.causes
        )
        return tuple(dict.fromkeys(found)) or (here,)


class _Observation(Program):
    """An observed run of code in this process, handled like the run of a whole program. The engine
    never stops it.
    """

    warmup = 0
    """Number of first calls of each compiled callable whose recompiles are left out."""
    warm_recompiles = 0
    """Number of recorded recompiles to leave out, from the first."""

    def after_call(self, region: LiveRegion) -> None:
        pass

    def work_of(self, region: LiveRegion | None) -> RegionWork:
        work = super().work_of(region)
        warm = {id(one) for one in self.recording.recompiles[: self.warm_recompiles]}
        work.recompiles = [
            one
            for one in work.recompiles
            if id(one) not in warm and not 0 < work.call_of(one) <= self.warmup
        ]
        return work


class Observer:
    """Records the compilations inside a ``with`` block, and clears Dynamo's caches before and after
    the block. The end of the block restores Dynamo's settings.

    ``path`` is the file of the observed code. :meth:`call`, or :meth:`await_call` if ``is_async``,
    must call the code, because frames outside of them are not the user's. Recompiles in the first
    ``warmup`` calls of each compiled callable are left out.
    """

    def __init__(self, path: str, *, is_async: bool = False, warmup: int = 0) -> None:
        caller = Observer.await_call if is_async else Observer.call
        self._observation = _Observation(
            path, _text_of(path), ProgramRequest(), lambda _ending: None, bottom=caller.__code__
        )
        self._observation.warmup = warmup
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> Observer:
        _install_hooks()
        dynamo.reset()
        self._exits.enter_context(dynamo.unchanged_config())
        self._exits.callback(dynamo.reset)
        self._exits.callback(self._observation.regions.watch())
        self._exits.enter_context(self._observation.recorder.listen())
        return self

    def __exit__(self, *exception: object) -> None:
        self._exits.close()

    def call(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Call ``function`` with the given arguments and return its result; its compilations are
        recorded.

        An exception propagates to the caller.
        """
        try:
            return function(*args, **kwargs)
        except Exception as error:
            # The recorder does not observe calls of code that was compiled earlier, so record their
            # exceptions here.
            self._observation.record_failure(error)
            raise

    async def await_call(
        self, function: Callable[..., Awaitable[_T]], *args: Any, **kwargs: Any
    ) -> _T:
        """Call an async ``function``, await and return its result; its compilations are
        recorded.
        """
        try:
            return await function(*args, **kwargs)
        except Exception as error:
            self._observation.record_failure(error)
            raise

    def end_warmup(self) -> None:
        """Leave out the recompiles that were recorded so far."""
        self._observation.warm_recompiles = len(self._observation.recording.recompiles)

    def results(self, raised: BaseException | None = None) -> Observed:
        """Return what was observed; ``raised`` is the exception that ended the code, if any."""
        ending = Ending("finished") if raised is None else Ending("raised", error=raised)
        results = ProgramResults(self._observation, ending, _text_of)
        recording = self._observation.recording
        files = tuple(_observed_file(path, results.of_file(path)) for path in results.paths)
        return Observed(len(recording.graphs), files, tuple(recording.losses))


def _observed_file(path: str, results: FileResults) -> ObservedFile:
    """Return the results of a file, except findings with inner stack frames in another workspace
    file, because the results of the other file include them as well.
    """
    findings = (one for one in results.findings if one.identity not in results.deeper)
    return ObservedFile(path, tuple(findings), results.reports)


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether ``torch.compile`` returned this object."""
    return dynamo.is_compiled(function)


def is_graph_break(error: BaseException) -> bool:
    """Whether an exception is a graph break that was raised because of ``fullgraph=True``."""
    return isinstance(error, BREAKS)


@functools.cache
def _install_hooks() -> None:
    hooks.install_hooks()


def _text_of(path: str) -> str:
    return "".join(linecache.getlines(path))
