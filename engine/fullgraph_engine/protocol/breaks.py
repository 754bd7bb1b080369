"""What a graph break comes from, and what it costs in one call of its target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CauseKind = Literal["place", "call", "module", "library", "hook"]
"""Where the instruction is that Dynamo could not trace: in the analyzed file itself; there too, but
it calls a function that Dynamo traces nowhere; in another file of the project; in an installed
library; in a hook or wrapper that a library puts around modules (DDP, FSDP, accelerate)."""


@dataclass(frozen=True)
class BreakCause:
    """What has to change for a break to go. Breaks with one ``identity`` have one cause.

    The identity depends on the code of the break and on the text and the function of its
    instruction, and not on line numbers: it is the same after an edit of something else, and in
    every file that is led to the same function.

    ``function`` is the function that is called, or in which the instruction is. ``path`` and
    ``line``, zero-based, are where it is, of a wrapper its own innermost line; the path is empty
    where it is the place of the finding.
    ``entry`` is the function of another file that the analyzed one calls to get there.
    """

    identity: str
    kind: CauseKind
    function: str
    path: str = ""
    line: int = 0
    entry: str = ""

    @property
    def own(self) -> bool:
        """Whether it is code of the user, and not of a library."""
        return self.kind not in ("library", "hook")


@dataclass(frozen=True)
class GraphCut:
    """A compiled function that a break divides: the operators of the graph before it, and of the
    one behind it. ``runs`` says how often the function came to it in the call."""

    function: str
    before: int
    after: int
    runs: int = 1


@dataclass(frozen=True)
class BreakCost:
    """What a break costs in one call of ``target``, as it was recorded.

    ``met`` is how often the call came to it. What runs in eager mode is not recorded: where
    ``eager`` names functions that are left to it, ``met`` is a lower bound, unless values of fake
    tensors were asked for there.
    """

    target: str
    met: int = 1
    cuts: tuple[GraphCut, ...] = ()
    graphs: int = 0
    """Runs of the graphs next to it, each graph counted once, however often it is next to it."""
    ops: int = 0
    """Operators in these runs."""
    eager: tuple[str, ...] = ()
    """Functions that Dynamo does not compile because of it, or not behind it."""
    dropped: int = 0
    """Operators that Dynamo had traced of these functions when it gave them up."""
    sync: str = ""
    """What waits for the device there: ``Tensor.item()``; empty if nothing does."""
    syncs: int = 0
    """How often."""
    resumes: int = 0
    """Functions that were compiled to go on behind it."""
    guards: int = 0
    """Their guards."""

    @property
    def separated(self) -> int:
        """Operators on the smaller side of each cut: as many as could be in the larger graph."""
        return sum(min(cut.before, cut.after) * cut.runs for cut in self.cuts)

    @property
    def worth_fixing(self) -> bool:
        """Whether it does more than to keep a single operator apart."""
        return bool(self.syncs or self.eager) or self.separated > 1

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """The costliest has the highest: first what waits for the device, then what is not
        compiled or fused, then how often."""
        return (self.syncs, self.separated + self.dropped, len(self.eager), self.met)
