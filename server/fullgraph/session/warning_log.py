"""Warnings of Python and of torch's logging, which every run of a file prints again."""

from __future__ import annotations

import re

_PYTHON = re.compile(r"^\S.*:\d+: \w*Warning: .*$")
_TORCH = re.compile(r"^W\d{4} [\d:.]+ \d+ (?P<said>.*)$")

MOST_KNOWN = 1000
"""Warnings that are remembered."""


class WarningLog:
    """Tells warnings that are new from those that were logged already."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def without_known(self, text: str) -> str:
        """Output without the warnings that an earlier output had, each with its line of code."""
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
    """What a line warns of, without the time and the process; None of other lines."""
    if _PYTHON.match(line):
        return line
    match = _TORCH.match(line)
    return match["said"] if match else None
