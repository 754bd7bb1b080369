"""Start an engine (the process that imports torch) before the server can handle the engine's
events.

The engine's import of torch takes longest, so it begins before the server has loaded its libraries
and received the client's configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fullgraph.engines.engine import EngineListener
from fullgraph.engines.shared import shared_or_own


class EarlyEngine:
    """An engine that starts early; its events are stored until a listener is attached.

    ``keep``: seconds that an engine shared by commands and editors stays after its last client.
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
        """Send the stored events of the engine to ``hearing``, and all later events as they
        arrive.
        """
        self._hearing = hearing
        for say in self._kept:
            say(hearing)
        self._kept.clear()

    def _forward_call(self, say: Callable[[EngineListener], None]) -> None:
        if self._hearing is None:
            self._kept.append(say)
        else:
            say(self._hearing)
