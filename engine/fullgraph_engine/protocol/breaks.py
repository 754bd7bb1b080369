"""Causes of graph breaks, and the cost of a break in one call of a target (a traced function or
module)."""

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
    """The code to change in order to remove a graph break; breaks with equal ``identity`` have the
    same cause.

    The identity depends on the code of the break (``GB0059``), and on the source text and function
    of the instruction that breaks, not on line numbers. It stays equal when other code changes, and
    it is equal in every file whose calls reach the instruction.

    ``function`` is the function that Dynamo cannot call, or the function that contains the
    instruction. ``path`` and ``line`` (zero-based) locate the instruction; for a wrapper, the
    innermost line in it. ``path`` is empty if the finding is shown there already. ``entry`` is the
    function of another file that the analyzed file calls and that leads to the break.
    """

    identity: str
    kind: CauseKind
    function: str
    path: str = ""
    line: int = 0
    entry: str = ""

    @property
    def own(self) -> bool:
        """True if the cause is in code of the user's project, False for code of a library."""
        return self.kind not in ("library", "hook")


@dataclass(frozen=True)
class GraphCut:
    """A compiled function that a graph break splits into two graphs.

    ``before`` and ``after`` are the numbers of operators in the graphs before and after the break.
    ``runs`` is the number of times that the call reached the break in this function.
    """

    function: str
    before: int
    after: int
    runs: int = 1


@dataclass(frozen=True)
class BreakCost:
    """The cost of a graph break in one call of ``target`` (a traced function or module).

    ``met`` is the number of times that the call reached the break. Functions in ``eager`` run
    without Dynamo, and breaks that they would reach again are not counted.
    """

    target: str
    met: int = 1
    cuts: tuple[GraphCut, ...] = ()
    graphs: int = 0
    """Number of runs of the graphs directly before and after the break; a graph that runs twice
    counts twice."""
    ops: int = 0
    """Number of operators that ran in the graphs directly before and after the break."""
    eager: tuple[str, ...] = ()
    """Functions that run in Python without Dynamo because of the break, as a whole or after the
    break."""
    dropped: int = 0
    """Number of operators that Dynamo traced in the functions of ``eager`` and then discarded."""
    sync: str = ""
    """Operation at the break that waits for the device, such as ``Tensor.item()``; empty without
    one."""
    syncs: int = 0
    """Number of times that the operation in ``sync`` waits for the device in one call of the
    target."""
    sync_free: bool = False
    """True if the code of the break cannot wait for the device. If it is False and ``sync`` is
    empty, untraced code may still wait."""
    resumes: int = 0
    """Number of functions that Dynamo generated and compiled to continue after the break."""
    guards: int = 0
    """Number of guards that protect the functions compiled to continue after the break."""

    @property
    def separated(self) -> int:
        """Number of operators that a fix would move to a larger graph: for each split function, the
        operators in the smaller of its two graphs."""
        return sum(min(cut.before, cut.after) * cut.runs for cut in self.cuts)

    @property
    def worth_fixing(self) -> bool:
        """True if the break waits for the device, makes functions run without Dynamo, or separates
        more than one operator."""
        return bool(self.syncs or self.eager) or self.separated > 1

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Sort key by cost, highest for the most expensive break.

        It compares the number of device waits first. Then it compares the operators that a fix
        would move to a larger graph or keep from being discarded, the functions that run without
        Dynamo, and how often the call reached the break.
        """
        return (self.syncs, self.separated + self.dropped, len(self.eager), self.met)
