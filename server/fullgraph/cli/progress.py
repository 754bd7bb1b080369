"""Show the progress of a command: in a temporary line on a terminal, elsewhere in a new line from
time to time."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fullgraph.cli.terminal import write
from fullgraph.domain.phrases import amount

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.status import Status

FIRST_LINE = 15.0
"""Seconds until the first line of progress without a terminal; each later interval is twice as long
as the one before."""
_LONGEST = 240.0
"""Maximum seconds between two lines of progress; some CI services end jobs without output."""
_BAR = 24
"""Width of the progress bar in columns."""


class ProgressLine:
    """A progress line on standard error; each new text replaces the line.

    It is only shown if ``wanted`` is true and standard error is a terminal.
    """

    def __init__(self, *, wanted: bool) -> None:
        self._status: Status | None = None
        if wanted and sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status("", spinner="dots")

    def show(self, text: str, done: int = 0, total: int = 0) -> None:
        """Replace the text of the progress line; with ``total``, show a bar of ``done`` steps."""
        if self._status is not None:
            from rich.text import Text

            # A Text, because brackets in names would be parsed as markup.
            words = Text(text, no_wrap=True, overflow="ellipsis")
            self._status.update(_with_bar(words, done, total) if total else words)
            self._status.start()

    def hide(self) -> None:
        """Remove the progress line; required before writing other output to the terminal."""
        if self._status is not None:
            self._status.stop()


def _with_bar(words: RenderableType, done: int, total: int) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    row = Table.grid(padding=(0, 1))
    row.add_row(ProgressBar(total=total, completed=done, width=_BAR), words)
    return row


class FilesProgress:
    """The progress of a check of several files: files, findings so far and the remaining time.

    On a terminal, a bar shows it. Elsewhere, ``write_lines`` writes lines on standard error. With
    ``wanted`` false, nothing is written. ``clock`` returns the time in seconds.
    """

    def __init__(self, *, wanted: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._files = 0
        self._wanted = wanted
        self._clock = clock
        self._began = clock()
        self._line = ProgressLine(wanted=wanted)
        self._done = self._findings = 0
        self._step = ""

    def expect_files(self, number: int) -> None:
        """Set the number of files of the check, and start its clock."""
        self._files, self._began = number, self._clock()

    def show(self, step: str) -> None:
        """Show the present step of the check, for example the name of the traced file."""
        self._step = step
        if self._files > 1:
            self._line.show(f"{self.words()} · {step}", self._done, self._files)
        else:
            self._line.show(step)

    def add_file(self, findings: int) -> None:
        """Count a file that was checked, with the number of its findings."""
        self._done += 1
        self._findings += findings
        if self._step and self._done < self._files:
            self.show(self._step)

    def hide(self) -> None:
        """Remove the progress line from the terminal."""
        self._line.hide()

    def words(self) -> str:
        """Describe the progress: ``12/40 files · 31 findings · about 3 min left``."""
        parts = [f"{self._done:,}/{self._files:,} files", amount(self._findings, "finding")]
        spent = self._clock() - self._began
        if 0 < self._done < self._files:
            parts.append(left_words(spent / self._done * (self._files - self._done)))
        return " · ".join(parts)

    async def write_lines(self, first: float = FIRST_LINE) -> None:
        """Write the progress as a line on standard error at growing intervals, until this call is
        cancelled.

        ``first`` is the first interval in seconds. Returns at once on a terminal, which shows a
        bar instead.
        """
        interval = first
        while self._wanted and self._files > 1 and not sys.stderr.isatty():
            await asyncio.sleep(interval)
            write(sys.stderr, f"fullgraph: {self.words()}\n")
            interval = min(2 * interval, _LONGEST)


def left_words(seconds: float) -> str:
    """Describe an estimate of the remaining time: ``about 3 min left``."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s left"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} min left"
    return f"about {seconds / 3600:.1f} h left"
