"""Names of guarded values, and which of them stand for one value of a line.

A guard names its value as the compiled function does. In a function that compiled functions call,
one value therefore has a name for each caller.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ..protocol import Finding, merge_calls, merge_names
from ..tracing.recording import Stack
from .places import FindingPlace, SourceText, finding_identity


@dataclass(frozen=True)
class CompiledFunction:
    """The compiled function whose names a guard uses."""

    path: str
    function: str


@dataclass
class GuardNames:
    """The names of guarded values by place; makes identities that findings of one value share."""

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
        """Return the identity of a finding about a guard with this name and stack.

        In the compiled function itself it contains the name; in a function that it calls, the index
        of the name among the guards with the same stack.
        """
        if not self._is_called(stack, compiled):
            return f"{finding_identity(code, place.range)} {name}"
        names = self._by_place.setdefault((code, compiled, stack), [])
        if name not in names:
            names.append(name)
        return f"{finding_identity(code, place.range)} #{names.index(name)}"

    def _is_called(self, stack: Stack, compiled: CompiledFunction) -> bool:
        """Whether the innermost frame in the file is of a function that the compiled one calls."""
        own = [index for index, frame in enumerate(stack) if frame.path == self.source.path]
        outer = [
            index
            for index, frame in enumerate(stack)
            if (frame.path, frame.function) == (compiled.path, compiled.function)
        ]
        return bool(own and outer) and outer[0] < own[-1]


def merge_findings(known: Finding, again: Finding) -> Finding:
    """Return a finding that was reported again with its counts, calls and names added up."""
    return dataclasses.replace(
        known,
        count=known.count + again.count,
        calls=merge_calls((*known.calls, *again.calls)),
        names=merge_names((*known.names, *again.names)),
    )
