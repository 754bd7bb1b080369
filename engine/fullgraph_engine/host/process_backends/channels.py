"""Create the pipes and sockets that connect the engine's main process with a process that executes
user code."""

from __future__ import annotations

import os
from dataclasses import dataclass

from . import descriptors, packets


@dataclass
class Channels:
    """The main process's ends of the pipes and sockets to one process that executes user code."""

    reports: int
    stdout: int
    stderr: int
    box: int
    """Descriptor of the in-memory file in which the process records what it executes (see
    ``blackbox``)."""

    def close(self) -> None:
        descriptors.close_all(vars(self).values())


@dataclass
class ProcessEnds:
    """A process's own ends of the pipes and sockets that connect it with the engine's main
    process."""

    report: int
    stdout: int
    stderr: int
    box: int
    control: int = -1
    """Descriptor from which the process reads commands; -1 in a process that only traces one
    target."""
    paper: int = -1
    """Descriptor of a file with the ``ModuleOrder``, in a process forked for a new version of the
    user's file; otherwise -1."""
    keep_control: int = -1
    keep_report: int = -1
    """Descriptor for reports of a process kept after the file's imports; -1 if it must not be kept.
    ``keep_control`` is the one for commands to it."""

    def open_descriptors(self) -> list[int]:
        return [descriptor for descriptor in vars(self).values() if descriptor >= 0]

    def close(self) -> None:
        descriptors.close_all(self.open_descriptors())

    def raise_all(self) -> None:
        """Move the engine's own descriptors to high numbers, so that user code does not close or
        reuse them."""
        self._raise("report", "box", "control", "keep_control", "keep_report")

    def raise_streams(self) -> None:
        """Move the descriptors of the output pipes to high numbers; user code writes to copies of
        them."""
        self._raise("stdout", "stderr")

    def _raise(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) >= 0:
                setattr(self, name, descriptors.move_to_end(getattr(self, name)))


def open_channels() -> tuple[Channels, ProcessEnds]:
    """Create the pipes and sockets for a new process; return the main process's ends and the
    process's ends.

    Programs that the process starts do not inherit them.

    Raises:
        OSError: too many descriptors are open.
    """
    made: list[int] = []
    try:
        made += packets.report_channel()
        for _ in range(2):
            made += os.pipe()
        reports, report, out, out_in, err, err_in = made
        for readable in (reports, out, err):
            os.set_blocking(readable, False)
        box = descriptors.in_memory("fullgraph-blackbox")
        made.append(box)
        child_end = os.dup(box)
    except OSError:
        descriptors.close_all(made)
        raise
    return Channels(reports, out, err, box), ProcessEnds(report, out_in, err_in, child_end)
