"""Create the descriptors that connect the parent process with a process that executes user code."""

from __future__ import annotations

import os
from dataclasses import dataclass

from . import descriptors, packets


@dataclass
class Channels:
    """The parent's ends of the channels to one process; this object closes them."""

    reports: int
    stdout: int
    stderr: int
    box: int
    """Descriptor of the in-memory file in which the process records where it is (``blackbox``)."""

    def close(self) -> None:
        descriptors.close_all(vars(self).values())


@dataclass
class ProcessEnds:
    """The child's ends of its channels to the parent process."""

    report: int
    stdout: int
    stderr: int
    box: int
    control: int = -1
    """Descriptor from which a module process reads commands; -1 in a run."""
    paper: int = -1
    """Descriptor of a file with the order for a generation of a preamble."""
    keep_control: int = -1
    keep_report: int = -1
    """Descriptors for commands and reports while it is a preamble; -1 if it must not become one."""

    def open_descriptors(self) -> list[int]:
        return [descriptor for descriptor in vars(self).values() if descriptor >= 0]

    def close(self) -> None:
        descriptors.close_all(self.open_descriptors())

    def raise_all(self) -> None:
        """Move the engine's own descriptors to high numbers, out of the way of user code."""
        self._raise("report", "box", "control", "keep_control", "keep_report")

    def raise_streams(self) -> None:
        """Move the descriptors whose copies user code uses to high numbers."""
        self._raise("stdout", "stderr")

    def _raise(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) >= 0:
                setattr(self, name, descriptors.move_to_end(getattr(self, name)))


def open_channels() -> tuple[Channels, ProcessEnds]:
    """Create the channels of a process; programs that it executes do not inherit them.

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
