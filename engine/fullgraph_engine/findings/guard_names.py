"""Names of guarded values, and which names refer to the same value at one source line.

A guard names a value as an expression of the compiled function, such as ``L['self'].weight``. If
several compiled functions inline another function, its values have a different name in each of
them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ..protocol import Finding, merge_calls, merge_names
from ..tracing.recording import Stack
from .places import FindingPlace, SourceText, finding_identity


@dataclass(frozen=True)
class CompiledFunction:
    """The file and name of a compiled function. Guards name values as seen from this function."""

    path: str
    function: str


@dataclass
class GuardNames:
    """The names of guarded values at each source line. They serve to give findings about the same
    value the same identity.
    """

    source: SourceText
    _by_place: dict[tuple[str, CompiledFunction, Stack], list[str]] = field(default_factory=dict)

    def identity(
        self,
        code: str,
        place: FindingPlace,
        stack: Stack,
        compiled: CompiledFunction,
        name: str,
    ) -> str:
        """Return the identity of a finding about a guard; guards on one value at one source line
        share it.

        If the compiled function itself contains the line, the identity contains the ``name`` of the
        value. If an inlined function contains it, names differ between compiled functions. The
        identity then contains the position of the name among the names with this stack.
        """
        if not self._is_called(stack, compiled):
            return f"{finding_identity(code, place.range)} {name}"
        names = self._by_place.setdefault((code, compiled, stack), [])
        if name not in names:
            names.append(name)
        return f"{finding_identity(code, place.range)} #{names.index(name)}"

    def _is_called(self, stack: Stack, compiled: CompiledFunction) -> bool:
        """Whether the innermost frame in the file belongs to a function that the compiled function
        called.
        """
        own = [index for index, frame in enumerate(stack) if frame.path == self.source.path]
        outer = [
            index
            for index, frame in enumerate(stack)
            if (frame.path, frame.function) == (compiled.path, compiled.function)
        ]
        return bool(own and outer) and outer[0] < own[-1]


def merge_findings(known: Finding, again: Finding) -> Finding:
    """Return one finding for two findings with one identity: counts, numbers of calls and names of
    both are combined."""
    return dataclasses.replace(
        known,
        count=known.count + again.count,
        calls=merge_calls((*known.calls, *again.calls)),
        names=merge_names((*known.names, *again.names)),
    )
