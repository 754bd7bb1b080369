"""An engine host that is asked whether changed texts behave as the original ones."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any

from tests.engine.reproducing import Host, HostLost

from fullgraph_engine.protocol import Analyze, Cancel, Compare, Compared, Failed, Limits, Log


class Comparer(Host):
    """One warm host."""

    def __init__(self, processes: str = "auto") -> None:
        super().__init__(processes)
        self.log = ""

    def compare(self, original: str, changed: str, target: str, **options: Any) -> Compared:
        """Compare two texts; what goes wrong in the engine is in ``log``."""
        request = self.request(original, changed, target, **options)
        self.log = ""
        for event in self.answers(request):
            if isinstance(event, Log):
                self.log += event.text
            elif isinstance(event, Compared):
                return event
            elif isinstance(event, Failed):
                raise AssertionError(event.reason)
        raise HostLost("it does not end a comparison")

    def cancelled(self, request: Compare) -> Compared:
        """What becomes of a request that is cancelled as soon as it was sent."""
        self.send(request)
        self.send(Cancel(request.request))
        compared: Compared = self.last(request.request)
        return compared

    def request(self, original: str, changed: str, target: str, **options: Any) -> Compare:
        self._requests += 1
        limits = options.pop("limits", Limits(seconds=30.0))
        text = textwrap.dedent(original)
        analyze = Analyze(0, "1", "/nowhere/model.py", text, limits=limits)
        made = Compare(self._requests, analyze, target, textwrap.dedent(changed))
        return replace(made, **options)
