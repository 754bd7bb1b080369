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
class LineCompilation:
    """Wall times in seconds of compiling the operations of one line (zero-based) of the file.

    ``aot`` is for tracing by AOTAutograd, ``inductor`` for the lowering. Work on whole graphs, such
    as fusion and writing kernels, belongs to no line.
    """

    line: int
    aot: float
    inductor: float

    @property
    def seconds(self) -> float:
        return self.aot + self.inductor


@dataclass(frozen=True)
class RegionCompilation:
    """Wall times in seconds of compiling one graph.

    ``function`` and ``line`` (zero-based) are the frame from which Dynamo captured the graph. The
    seconds of Dynamo include all attempts to trace the frame. ``lines`` begin with the slowest.
    """

    function: str
    line: int
    dynamo: float
    aot: float
    inductor: float
    lines: tuple[LineCompilation, ...] = ()


@dataclass(frozen=True)
class Compilation:
    """Result of compiling a target; ``reason`` is a sentence if the status is "not-computed".

    ``processor_seconds`` is the processor time of tracing, compiling and calling the target once,
    with its backward pass; for the regions of a program, only of AOTAutograd and Inductor. Other
    programs on the machine hardly affect it.
    """

    compiler: CompilerCheck
    status: CompilationStatus = "compiled"
    regions: tuple[RegionCompilation, ...] = ()
    reason: str = ""
    processor_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Total wall time in seconds of all stages of all graphs."""
        return sum(one.dynamo + one.aot + one.inductor for one in self.regions)

    @property
    def slowest_line(self) -> LineCompilation | None:
        """The line whose operations take longest in one region; None if no line is known."""
        lines = (region.lines[0] for region in self.regions if region.lines)
        return max(lines, key=lambda one: one.seconds, default=None)
