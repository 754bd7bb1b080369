"""Messages about whether a changed text behaves as the original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

BehaviorOutcome = Literal["same", "differs", "unverified"]
"""Outcome of a comparison. ``same``: no case differs, and the cases reach all changed code.
``unverified``: no case differs, but that does not prove that the texts agree.
"""

FOLDER = "behavior"
"""Folder inside a process's scratch folder for its observations."""

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
"""Values of an input in a case. ``given`` keeps the probe's values. ``nan`` and ``infinite``
are mixed with normal values. ``range`` are integers beyond the probe's values. ``constant`` is near
a number in the code.
"""

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
"""Aspect in which two texts differ.

- ``outcome``: whether the call raises, and which exception.
- ``result``, ``aliasing``: the returned values, and whose memory they share.
- ``gradient``: gradients of inputs and parameters.
- ``input``, ``state``, ``state-aliasing``: changes of the arguments; of the module and globals; and
  of the memory that these share.
- ``stdout``, ``stderr``, ``warning``, ``log``: output.
- ``random``: the final state of the random number generators.
"""


Cases = tuple[tuple[int, ...], ...]
"""Case numbers, by probe."""


@dataclass(frozen=True)
class ComparedCase:
    """One call that both texts executed.

    ``inputs`` are in probe notation. ``training`` is the mode of the module; None if the target is
    not a module or keeps its mode. ``outcome`` belongs to the original. ``conditions`` names
    special conditions: dtypes, strides, gradients, parameters. ``aspects`` are the aspects in which
    the texts differ.
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

    ``exact``: every result was equal bit by bit. Otherwise results that differ are as close to a
    double-precision run as the original's. ``reason`` is a sentence: the first difference, or why
    the comparison is not verified; empty for "same". ``aspects`` are those in which any case
    differs.
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
    """Zero-based changed lines of the original that a case executed."""
    unreached: tuple[int, ...] = ()
    """Zero-based changed lines without execution, or with a side that no case took.
    """
    other_settings: bool = False
    """True if changed code has a branch that only other settings of the object would reach."""
    notes: tuple[str, ...] = ()
    """Differences that do not count, such as another memory layout."""


@dataclass(frozen=True)
class Judged:
    """Preliminary result of comparing observations.

    It is final if both tuples are empty. ``needs_again`` are cases that the original must execute a
    second time, ``needs_double`` cases that it must execute in double precision.
    """

    compared: Compared
    needs_again: Cases = ()
    needs_double: Cases = ()


@dataclass(frozen=True)
class Observe:
    """Instructions for a run of the part "cases" or "behavior".

    ``lines`` are zero-based lines that the other text does not have. ``cases`` are packed, one text
    per probe of the target; empty for a run that searches for cases. ``double``: execute them in
    double precision. ``only``: numbers of the cases to execute; empty for all.
    """

    seconds: float
    lines: tuple[int, ...]
    cases: tuple[str, ...] = ()
    double: bool = False
    backend: bool = False
    """Compile the target and compare it with eager calls, instead of observing it."""
    only: Cases = ()
    at_random: int = 0
    """Number of random cases to search for, and no others; 0 for the usual search."""
    last_probe: int = 0
    """Number of the last probe to use, and later ones that depend on no other probe.
    """
