"""What targets are called with by others, compared from one request to the next."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GivenCall:
    """What a target was called with: a ``digest`` that is the same for calls that a trace cannot
    tell from each other, as long as these ``definitions`` are the same.

    They are names at the top of the file: of classes that something given is of, and of functions.
    ``real``: the tensors were.
    """

    digest: str
    definitions: tuple[str, ...] = ()
    real: bool = False


@dataclass(frozen=True)
class GivenCalls:
    """The calls of a target, by the numbers of its probes. It need not be traced where it is called
    so again."""

    target: str
    calls: tuple[GivenCall, ...]

    @property
    def real(self) -> bool:
        """The tensors of all of them were."""
        return all(call.real for call in self.calls)


@dataclass(frozen=True)
class CalledAgain:
    """Event: a target was called as the request says it was before, and is not traced. ``sources``
    say in words where from, for each of its probes."""

    request: int
    target: str
    sources: tuple[str, ...]
