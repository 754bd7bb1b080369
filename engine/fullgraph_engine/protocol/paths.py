"""Ways that a target can go besides the one that its probe leads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from .places import Range

PathStatus = Literal["traced", "failed", "late"]
"""Traced to the end; it raised, which says nothing of the program where values were chosen; not
tried, or not to the end, for want of time."""


@dataclass(frozen=True)
class PathValue:
    """A parameter of the target that gets another value: a flag or None, or else what ``notation``
    says as probes do."""

    name: str
    value: Union[bool, None] = None
    notation: str = ""

    @property
    def words(self) -> str:
        return f"if `{self.name}` is {self.notation or self.value}"


@dataclass(frozen=True)
class PathAnswer:
    """What eager code was answered when it first asked for a value at ``range``.

    ``means`` is what then holds, as a clause: ``y.sum() > 0`` is true.
    """

    range: Range
    value: Union[bool, int, float]
    means: str


@dataclass(frozen=True)
class TracePath:
    """What is another one than on the path that the probe leads to; nothing of it is that path.

    ``training`` is the mode of the module, where that matters.
    """

    training: Union[bool, None] = None
    values: tuple[PathValue, ...] = ()
    answers: tuple[PathAnswer, ...] = ()

    @property
    def words(self) -> str:
        """``in training mode, if `mask` is None, where `y.sum() > 0` is true``."""
        mode = [] if self.training is None else [mode_words(self.training)]
        answers = " and ".join(dict.fromkeys(answer.means for answer in self.answers))
        where = [f"where {answers}"] if answers else []
        return ", ".join([*mode, *(value.words for value in self.values), *where])


def mode_words(training: bool) -> str:
    """A mode of ``nn.Module`` (``training``) as a phrase."""
    return "in training mode" if training else "in evaluation mode"


@dataclass(frozen=True)
class PathReport:
    """How a target was traced along another path, which ``words`` tell. ``reason`` says why not to
    the end, as a clause."""

    words: str
    status: PathStatus
    reason: str = ""


@dataclass(frozen=True)
class TracedPaths:
    """What the further paths of a run came to, for the report of its target.

    ``narrowed``: identities of findings of the first path that are there only in its own mode,
    ``mode``.
    """

    reports: tuple[PathReport, ...] = ()
    narrowed: tuple[str, ...] = ()
    mode: Union[bool, None] = None
