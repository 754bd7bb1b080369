"""The status and messages of a session, and the receiver to which it reports them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph_engine.protocol import Event


class SessionState(enum.Enum):
    """The state of fullgraph for one file, as shown in a status bar."""

    STOPPED = "stopped"
    UNTRUSTED = "untrusted"
    STARTING = "starting"
    READY = "ready"
    TRACING = "tracing"
    UNUSABLE = "unusable"
    CRASHED = "crashed"


@dataclass(frozen=True)
class SessionStatus:
    """The status shown in a status bar; ``message`` and ``next_step`` are sentences.

    ``busy``: a file is being traced. Versions are empty until the engine reports them.
    """

    state: SessionState
    message: str
    next_step: str = ""
    torch: str = ""
    python: str = ""
    interpreter: str = ""
    why: str = ""
    """Reason for the choice of the interpreter, with the interpreters that were tried before it."""
    sandbox: str = ""
    """Short description of the sandbox; empty until the engine reports it."""
    busy: bool = False


class MessageLevel(enum.Enum):
    """Severity of a message to the user, with the values of ``MessageType`` in LSP."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"


class SessionListener(Protocol):
    """The interface that receives a session's events; the language server forwards them to the
    editor.
    """

    def results_changed(self, unit: AnalysisUnit, *, final: bool) -> None: ...

    def run_began(self, unit: AnalysisUnit, *, asked: bool) -> None: ...

    def run_asked(self, unit: AnalysisUnit) -> None: ...

    def run_advanced(self, unit: AnalysisUnit, event: Event) -> None: ...

    def run_ended(self, unit: AnalysisUnit) -> None: ...

    def unit_closed(self, unit: AnalysisUnit) -> None: ...

    def status_changed(self, status: SessionStatus) -> None: ...

    def log(self, text: str) -> None: ...

    def show_message(self, level: MessageLevel, message: str) -> None:
        """Show a message to the user immediately."""


class Messages:
    """Messages to the user, each shown or logged once."""

    def __init__(self, listener: SessionListener) -> None:
        self._listener = listener
        self._shown: set[str] = set()

    def show(self, level: MessageLevel, message: str) -> None:
        """Show a message, unless it was shown before."""
        if self._is_new(message):
            self._listener.show_message(level, message)

    def log(self, message: str) -> None:
        """Write a message to the log, unless it was shown before."""
        if self._is_new(message):
            self._listener.log(message)

    def _is_new(self, message: str) -> bool:
        is_new = message not in self._shown
        self._shown.add(message)
        return is_new

    def forget_all(self) -> None:
        """Forget the messages shown so far, so that the same texts are shown again."""
        self._shown.clear()
