"""What crosses the pipe about whether a changed text behaves as the original does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

BehaviorOutcome = Literal["same", "differs", "unverified"]
"""``same``: in all cases that were tried, which reached all that the texts do not have in common.
``unverified``: no difference was found, but it is not known that there is none."""

FOLDER = "behavior"
"""In the scratch folder of a process: what it has observed."""

Fill = Literal[
    "given",
    "random",
    "positive",
    "negative",
    "zero",
    "equal",
    "nan",
    "infinite",
    "large",
    "small",
    "range",
    "constant",
]
"""What the values of a case are. ``given`` are those of the probe; ``nan`` and ``infinite`` are
among others; ``range`` are integers beyond those of the probe, ``constant`` is near a number that
the code compares with."""

CaseOutcome = Literal["returned", "raised"]

Aspect = Literal[
    "outcome",
    "result",
    "aliasing",
    "gradient",
    "input",
    "state",
    "state-aliasing",
    "stdout",
    "stderr",
    "warning",
    "log",
    "random",
]
"""In what two texts differ: whether and what they raise; what they return; whose memory that is;
gradients; what becomes of the arguments, of the module and of globals, and what of that shares
memory; what is printed, warned and logged; how the generators of random numbers are left."""


Cases = tuple[tuple[int, ...], ...]
"""Numbers of cases, by probe."""


@dataclass(frozen=True)
class ComparedCase:
    """One call that both texts were given. ``inputs`` are in probe notation; ``training`` is the
    mode of the module, None if the target is none or it was left as it was built.

    ``outcome`` is the original's. ``conditions`` say what else is special: other dtypes, strides,
    gradients, parameters. ``aspects`` are those in which it differs.
    """

    inputs: str
    values: Fill = "given"
    training: Union[bool, None] = None
    outcome: CaseOutcome = "returned"
    same: bool = True
    exact: bool = True
    conditions: str = ""
    aspects: tuple[Aspect, ...] = ()


@dataclass(frozen=True)
class Compared:
    """Last event of a ``Compare``.

    ``exact``: every result was equal bit by bit; else those that were not are as near to a run in
    double precision as the original's. ``reason`` is a sentence: what differs and where, or why it
    could not be verified; empty for "same". ``aspects`` is all in which any case differs.
    """

    request: int
    outcome: BehaviorOutcome
    exact: bool = False
    cases: tuple[ComparedCase, ...] = ()
    reason: str = ""
    seconds: float = 0.0
    cancelled: bool = False
    aspects: tuple[Aspect, ...] = ()
    reached: tuple[int, ...] = ()
    """Zero-based lines of the original that are changed and that a case has executed."""
    unreached: tuple[int, ...] = ()
    """Those that none has, or of which one side of a condition was not taken."""
    other_settings: bool = False
    """A line that is changed has a condition that settings of the object decide, and another side
    than the one that these lead to."""
    notes: tuple[str, ...] = ()
    """Differences that are none of behavior, such as another memory layout."""


@dataclass(frozen=True)
class Judged:
    """What follows from the observations of two texts, which is the last word where nothing else is
    needed: the original a second time, or in double precision, for some of the cases."""

    compared: Compared
    needs_again: Cases = ()
    needs_double: Cases = ()


@dataclass(frozen=True)
class Observe:
    """What a run of the part "cases" or "behavior" is to do.

    ``lines`` are zero-based: those of the text that the other one does not have. ``cases`` are
    packed, of each probe of the target, and empty for a run that looks for some. ``double``: they
    are executed in double precision. ``only``: the numbers of those that are executed; empty for
    all.
    """

    seconds: float
    lines: tuple[int, ...]
    cases: tuple[str, ...] = ()
    double: bool = False
    backend: bool = False
    """Compile the target and compare with the plain call, in place of observing it."""
    only: Cases = ()
    at_random: int = 0
    """Look for so many cases at random, and no others."""
    last_probe: int = 0
    """The target is called as its probes up to this number say, and as all say that do not wait for
    another one."""
