"""The target, inputs and settings that one run (a process that traces) uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..protocol import FoundProbe, Mode, UncalledTarget
from . import enclosing, rng, searched
from .discovery import Target
from .probes import Call, Probe


@dataclass(frozen=True)
class Tracee:
    """A target of an executed file (a function or module class), with the example inputs to call it
    with.

    ``path`` and ``text`` belong to the file; ``namespace`` has the globals of the executed file.
    """

    target: Target
    probe: Probe
    namespace: dict[str, Any] = field(repr=False)
    path: str
    text: str = field(repr=False)
    mode: Mode = "auto"
    found: tuple[FoundProbe, ...] = ()
    """Inputs that searches in other runs found for targets of the file, as texts of probe
    comments."""
    uncalled: UncalledTarget | None = None
    """Set if the callers of the target, executed in another process, did not call it; else None."""
    tentative: bool = False
    """True for a tentative text (an edit that the engine only tries out), for which searches are
    short."""
    search_seconds: float | None = None
    """Maximum processor seconds of the search for inputs; None for the default."""
    alter: Callable[[Call], Call] | None = field(default=None, repr=False)
    """Function that changes the call before it is traced, for example to take another execution
    path; None for no change."""

    @property
    def fake(self) -> bool:
        """Whether the trace begins with fake tensors, which lack data."""
        return self.mode != "real"

    def call(self) -> Call:
        """Make the callable and its inputs, with the same random numbers each time.

        Runs user code, whose exceptions propagate.

        Raises:
            ProbeError: the inputs do not fit the target; the message is one sentence for the user.
        """
        searched.remember_found(self.found)
        if self.uncalled is not None:
            enclosing.remember_uncalled(self.uncalled)
        searched.tentative, searched.seconds = self.tentative, self.search_seconds
        rng.seed_generators()
        call = self.probe.build(self.namespace)
        return call if self.alter is None else self.alter(call)

    def find_replacement(self, *, built: bool) -> str:
        """Return inputs with which the target runs, if it raises with the inputs of its probe
        comment.

        The result is the text of a probe comment; empty if the search finds none. Runs user code.
        ``built``: the call was built, so that only the target's own code raised.
        """
        written = self.probe.written
        if written is None or self.tentative:
            return ""
        return searched.find_replacement(self.target, written.notation, self.namespace, built)
