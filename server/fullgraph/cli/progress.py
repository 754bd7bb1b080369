"""Show the progress of a command in a temporary line on the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status


class ProgressLine:
    """A progress line on standard error, replaced by each later text.

    Without effect unless ``wanted`` is true and standard error is a terminal.
    """

    def __init__(self, *, wanted: bool) -> None:
        self._status: Status | None = None
        if wanted and sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status("", spinner="dots")

    def show(self, text: str) -> None:
        """Replace the text of the progress line."""
        if self._status is not None:
            from rich.text import Text

            # A Text, because brackets in names would be parsed as markup.
            self._status.update(Text(text, no_wrap=True, overflow="ellipsis"))
            self._status.start()

    def hide(self) -> None:
        """Remove the progress line; required before writing other output to the terminal."""
        if self._status is not None:
            self._status.stop()
