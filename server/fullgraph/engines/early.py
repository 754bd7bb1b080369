"""An engine that is started before anybody can hear what it says.

Nothing takes as long as its import of torch, so it need not wait until the libraries of the server
are loaded, and the client has said who it is and which texts are open.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fullgraph.engines.engine import EngineListener
from fullgraph.engines.shared import shared_or_own


class EarlyEngine:
    """Keeps what its engine says until somebody hears it. ``keep``: as of ``shared_or_own``."""

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
        """Tell all that was said, and whatever follows."""
        self._hearing = hearing
        for say in self._kept:
            say(hearing)
        self._kept.clear()

    def _forward_call(self, say: Callable[[EngineListener], None]) -> None:
        if self._hearing is None:
            self._kept.append(say)
        else:
            say(self._hearing)
