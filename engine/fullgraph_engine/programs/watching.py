"""Which of Dynamo's work belongs to which region of a program."""

from __future__ import annotations

import types
from typing import Any

from ..tracing.recorder import Recorder
from ..tracing.recording import Recording
from .regions import Listener, LiveRegion

_RECORDS = (
    *("frames", "graphs", "breaks", "skips", "guards", "guarded", "writes", "symbols"),
    *("specializations", "equalities", "limits", "asserts", "recompiles", "custom_ops"),
)
"""Lists of a recording whose items each belong to one region."""


class ProgramRecorder(Recorder):
    """A recorder that also knows which code objects Dynamo interpreted, in any file."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entered_code: set[types.CodeType] = set()

    def attach_interpreter(self, translator: Any) -> None:
        self.entered_code.add(translator.f_code)
        super().attach_interpreter(translator)


class Attribution(Listener):
    """Assigns each record of a recorder to the innermost region whose call is in progress."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.active: list[LiveRegion] = []
        self._owners: dict[str, list[LiveRegion | None]] = {name: [] for name in _RECORDS}

    def enter_region(self, region: LiveRegion) -> None:
        self.settle()
        self.active.append(region)

    def leave_region(self, region: LiveRegion, error: BaseException | None) -> None:
        if error is not None:
            self.record_failure(error)
        region.quiet = 0 if self.settle() else region.quiet + 1
        if region in self.active:
            # Calls that an exception ended elsewhere have not reported their end.
            while self.active.pop() is not region:
                pass
        self.after_call(region)

    def record_failure(self, error: BaseException) -> None:
        """Called for each exception that leaves a region, on the stack of the call."""

    def after_call(self, region: LiveRegion) -> None:
        """Called after each call of a region; a program that may be stopped overrides it."""

    def settle(self) -> bool:
        """Assign the records made since the last time; whether there were any."""
        owner = self.active[-1] if self.active else None
        new = False
        for name, owners in self._owners.items():
            count = len(getattr(self.recording, name)) - len(owners)
            owners.extend([owner] * count)
            new = new or count > 0
        return new

    def work_of(self, region: LiveRegion | None) -> Recording:
        """Return the records of one region as a recording; with None, the records made outside the
        calls of any region."""
        self.settle()
        part = Recording(entries=self.recording.entries, losses=self.recording.losses)
        for name, owners in self._owners.items():
            records = getattr(self.recording, name)
            chosen = [one for one, owner in zip(records, owners, strict=False) if owner is region]
            setattr(part, name, chosen)
        return part
