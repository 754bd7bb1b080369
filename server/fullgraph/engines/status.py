"""The status of an engine, and the retries after it failed."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fullgraph.engines.installation import packages_state
from fullgraph_engine.protocol import Degraded, SandboxLevel

LOOK_AGAIN, LONGEST_WAIT = 5.0, 300.0
"""Minimum and maximum seconds until a failed engine is started again for a new request; doubled
after each failed start.
"""


class EngineState(enum.Enum):
    """The state of an engine.

    ``UNUSABLE``: this interpreter cannot run an engine until the user changes something.
    ``CRASHED``: the engine exited unexpectedly; if ``EngineStatus.final`` is true, it is not
    restarted automatically.
    """

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    UNUSABLE = "unusable"
    CRASHED = "crashed"


@dataclass(frozen=True)
class EngineStatus:
    """The status of an engine, as shown to users; ``message`` explains it in a sentence."""

    state: EngineState
    message: str
    next_step: str = ""
    torch: str = ""
    """Version of torch; empty until the engine has imported it."""
    python: str = ""
    interpreter: str = ""
    pid: int = 0
    degraded: tuple[Degraded, ...] = ()
    untested: bool = False
    """True if fullgraph was not tested with a torch as new as this one."""
    sandbox: SandboxLevel = dataclasses.field(default_factory=SandboxLevel)
    """Mechanisms that protect the machine from user code; empty until the engine reports them."""
    quiet: bool = False
    """True if no notification should be shown, because the user knows the problem or it may be
    temporary.
    """
    final: bool = True
    """False if the status will change by itself, such as after a crash with an automatic
    restart.
    """


class FailureWatch:
    """Restarts an engine that failed for good, after a change of its interpreter's packages such as
    the installation of torch, or for a new request after a waiting time.

    The waiting time doubles with each failure until the engine becomes ready.
    """

    def __init__(self, interpreter: Path, restart: Callable[[], None]) -> None:
        self._interpreter = interpreter
        self._restart = restart
        self._packages: object = None
        """State of the packages when the engine failed."""
        self._failed_at: float | None = None
        """Time of the failure; None unless the engine has failed."""
        self._wait = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def update(self, status: EngineStatus) -> None:
        """Start to watch if ``status`` says that the engine has failed, otherwise stop watching."""
        self.stop()
        if status.final and status.state in (EngineState.UNUSABLE, EngineState.CRASHED):
            self._packages = packages_state(self._interpreter)
            self._failed_at = time.monotonic()
            self._wait = min(self._wait * 2, LONGEST_WAIT) or LOOK_AGAIN
            self._start_timer()
        elif status.state is EngineState.READY:
            self._wait = 0.0

    def stop(self) -> None:
        """Stop watching, because the engine is started again."""
        self._failed_at = None
        if self._timer is not None:
            self._timer.cancel()

    def reconsider(self) -> None:
        """Restart a failed engine if packages of its interpreter have changed, or if its waiting
        time has passed.
        """
        if self._failed_at is None:
            return
        if time.monotonic() - self._failed_at > self._wait or self._has_changed():
            self._restart()

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_AGAIN, self._look_again)

    def _look_again(self) -> None:
        if self._has_changed():
            self._restart()
        else:
            self._start_timer()

    def _has_changed(self) -> bool:
        return packages_state(self._interpreter) != self._packages
