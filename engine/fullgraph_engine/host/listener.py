"""A substitute for the event loop that receives the events of an analysis instead of the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..protocol import Event
from . import wire
from .services import Services


class EventInterceptor:
    """A proxy for the event loop ``host`` that an analysis uses.

    Events are passed to ``heard`` instead of the server; all other calls reach the event loop.
    """

    def __init__(self, host: Services, heard: Callable[[Any], None]) -> None:
        self._host, self._heard = host, heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def send(self, event: Event) -> None:
        self._heard(event)

    def forward(self, line: bytes) -> None:
        message = wire.parse_message(line.rstrip(b"\n"))
        if message is not None:
            self._heard(message)

    def remove_request(self, request: int) -> None:
        """Do nothing: the analysis has ended, but the request that started it continues."""
