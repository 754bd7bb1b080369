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

from ..protocol import Finding, ProgramRequest
from ..torch_internals import dynamo
from ..torch_internals.exceptions import BREAKS
from ..tracing import hooks
from .execution import Ending, Program
from .regions import LiveRegion, is_own
from .results import FileResults, ProgramResults

_T = TypeVar("_T")


@dataclass(frozen=True)
class Observed:
    """The work of Dynamo during an observation.

    ``graphs`` is the number of compiled graphs. ``findings`` has the findings of each workspace
    file, by its path. ``losses`` are errors of the recorder: what they hid is missing.
    """

    graphs: int
    findings: dict[str, tuple[Finding, ...]]
    losses: tuple[str, ...] = ()

    def is_in_library(self, finding: Finding) -> bool:
        """Whether the innermost frame of a finding's stack is in an installed package."""
        return bool(finding.stack) and not is_own(finding.stack[-1].path)


class _Observation(Program):
    """A run of code in this process, observed with the interface of a program's run; the engine
    never stops it.
    """

    def after_call(self, region: LiveRegion) -> None:
        pass


class Observer:
    """Records the compilations inside a ``with`` block, and clears Dynamo's caches before and after
    the block.

    ``path`` is the file of the observed code. :meth:`call`, or :meth:`await_call` if ``is_async``,
    must call the code, because frames outside of them are not the user's.
    """

    def __init__(self, path: str, *, is_async: bool = False) -> None:
        caller = Observer.await_call if is_async else Observer.call
        self._observation = _Observation(
            path, _text_of(path), ProgramRequest(), lambda _ending: None, bottom=caller.__code__
        )
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> Observer:
        _install_hooks()
        dynamo.reset()
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
            # What was compiled before the observation began does not report its calls.
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

    def results(self, raised: BaseException | None = None) -> Observed:
        """Return what was observed; ``raised`` is the exception that ended the code, if any."""
        ending = Ending("finished") if raised is None else Ending("raised", error=raised)
        results = ProgramResults(self._observation, ending, _text_of)
        recording = self._observation.recording
        found = {path: _innermost(results.of_file(path)) for path in results.paths}
        return Observed(len(recording.graphs), found, tuple(recording.losses))


def _innermost(results: FileResults) -> tuple[Finding, ...]:
    """Return the findings of a file, except for findings with inner stack frames in another
    workspace file.

    The other file's results include them as well.
    """
    return tuple(one for one in results.findings if one.identity not in results.deeper)


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
