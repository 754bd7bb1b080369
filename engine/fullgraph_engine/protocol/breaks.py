"""Causes of graph breaks, and their cost in one call of a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CauseKind = Literal["place", "call", "module", "library", "hook"]
"""Location of the instruction that Dynamo could not trace.

- ``place``: in the analyzed file.
- ``call``: in the analyzed file, as a call of a function that Dynamo never traces.
- ``module``: in another file of the project.
- ``library``: in an installed library.
- ``hook``: in a hook or wrapper that a library puts around modules (DDP, FSDP, accelerate).
"""


@dataclass(frozen=True)
class BreakCause:
    """The code that must change to remove a break; breaks with equal ``identity`` share one cause.

    The identity depends on the code of the break, and on the text and function of its instruction,
    not on line numbers. It stays the same when other code changes, and in every file that reaches
    the same function.

    ``function`` is the called function, or the function of the instruction. ``path`` and ``line``
    (zero-based) are its place; for a wrapper, its innermost line. ``path`` is empty if the finding
    has the same place. ``entry`` is the function of another file that the analyzed file calls.
    """

    identity: str
    kind: CauseKind
    function: str
    path: str = ""
    line: int = 0
    entry: str = ""

    @property
    def own(self) -> bool:
        """True for code of the user, False for code of a library."""
        return self.kind not in ("library", "hook")


@dataclass(frozen=True)
class GraphCut:
    """A compiled function that a break splits.

    ``before`` and ``after`` count the operators of the graphs on both sides. ``runs`` counts how
    often the call reached the break in this function.
    """

    function: str
    before: int
    after: int
    runs: int = 1


@dataclass(frozen=True)
class BreakCost:
    """The cost of a break in one call of ``target``.

    ``met`` counts how often the call reached the break. Eager code is not recorded, so ``met`` is a
    lower bound if ``eager`` names functions, unless that code reads values of fake tensors.
    """

    target: str
    met: int = 1
    cuts: tuple[GraphCut, ...] = ()
    graphs: int = 0
    """Number of runs of the neighboring graphs; each graph counts once per run."""
    ops: int = 0
    """Number of operators in the runs that ``graphs`` counts."""
    eager: tuple[str, ...] = ()
    """Functions that Dynamo does not compile because of the break, or not after it."""
    dropped: int = 0
    """Number of operators that Dynamo traced in these functions before it gave them up."""
    sync: str = ""
    """Operation that waits for the device, such as ``Tensor.item()``; empty without one.
    """
    syncs: int = 0
    """Number of such waits."""
    resumes: int = 0
    """Number of functions compiled to continue after the break."""
    guards: int = 0
    """Number of guards of the functions that ``resumes`` counts."""

    @property
    def separated(self) -> int:
        """Operators on the smaller side of each cut, which could be in the larger graph."""
        return sum(min(cut.before, cut.after) * cut.runs for cut in self.cuts)

    @property
    def worth_fixing(self) -> bool:
        """True if the break does more than separate a single operator."""
        return bool(self.syncs or self.eager) or self.separated > 1

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Sort key, highest for the most expensive break: device waits, then operators outside the
        largest graph, then eager functions, then how often the call reached it.
        """
        return (self.syncs, self.separated + self.dropped, len(self.eager), self.met)
