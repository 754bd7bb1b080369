"""Digests of the arguments that other code passes to targets, by which a later request recognizes
equal calls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GivenCall:
    """A digest of the arguments of one call of a target (a function or module class).

    ``digest`` is equal for calls that a trace cannot distinguish, while the ``definitions`` do not
    change. ``definitions`` are names of classes and functions at the top of the file that the
    arguments use. ``real``: the tensors were real, not fake.
    """

    digest: str
    definitions: tuple[str, ...] = ()
    real: bool = False


@dataclass(frozen=True)
class GivenCalls:
    """Digests of the calls that other code made of a target, in the order of the target's example
    inputs.

    If the calls are equal in the next request, the target need not be traced again.
    """

    target: str
    calls: tuple[GivenCall, ...]

    @property
    def real(self) -> bool:
        """True if the tensors of all calls were real, not fake."""
        return all(call.real for call in self.calls)


@dataclass(frozen=True)
class CalledAgain:
    """Event: a target is not traced again, because other code called it with the arguments that the
    request had listed.

    ``sources`` says in words where each call was made.
    """

    request: int
    target: str
    sources: tuple[str, ...]
