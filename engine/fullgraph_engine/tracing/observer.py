"""Who wants to see torch's own objects while they are there, to write them down as text."""

from __future__ import annotations

import types
from typing import Any, Protocol

from .recording import Break, Graph, Skip, TracedFrame


class Witness(Protocol):
    """Called while Dynamo works; may look at everything and change nothing."""

    def on_frame_entered(self, frame: int, code: types.CodeType) -> None: ...

    def on_graph_captured(self, graph: Graph, module: Any) -> None:
        """A graph on its way to the backend, as it was recorded and as it is."""

    def on_graph_break(self, record: Break) -> None: ...

    def on_frame_skipped(self, record: Skip) -> None: ...

    def on_frame_left(self, frame: TracedFrame) -> None: ...
