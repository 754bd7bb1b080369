"""Alternative execution paths of a target (a function or module class), which a call with its
example inputs does not take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from .places import Range

PathStatus = Literal["traced", "failed", "late"]
"""Result of tracing an execution path.

``traced``: it was traced to its end. ``failed``: it raised, which proves nothing if the engine
chose values. ``late``: the time ran out before its end.
"""


@dataclass(frozen=True)
class PathValue:
    """A parameter of the target with its value on an alternative execution path.

    If ``notation`` is empty, ``value`` is the parameter's value: True, False or None. Any other
    value is in ``notation``, as in a probe comment (``f32[4, 16]``).
    """

    name: str
    value: Union[bool, None] = None
    notation: str = ""

    @property
    def words(self) -> str:
        return f"if `{self.name}` is {self.notation or self.value}"


@dataclass(frozen=True)
class PathAnswer:
    """A value that code gets on an alternative execution path when it reads one from a fake tensor,
    as by ``item()``.

    ``range`` is the source range of the read; only the first read there gets the value. ``means``
    is the resulting condition, as a clause: ``y.sum() > 0`` is true.
    """

    range: Range
    value: Union[bool, int, float]
    means: str


@dataclass(frozen=True)
class TracePath:
    """An execution path of a target, as differences from the path that its example inputs take.

    All fields have their defaults for the path of the example inputs itself. ``training`` is the
    mode of the module, None if the mode does not matter.
    """

    training: Union[bool, None] = None
    values: tuple[PathValue, ...] = ()
    answers: tuple[PathAnswer, ...] = ()

    @property
    def words(self) -> str:
        """Description of the differences: ``in training mode, if `mask` is None, where `y.sum() >
        0` is true``."""
        mode = [] if self.training is None else [mode_words(self.training)]
        answers = " and ".join(dict.fromkeys(answer.means for answer in self.answers))
        where = [f"where {answers}"] if answers else []
        return ", ".join([*mode, *(value.words for value in self.values), *where])


def mode_words(training: bool) -> str:
    """Describe the mode of a module as a phrase, such as ``in training mode``."""
    return "in training mode" if training else "in evaluation mode"


@dataclass(frozen=True)
class PathReport:
    """The result of tracing a target on an execution path that its example inputs do not take.

    ``words`` describes the path. ``reason`` is a clause that says why the path was not traced to
    its end.
    """

    words: str
    status: PathStatus
    reason: str = ""


@dataclass(frozen=True)
class TracedPaths:
    """The results of tracing a target's alternative execution paths, which complete its report.

    ``mode`` is the mode of the module in its example call: True for training mode, None if unknown.
    ``narrowed`` are the identities of findings that occur in that mode but not in the other one.
    """

    reports: tuple[PathReport, ...] = ()
    narrowed: tuple[str, ...] = ()
    mode: Union[bool, None] = None
