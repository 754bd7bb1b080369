"""Arguments with which other code calls targets, compared between requests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GivenCall:
    """The arguments of one call of a target.

    ``digest`` is equal for calls that a trace cannot distinguish, as long as the ``definitions`` do
    not change. These are names at the top of the file: classes of the arguments, and functions.
    ``real``: the tensors were real.
    """

    digest: str
    definitions: tuple[str, ...] = ()
    real: bool = False


@dataclass(frozen=True)
class GivenCalls:
    """The calls of a target, by probe number; it need not be traced again if other code repeats
    them.
    """

    target: str
    calls: tuple[GivenCall, ...]

    @property
    def real(self) -> bool:
        """True if the tensors of all calls were real."""
        return all(call.real for call in self.calls)


@dataclass(frozen=True)
class CalledAgain:
    """Event: a target was called as the request expected, and is not traced.

    ``sources`` says in words where each probe's call came from.
    """

    request: int
    target: str
    sources: tuple[str, ...]
