"""Read whole lines from descriptors without blocking the engine's main process."""

from __future__ import annotations

import os

from .process_backends import descriptors, packets

_READ = 1 << 16
_LONGEST = 32 << 20


class Line(bytes):
    """A line without its newline.

    ``sender`` is the pid of the process that wrote it, as reported by the kernel; 0 if it is
    unknown.
    """

    sender = 0


class LineReader:
    """A reader of whole lines from a descriptor, which it makes non-blocking.

    Lines of several processes on one descriptor are kept apart. ``ended`` is true after the end of
    the file or an error. Lines over 32 MiB, half of the server's limit, are truncated.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.ended = False
        self._begun: dict[int, list[bytes]] = {}
        """Beginning of the unfinished line of each process, by pid."""
        self._held = 0

    def read(self) -> list[Line]:
        """Read at most one buffer and return the lines that it completes."""
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
        """Return the lines that can still be read, after all processes that write to the descriptor
        have ended."""
        found: list[Line] = []
        while not self.ended:
            try:
                waiting = descriptors.is_readable(self.descriptor)
            except OSError:
                break
            if not waiting:
                break
            found += self.read()
        return found
