"""Results of compiling a target with AOTAutograd and Inductor after its trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CompilerCheck = Literal["off", "aot", "inductor"]
"""Compiler that the graphs of each target are compiled with after its trace.

``aot``: AOTAutograd, which makes the forward and backward graphs. ``inductor``: also Inductor's
lowering to kernels, without building their code.
"""

CompilationStatus = Literal["compiled", "failed", "not-computed"]
"""Outcome of compiling a target: every graph was compiled, a graph was not compiled because of an
error, or the outcome is unknown because the compilation did not end."""


@dataclass(frozen=True)
class RegionCompilation:
    """Wall times in seconds of compiling one graph.

    ``function`` and ``line`` (zero-based) are the frame from which Dynamo captured the graph. The
    seconds of Dynamo include all attempts to trace the frame.
    """

    function: str
    line: int
    dynamo: float
    aot: float
    inductor: float


@dataclass(frozen=True)
class Compilation:
    """Result of compiling a target; ``reason`` is a sentence if the status is "not-computed"."""

    compiler: CompilerCheck
    status: CompilationStatus = "compiled"
    regions: tuple[RegionCompilation, ...] = ()
    reason: str = ""

    @property
    def seconds(self) -> float:
        """Total wall time in seconds of all stages of all graphs."""
        return sum(one.dynamo + one.aot + one.inductor for one in self.regions)
