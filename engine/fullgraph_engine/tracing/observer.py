"""Interface for code that inspects torch's own objects while a trace runs."""

from __future__ import annotations

import types
from typing import Any, Protocol

from .recording import Break, Graph, Skip, TracedFrame


class Witness(Protocol):
    """An observer that Dynamo's events are passed to, for example to write debug documents.

    Its methods may read torch's objects but must not change them.
    """

    def enter_frame(self, frame: int, code: types.CodeType) -> None: ...

    def capture_graph(self, graph: Graph, module: Any) -> None:
        """Receive a graph before the backend gets it: its record and its
        ``torch.fx.GraphModule``."""

    def observe_break(self, record: Break) -> None: ...

    def observe_skip(self, record: Skip) -> None: ...

    def leave_frame(self, frame: TracedFrame) -> None: ...
