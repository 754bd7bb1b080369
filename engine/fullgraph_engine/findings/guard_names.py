"""Names of guarded values, and which names mean one value of a source line.

A guard names its value as the compiled function does. In a function that several compiled functions
call, one value therefore has a name for each caller.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ..protocol import Finding, merge_calls, merge_names
from ..tracing.recording import Stack
from .places import FindingPlace, SourceText, finding_identity


@dataclass(frozen=True)
class CompiledFunction:
    """The compiled function from whose point of view a guard names its value."""

    path: str
    function: str


@dataclass
class GuardNames:
    """Names of guarded values by source range, from which findings for one value get one
    identity.
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
        """Return the identity of a finding about a guard with this name and stack.

        For a value of the compiled function itself, the identity contains the name. For a value of
        a function that it calls, it contains the index of the name among the guards with the same
        stack.
        """
        if not self._is_called(stack, compiled):
            return f"{finding_identity(code, place.range)} {name}"
        names = self._by_place.setdefault((code, compiled, stack), [])
        if name not in names:
            names.append(name)
        return f"{finding_identity(code, place.range)} #{names.index(name)}"

    def _is_called(self, stack: Stack, compiled: CompiledFunction) -> bool:
        """Whether the deepest frame in the file belongs to a function that the compiled function
        calls.
        """
        own = [index for index, frame in enumerate(stack) if frame.path == self.source.path]
        outer = [
            index
            for index, frame in enumerate(stack)
            if (frame.path, frame.function) == (compiled.path, compiled.function)
        ]
        return bool(own and outer) and outer[0] < own[-1]


def merge_findings(known: Finding, again: Finding) -> Finding:
    """Return one finding for two reports of it, with counts, calls and names added up."""
    return dataclasses.replace(
        known,
        count=known.count + again.count,
        calls=merge_calls((*known.calls, *again.calls)),
        names=merge_names((*known.names, *again.names)),
    )
