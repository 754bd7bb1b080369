"""Convert the output of user code to log events of bounded total size."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable

from ..protocol import Log, Stream

MOST = 64 * 1024
_PIECE = 4096
_READ = 1 << 16


class OutputBudget:
    """A counter of the bytes that one process may still print, on both streams together."""

    def __init__(self, most: int = MOST) -> None:
        self.left = most
        self.reported = False


class OutputCapture:
    """A reader of one output stream of a process. It sends the text to ``log``; output beyond the
    budget is dropped."""

    def __init__(
        self,
        descriptor: int,
        request: int,
        stream: Stream,
        budget: OutputBudget,
        log: Callable[[Log], None],
    ) -> None:
        self.descriptor = descriptor
        self._request, self._stream, self._budget, self._log = request, stream, budget, log
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""

    def read(self) -> bool:
        """Read at most one buffer of output. Return False at the end of the stream."""
        try:
            data = os.read(self.descriptor, _READ)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        kept = data[: max(self._budget.left, 0)]
        self._budget.left -= len(data)
        self._text += self._decoder.decode(kept)
        if len(self._text) >= _PIECE or self._budget.left < 0:
            self.flush()
        return True

    def drain(self) -> None:
        """Read the remaining output after all processes that write to the stream have ended."""
        left = -1
        while left != self._budget.left and self._budget.left >= 0:
            left = self._budget.left
            if not self.read():
                break
        self.flush()

    def flush(self) -> None:
        """Send the buffered output as a log event. If output was dropped, also send a note,
        once."""
        if self._text:
            self._log(Log(self._request, self._stream, self._text))
            self._text = ""
        if self._budget.left < 0 and not self._budget.reported:
            self._budget.reported = True
            note = f"Only the first {MOST // 1024} KiB of the output are shown.\n"
            self._log(Log(self._request, "engine", note))
