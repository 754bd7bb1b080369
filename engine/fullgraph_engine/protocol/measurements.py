"""What crosses the pipe about how long calls of a target take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True)
class Measurement:
    """How long one call of a target takes, forward only, in seconds: the median of many calls.

    ``device`` is "cpu"; ``threads`` are those that torch uses on it.
    ``compiled`` is that of the call compiled by Inductor, once it is compiled, which took
    ``compiling`` seconds and gave ``graphs`` graphs. ``reason`` says in a sentence why there is no
    such figure, or none at all.
    """

    device: str = ""
    threads: int = 0
    eager: Union[float, None] = None
    compiled: Union[float, None] = None
    compiling: Union[float, None] = None
    graphs: int = 0
    reason: str = ""
