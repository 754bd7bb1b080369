"""Alternative paths of a target, which its probe does not take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from .places import Range

PathStatus = Literal["traced", "failed", "late"]
"""Status of a path. ``traced``: to its end. ``failed``: it raised, which proves nothing if values
were chosen. ``late``: not traced to its end for lack of time.
"""


@dataclass(frozen=True)
class PathValue:
    """A parameter of the target with another value.

    ``value`` is a flag or None; any other value is in ``notation``, in probe notation.
    """

    name: str
    value: Union[bool, None] = None
    notation: str = ""

    @property
    def words(self) -> str:
        return f"if `{self.name}` is {self.notation or self.value}"


@dataclass(frozen=True)
class PathAnswer:
    """The value that eager code got at ``range``, when it first read a value there.

    ``means`` is the resulting condition, as a clause: ``y.sum() > 0`` is true.
    """

    range: Range
    value: Union[bool, int, float]
    means: str


@dataclass(frozen=True)
class TracePath:
    """The differences of a path from the path that the probe takes; without any, it is that path.

    ``training`` is the mode of the module, if it matters.
    """

    training: Union[bool, None] = None
    values: tuple[PathValue, ...] = ()
    answers: tuple[PathAnswer, ...] = ()

    @property
    def words(self) -> str:
        """Description: ``in training mode, if `mask` is None, where `y.sum() > 0` is true``."""
        mode = [] if self.training is None else [mode_words(self.training)]
        answers = " and ".join(dict.fromkeys(answer.means for answer in self.answers))
        where = [f"where {answers}"] if answers else []
        return ", ".join([*mode, *(value.words for value in self.values), *where])


def mode_words(training: bool) -> str:
    """Describe the mode of a module as a phrase."""
    return "in training mode" if training else "in evaluation mode"


@dataclass(frozen=True)
class PathReport:
    """The result of tracing a target along another path, which ``words`` describes.

    ``reason`` is a clause that says why it was not traced to its end.
    """

    words: str
    status: PathStatus
    reason: str = ""


@dataclass(frozen=True)
class TracedPaths:
    """The results of a run's alternative paths, for the report of its target.

    ``narrowed`` are identities of first-path findings that occur only in the first path's mode,
    ``mode``.
    """

    reports: tuple[PathReport, ...] = ()
    narrowed: tuple[str, ...] = ()
    mode: Union[bool, None] = None
