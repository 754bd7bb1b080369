"""Messages with the measured times of calls of a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True)
class Measurement:
    """Processor time of one call of a target, forward only, in seconds: the median of many calls.

    ``device`` is "cpu"; ``threads`` is the number of threads that torch uses. ``compiled`` is the
    time of a call compiled by Inductor, without the compilation itself, which took ``compiling``
    seconds of wall time and produced ``graphs`` graphs. ``costliest`` is the operator, such as
    ``aten.addmm``, that takes the most time in an eager call. ``share`` is its share of the time of
    all operators (0 to 1). ``reason`` is a sentence that says why a time is missing.
    """

    device: str = ""
    threads: int = 0
    eager: Union[float, None] = None
    compiled: Union[float, None] = None
    compiling: Union[float, None] = None
    graphs: int = 0
    costliest: str = ""
    share: float = 0.0
    reason: str = ""
