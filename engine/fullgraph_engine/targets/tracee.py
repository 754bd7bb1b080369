"""The target, probe and settings that one run traces."""

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
    """A target of an executed text, to be called as a probe states.

    ``path`` and ``text`` belong to the file; ``namespace`` is the executed module's.
    """

    target: Target
    probe: Probe
    namespace: dict[str, Any] = field(repr=False)
    path: str
    text: str = field(repr=False)
    mode: Mode = "auto"
    found: tuple[FoundProbe, ...] = ()
    """Probes found for targets of the file in other runs."""
    tentative: bool = False
    """True for a tentative text, whose searches are short."""
    alter: Callable[[Call], Call] | None = field(default=None, repr=False)
    """Changes a call from what its probe states."""

    @property
    def fake(self) -> bool:
        """Whether its tensors lack data, unless the run finds that they need data."""
        return self.mode != "real"

    def call(self) -> Call:
        """Make the callable and its inputs, with the same random numbers each time. Runs user
        code, whose exceptions propagate.

        Raises:
            ProbeError: the probe itself does not fit, in one sentence for the user.
        """
        searched.remember_found(self.found)
        searched.tentative = self.tentative
        rng.seed_generators()
        call = self.probe.build(self.namespace)
        return call if self.alter is None else self.alter(call)

    def find_replacement(self, *, built: bool) -> str:
        """Return a comment with which the target runs, if this probe is a comment and raises.

        Empty if the search fails. Runs user code. ``built``: the call was made.
        """
        written = self.probe.written
        if written is None or self.tentative:
            return ""
        return searched.find_replacement(self.target, written.notation, self.namespace, built)
