"""Interface for code that inspects torch's own objects while a trace runs."""

from __future__ import annotations

import types
from typing import Any, Protocol

from .recording import Break, Graph, Skip, TracedFrame


class Witness(Protocol):
    """An observer of Dynamo's events during a trace, which for example writes debug documents.

    Its methods may read torch's objects but must not change them.
    """

    def enter_frame(self, frame: int, code: types.CodeType) -> None: ...

    def capture_graph(self, graph: Graph, module: Any) -> None:
        """Receive a captured graph before the backend gets it.

        ``graph`` is its record as plain data, ``module`` the ``torch.fx.GraphModule``.
        """

    def observe_break(self, record: Break) -> None: ...

    def observe_skip(self, record: Skip) -> None: ...

    def leave_frame(self, frame: TracedFrame) -> None: ...
