"""Terminal colors."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from fullgraph.domain.codes import Severity


class Style(enum.Enum):
    """A role of a piece of terminal text, such as an error.

    The value has the parameters of its ANSI escape sequence.
    """

    ERROR = "1;91"
    WARNING = "1;93"
    INFORMATION = "1;96"
    HINT = "1;92"
    STRONG = "1"
    GUTTER = "1;94"
    DIM = "2"
    ADDED = "32"
    REMOVED = "31"
    LINK = "4"


SEVERITY_STYLES = {
    Severity.ERROR: Style.ERROR,
    Severity.WARNING: Style.WARNING,
    Severity.INFORMATION: Style.INFORMATION,
    Severity.HINT: Style.HINT,
}


@dataclass(frozen=True)
class Paint:
    """The output style of a stream.

    ``color`` is true if it shows colors. ``width`` is the maximum number of columns of prose, and
    ``code`` of code.
    """

    color: bool = False
    width: int = 100
    code: int = 160

    def __call__(self, style: Style, text: str) -> str:
        if not self.color or not text:
            return text
        return f"\x1b[{style.value}m{text}\x1b[0m"


PLAIN = Paint()
