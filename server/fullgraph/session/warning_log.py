"""Filter for repeated warnings of Python and of torch's logging."""

from __future__ import annotations

import re

_PYTHON = re.compile(r"^\S.*:\d+: \w*Warning: .*$")
_TORCH = re.compile(r"^W\d{4} [\d:.]+ \d+ (?P<said>.*)$")

MOST_KNOWN = 1000
"""Maximum number of warnings to remember, so that repetitions are recognized."""


class WarningLog:
    """A filter that removes warnings from output if the same warning was logged before."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def without_known(self, text: str) -> str:
        """Return output without warnings that were logged before, and without the lines of code
        printed below them.
        """
        kept = []
        dropping = False
        for line in text.split("\n"):
            if (said := _warning_key(line)) is not None:
                dropping = said in self._known
                if len(self._known) < MOST_KNOWN:
                    self._known.add(said)
            elif not line.startswith("  "):
                dropping = False
            if not dropping:
                kept.append(line)
        return "\n".join(kept)


def _warning_key(line: str) -> str | None:
    """Return the warning in a line of output, without time and process number; None for lines
    without a warning.
    """
    if _PYTHON.match(line):
        return line
    match = _TORCH.match(line)
    return match["said"] if match else None
