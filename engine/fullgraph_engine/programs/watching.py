"""Assign the records of Dynamo's work to the compiled callables (regions) of a program."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..tracing.recorder import Recorder
from ..tracing.recording import Recording
from .regions import Listener, LiveRegion

_RECORDS = (
    *("frames", "graphs", "breaks", "skips", "guards", "guarded", "writes", "symbols"),
    *("specializations", "equalities", "limits", "asserts", "recompiles", "custom_ops"),
    "compiler_checks",
)
"""Names of the lists in a ``Recording`` whose items each belong to one compiled callable."""


class ProgramRecorder(Recorder):
    """A recorder that also collects which code objects Dynamo traced, in any file."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entered_code: set[types.CodeType] = set()

    def attach_interpreter(self, translator: Any) -> None:
        self.entered_code.add(translator.f_code)
        super().attach_interpreter(translator)


@dataclass(frozen=True)
class RegionCall:
    """One call of a region (a compiled callable); ``number`` counts its calls from 1."""

    region: LiveRegion
    number: int


@dataclass
class RegionWork(Recording):
    """Graphs, graph breaks and recompiles that Dynamo has recorded for one compiled callable, each
    with the number of the call that caused it.
    """

    calls: dict[int, int] = field(default_factory=dict)
    """Call numbers by the ``id`` of a record; records made outside of calls are missing."""

    def call_of(self, record: object) -> int:
        """Return the number of the call that caused a record; 0 if it was made outside of all
        calls.
        """
        return self.calls.get(id(record), 0)


class Attribution(Listener):
    """An observer that assigns each record of Dynamo's work to the active call of a compiled
    callable.

    If several calls are active, the innermost one gets it.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.active: list[RegionCall] = []
        self._owners: dict[str, list[RegionCall | None]] = {name: [] for name in _RECORDS}

    def enter_region(self, region: LiveRegion) -> None:
        self.settle()
        self.active.append(RegionCall(region, region.calls))

    def leave_region(self, region: LiveRegion, error: BaseException | None) -> None:
        if error is not None:
            self.record_failure(error)
        region.quiet = 0 if self.settle() else region.quiet + 1
        if any(one.region is region for one in self.active):
            # An exception may have ended inner calls without a report of their end, so remove these
            # too.
            while self.active.pop().region is not region:
                pass
        self.after_call(region)

    def record_failure(self, error: BaseException) -> None:
        """Called for each exception that a call of a compiled callable raises, before
        ``leave_region``.
        """

    def after_call(self, region: LiveRegion) -> None:
        """Called after each call of a region; a subclass may stop the program here."""

    def settle(self) -> bool:
        """Assign the records made since the last call of this method to the calls of regions that
        caused them.

        Return whether there were any such records.
        """
        owner = self.active[-1] if self.active else None
        new = False
        for name, owners in self._owners.items():
            count = len(getattr(self.recording, name)) - len(owners)
            owners.extend([owner] * count)
            new = new or count > 0
        return new

    def remember_records(self) -> Callable[[], None]:
        """Return a function that removes the graph breaks and recompiles recorded from now on."""
        self.settle()
        counts = {name: len(getattr(self.recording, name)) for name in ("breaks", "recompiles")}

        def remove() -> None:
            self.settle()
            for name, count in counts.items():
                del getattr(self.recording, name)[count:], self._owners[name][count:]

        return remove

    def work_of(self, region: LiveRegion | None) -> RegionWork:
        """Return the records of one compiled callable; with None, the records made outside of all
        calls.
        """
        self.settle()
        part = RegionWork(entries=self.recording.entries, losses=self.recording.losses)
        for name, owners in self._owners.items():
            chosen = []
            for record, call in zip(getattr(self.recording, name), owners, strict=False):
                if (call.region if call is not None else None) is region:
                    chosen.append(record)
                    if call is not None:
                        part.calls[id(record)] = call.number
            setattr(part, name, chosen)
        return part
