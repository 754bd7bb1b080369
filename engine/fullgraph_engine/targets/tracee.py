"""The target, inputs and settings that one run traces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..protocol import FoundProbe, Mode
from . import rng, searched
from .discovery import Target
from .probes import Call, Probe


@dataclass(frozen=True)
class Tracee:
    """A target of an executed text, with the probe that states how to call it.

    ``path`` and ``text`` belong to the file; ``namespace`` is the executed module's.
    """

    target: Target
    probe: Probe
    namespace: dict[str, Any] = field(repr=False)
    path: str
    text: str = field(repr=False)
    mode: Mode = "auto"
    found: tuple[FoundProbe, ...] = ()
    """Probe comments that searches found for targets of the file in other runs."""
    tentative: bool = False
    """True for a tentative text, for which searches are short."""
    alter: Callable[[Call], Call] | None = field(default=None, repr=False)
    """Function that changes the call, for example to take another execution path; or None."""

    @property
    def fake(self) -> bool:
        """Whether the run begins with fake tensors, which lack data."""
        return self.mode != "real"

    def call(self) -> Call:
        """Make the callable and its inputs, with the same random numbers each time.

        Runs user code, whose exceptions propagate.

        Raises:
            ProbeError: the inputs do not fit the target; the message is one sentence for the user.
        """
        searched.remember_found(self.found)
        searched.tentative = self.tentative
        rng.seed_generators()
        call = self.probe.build(self.namespace)
        return call if self.alter is None else self.alter(call)

    def find_replacement(self, *, built: bool) -> str:
        """Return a comment with which the target runs, if its current probe comment raises.

        Empty if the search finds none. Runs user code. ``built``: the call was made, so the comment
        raised only when the target ran.
        """
        written = self.probe.written
        if written is None or self.tentative:
            return ""
        return searched.find_replacement(self.target, written.notation, self.namespace, built)
