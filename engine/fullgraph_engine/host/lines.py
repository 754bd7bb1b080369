"""Reading whole lines from descriptors that must never block the parent."""

from __future__ import annotations

import os

from .process_backends import descriptors

_READ = 1 << 16
_LONGEST = 64 << 20


class LineReader:
    """Reads whole lines from a descriptor, which it makes non-blocking.

    ``ended`` is true after the end of the file or an error. Of a line longer than 64 MiB a part is
    discarded.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.ended = False
        self._parts: list[bytes] = []
        self._held = 0

    def read(self) -> list[bytes]:
        """The lines completed by what is there now, at most one buffer of it."""
        try:
            data = os.read(self.descriptor, _READ)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.ended = True
            return []
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = b"".join((*self._parts, whole[0]))
            self._parts, self._held = [], 0
        if rest and self._held + len(rest) <= _LONGEST:
            self._parts.append(rest)
            self._held += len(rest)
        return whole

    def drain(self) -> list[bytes]:
        """All lines that are there, once nobody writes any more."""
        found: list[bytes] = []
        while not self.ended:
            try:
                waiting = descriptors.readable(self.descriptor)
            except OSError:
                break
            if not waiting:
                break
            found += self.read()
        return found
