"""An engine that is started before anybody can hear what it says.

Nothing takes as long as its import of torch, so it need not wait until the libraries of the server
are loaded, and the client has said who it is and which texts are open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fullgraph.engines.engine import Engine, EngineStatus
from fullgraph_engine.protocol import Allowed, IndexWritten, Log


@dataclass(frozen=True)
class EngineListener:
    """Whoever hears what an engine says."""

    status: Callable[[EngineStatus], None]
    log: Callable[[Log], None]
    index: Callable[[IndexWritten], None]

    def engine(
        self,
        interpreter: Path,
        boot: Path | None,
        processes: str = "auto",
        allowed: Allowed = Allowed(),  # noqa: B008 - it is frozen
    ) -> Engine:
        """One that is not started yet."""
        return Engine(
            interpreter,
            on_status=self.status,
            on_log=self.log,
            on_index=self.index,
            boot=boot,
            processes=processes,
            allowed=allowed,
        )


class EarlyEngine:
    """Keeps what its engine says until somebody hears it."""

    def __init__(self, interpreter: Path, boot: Path | None) -> None:
        self._kept: list[Callable[[EngineListener], None]] = []
        self._hearing: EngineListener | None = None
        own = EngineListener(
            lambda status: self._say(lambda to: to.status(status)),
            lambda log: self._say(lambda to: to.log(log)),
            lambda index: self._say(lambda to: to.index(index)),
        )
        self.engine = own.engine(interpreter, boot)

    def hear(self, hearing: EngineListener) -> None:
        """Tell all that was said, and whatever follows."""
        self._hearing = hearing
        for say in self._kept:
            say(hearing)
        self._kept.clear()

    def _say(self, say: Callable[[EngineListener], None]) -> None:
        if self._hearing is None:
            self._kept.append(say)
        else:
            say(self._hearing)
