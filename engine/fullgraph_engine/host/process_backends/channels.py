"""The descriptors between the parent and one process that executes user code, both ends."""

from __future__ import annotations

import os
from dataclasses import dataclass

from . import descriptors, packets


@dataclass
class Channels:
    """The parent's ends: what it reads from one process. It owns them."""

    reports: int
    stdout: int
    stderr: int
    box: int
    """A file that the process writes its last words to (``blackbox``)."""

    def close(self) -> None:
        descriptors.close_all(vars(self).values())


@dataclass
class ProcessEnds:
    """The ends of the process."""

    report: int
    stdout: int
    stderr: int
    box: int
    control: int = -1
    """Where a module process takes commands; -1 in a run, which takes none."""
    paper: int = -1
    """A file that holds the job of a generation of a preamble."""
    keep_control: int = -1
    keep_report: int = -1
    """Where it takes commands and reports if it stays as a preamble; -1 if it must not."""

    def opened(self) -> list[int]:
        return [descriptor for descriptor in vars(self).values() if descriptor >= 0]

    def close(self) -> None:
        descriptors.close_all(self.opened())

    def raise_all(self) -> None:
        """Move those that the process keeps out of the way of user code."""
        self._raise("report", "box", "control", "keep_control", "keep_report")

    def raise_streams(self) -> None:
        """The same for what user code has copies of."""
        self._raise("stdout", "stderr")

    def _raise(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) >= 0:
                setattr(self, name, descriptors.raised(getattr(self, name)))


def opened() -> tuple[Channels, ProcessEnds]:
    """New descriptors, none inherited by a program that is executed.

    Raises:
        OSError: there are too many open descriptors.
    """
    made: list[int] = []
    try:
        made += packets.reports()
        for _ in range(2):
            made += os.pipe()
        reports, report, out, out_in, err, err_in = made
        for readable in (reports, out, err):
            os.set_blocking(readable, False)
        box = descriptors.in_memory("fullgraph-blackbox")
        made.append(box)
        theirs = os.dup(box)
    except OSError:
        descriptors.close_all(made)
        raise
    return Channels(reports, out, err, box), ProcessEnds(report, out_in, err_in, theirs)
