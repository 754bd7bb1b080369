"""Decide how often the module of an analysis is executed, and without which statements.

The plan is plain data: it starts no process and reads no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .wire import SkippedStatement

_MOST_ATTEMPTS = 4

AfterModule = Literal["repeat", "lose runs", "skip statement", "give up"]
"""Reactions to the end of a module process: execute the module once more; report its runs as
crashed; report the statement that ended the process, and execute the module without it; report the
statement and all targets as failed."""


@dataclass
class ModulePlan:
    """The executions of one analysis's module."""

    skips: list[SkippedStatement] = field(default_factory=list)
    unparsable: str | None = None
    """Reason why the file does not parse; None if it does or was not yet parsed."""
    _read: bool = False
    """True if the module process has reported the targets, which also shows that the file could be
    parsed."""
    _repeated: bool = False
    """True if the module has been executed a second time because its first process was killed from
    outside the engine."""
    _restarted: bool = False
    """True if the module process was restarted because the saved process that it was forked from
    had executed other imports than the file has now."""

    def begin(self) -> tuple[SkippedStatement, ...]:
        """Begin an execution; return the statements to skip, which ended earlier processes."""
        self._read = False
        return tuple(self.skips)

    def add_targets(self) -> None:
        """Record that the module process has reported the targets."""
        self._read = True

    def handle_unparsable(self, reason: str) -> bool:
        """Whether the analysis ends because the file does not parse. Ignore the message if the
        targets are known, since user code must have forged it."""
        if not self._read:
            self.unparsable = reason
        return not self._read

    def handle_stale(self) -> bool:
        """Whether to restart the module process without the saved process that it was forked from.
        This happens at most once."""
        first, self._restarted = not self._restarted, True
        return first

    def handle_end(
        self, statement: int | None, cause: str, *, killed: bool, planned: bool
    ) -> AfterModule:
        """Decide what follows the end of a module process.

        ``statement`` is the index of the top-level statement that it executed last, if known.
        ``killed``: whether it was killed from outside the engine. ``planned``: whether it had
        executed the module and reported the runs.
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
