"""An engine that starts before anything listens to it.

Its import of torch takes longest, so it need not wait until the libraries of the server are loaded
and the client has sent its configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fullgraph.engines.engine import EngineListener
from fullgraph.engines.shared import shared_or_own


class EarlyEngine:
    """Starts an engine and stores its events until a listener is attached. ``keep``: see
    ``shared_or_own``."""

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
