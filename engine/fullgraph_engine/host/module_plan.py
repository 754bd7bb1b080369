"""Decide how often the user's file is executed during an analysis, and without which statements.

The plan is plain data: it starts no process and reads no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .wire import SkippedStatement

_MOST_ATTEMPTS = 4

AfterModule = Literal["repeat", "lose runs", "skip statement", "give up"]
"""Reaction to the end of the process that executes the user's file.

``repeat``: execute the file once more. ``lose runs``: report the runs forked from the process as
crashed. ``skip statement``: report the top-level statement that ended the process, and execute the
file without it. ``give up``: report that statement, and report all targets as failed.
"""


@dataclass
class ModulePlan:
    """The executions of the user's file in one analysis: how many there were, and which statements
    ended them."""

    skips: list[SkippedStatement] = field(default_factory=list)
    unparsable: str | None = None
    """Syntax error of the file, as a clause; None if the file parses or was not yet parsed."""
    _read: bool = False
    """True if the process has reported the functions and module classes of the file, which shows
    that the file parses."""
    _repeated: bool = False
    """True if the file was executed a second time because the kernel or another program killed the
    first process."""
    _restarted: bool = False
    """True if the execution was restarted, because the first process was forked from a kept process
    whose imports are not the file's current imports."""

    def begin(self) -> tuple[SkippedStatement, ...]:
        """Begin an execution of the file; return the statements to skip, which ended earlier
        processes."""
        self._read = False
        return tuple(self.skips)

    def add_targets(self) -> None:
        """Record that the process which executes the file has reported the file's targets
        (functions and module classes)."""
        self._read = True

    def handle_unparsable(self, reason: str) -> bool:
        """Handle a message that the file has a syntax error; return whether the analysis ends
        because of it.

        Return False, and ignore the message, if the file was parsed before: user code must have
        forged it.
        """
        if not self._read:
            self.unparsable = reason
        return not self._read

    def handle_stale(self) -> bool:
        """Handle a message that the process kept after the file's imports is unusable; return
        whether to execute the file again without that process.

        Only the first message returns True.
        """
        first, self._restarted = not self._restarted, True
        return first

    def handle_end(
        self, statement: int | None, cause: str, *, killed: bool, planned: bool
    ) -> AfterModule:
        """Decide what follows the end of the process that executes the user's file.

        ``statement`` is the index of the top-level statement that it executed last, if known.
        ``cause`` is a clause that explains the end. ``killed``: the kernel or another program
        killed it. ``planned``: the process had executed the whole file and reported the runs that
        can trace its targets.
        """
        if killed and not self._repeated:
            self._repeated = True
            return "repeat"
        if planned:
            return "lose runs"
        known = any(skip.statement == statement for skip in self.skips)
        if statement is None or known or len(self.skips) + 1 >= _MOST_ATTEMPTS:
            return "give up"
        self.skips.append(SkippedStatement(statement, cause))
        return "skip statement"
