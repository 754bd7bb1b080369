"""An engine that starts before the server has a receiver for its events.

The engine's import of torch takes longest, so it begins before the server has loaded its libraries
and received the client's configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fullgraph.engines.engine import EngineListener
from fullgraph.engines.shared import shared_or_own


class EarlyEngine:
    """A starter of an engine that stores the engine's events until a listener is attached.
    ``keep``: seconds that a shared engine stays after its last client.
    """

    def __init__(self, interpreter: Path, boot: Path | None, keep: float) -> None:
        self._kept: list[Callable[[EngineListener], None]] = []
        self._hearing: EngineListener | None = None
        own = EngineListener(
            lambda status: self._forward_call(lambda to: to.status(status)),
            lambda log: self._forward_call(lambda to: to.log(log)),
            lambda index: self._forward_call(lambda to: to.index(index) if to.index else None),
        )
        self.keep = keep
        self.engine = shared_or_own(own, interpreter, keep=keep, boot=boot)

    def attach_listener(self, hearing: EngineListener) -> None:
        """Attach a listener: send it the stored events, and all later ones."""
        self._hearing = hearing
        for say in self._kept:
            say(hearing)
        self._kept.clear()

    def _forward_call(self, say: Callable[[EngineListener], None]) -> None:
        if self._hearing is None:
            self._kept.append(say)
        else:
            say(self._hearing)
