"""Reading whole lines from descriptors that must never block the parent."""

from __future__ import annotations

import os

from .process_backends import descriptors, packets

_READ = 1 << 16
_LONGEST = 32 << 20


class Line(bytes):
    """A line without its newline. ``sender`` is the pid of the process that wrote it, from the
    kernel; 0 where that is not known."""

    sender = 0


class LineReader:
    """Reads whole lines from a descriptor, which it makes non-blocking. Those of one process are
    not mixed up with those of another.

    ``ended`` is true after the end of the file or an error. Of a line longer than 32 MiB, half of
    what the server takes, a part is discarded.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.ended = False
        self._begun: dict[int, list[bytes]] = {}
        """By process: the parts of the line that it has not ended."""
        self._held = 0

    def read(self) -> list[Line]:
        """The lines completed by what is there now, at most one buffer of it."""
        try:
            data, sender = packets.read_report(self.descriptor, _READ)
        except BlockingIOError:
            return []
        except OSError:
            data, sender = b"", 0
        if not data:
            self.ended = True
            return []
        *whole, rest = data.split(b"\n")
        if whole:
            begun = self._begun.pop(sender, [])
            self._held -= sum(map(len, begun))
            whole[0] = b"".join((*begun, whole[0]))
        if rest and self._held + len(rest) <= _LONGEST:
            self._begun.setdefault(sender, []).append(rest)
            self._held += len(rest)
        lines = [Line(line) for line in whole]
        for line in lines:
            line.sender = sender
        return lines

    def drain(self) -> list[Line]:
        """All lines that are there, once nobody writes any more."""
        found: list[Line] = []
        while not self.ended:
            try:
                waiting = descriptors.readable(self.descriptor)
            except OSError:
                break
            if not waiting:
                break
            found += self.read()
        return found
