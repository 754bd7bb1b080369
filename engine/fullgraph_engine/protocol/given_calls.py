"""Arguments that other code passes to targets, compared between requests so that equal calls are
not traced again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GivenCall:
    """The arguments of one call of a target.

    ``digest`` is equal for calls that a trace cannot distinguish, as long as the ``definitions`` do
    not change. ``definitions`` are names of classes and functions at the top of the file that the
    arguments use. ``real``: the tensors were real, not fake.
    """

    digest: str
    definitions: tuple[str, ...] = ()
    real: bool = False


@dataclass(frozen=True)
class GivenCalls:
    """The calls that other code made of a target, in the order of its probe numbers.

    The target need not be traced again if the calls are equal in the next request.
    """

    target: str
    calls: tuple[GivenCall, ...]

    @property
    def real(self) -> bool:
        """True if the tensors of all calls were real."""
        return all(call.real for call in self.calls)


@dataclass(frozen=True)
class CalledAgain:
    """Event: other code called a target with the arguments that the request expected, so it is not
    traced again.

    ``sources`` says in words where each call came from.
    """

    request: int
    target: str
    sources: tuple[str, ...]
