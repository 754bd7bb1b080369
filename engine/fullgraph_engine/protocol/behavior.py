"""Messages about a comparison of a changed text with the original: whether both behave equally."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

BehaviorOutcome = Literal["same", "differs", "unverified"]
"""Outcome of a comparison. ``same``: the texts agree in all cases (calls with chosen inputs), and
the cases reach all changed code. ``unverified``: the texts agree in all cases, but the cases do not
prove that the texts agree.
"""

FOLDER = "behavior"
"""Name of the folder, inside a process's scratch folder, where the process stores what it observed
of the calls."""

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
"""Kind of values that an input has in a case (a call with chosen inputs). ``given`` keeps the
values of the example call. ``nan`` and ``infinite`` are mixed with normal values. ``range`` are
integers beyond the example's values. ``constant`` is near a number in the code.
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
"""Aspect in which two texts differ when they are called with the same inputs.

- ``outcome``: whether the call raises, and which exception.
- ``result``, ``aliasing``: the returned values, and whose memory they share.
- ``gradient``: gradients of inputs and parameters.
- ``input``: changes of the arguments by the call.
- ``state``: changes of the module and of globals.
- ``state-aliasing``: which arguments, module tensors and globals share memory afterwards.
- ``stdout``, ``stderr``, ``warning``, ``log``: output.
- ``random``: the final state of the random number generators.
"""


Cases = tuple[tuple[int, ...], ...]
"""Numbers of cases (calls with chosen inputs), one tuple for each example call of the target."""


@dataclass(frozen=True)
class ComparedCase:
    """One call that both the original and the changed text executed, with the result of comparing
    them.

    ``inputs`` are in probe notation, such as ``f32[4, 16]``. ``values`` is the kind of the input
    values. ``training`` is the mode of the module; None if the target is not a module or keeps its
    mode. ``outcome`` says how the original's call ended. ``same``: the texts agree; ``exact``: bit
    by bit. ``conditions`` names special conditions: dtypes, strides, gradients, parameters.
    ``aspects`` are the aspects in which the texts differ.
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
    """Last event of a ``Compare`` request: whether the changed text behaves as the original.

    ``exact``: every result was equal bit by bit. Otherwise the results that differ are as close to
    a double-precision run as the original's. ``reason`` is a sentence: the first difference, or why
    the comparison is not verified; empty for the outcome "same". ``aspects`` are those in which any
    case differs.
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
    """Zero-based changed lines that no case executed, or with a condition that had the same outcome
    in all cases."""
    other_settings: bool = False
    """True if changed code has a branch that runs only with other attribute values of the called
    object."""
    notes: tuple[str, ...] = ()
    """Sentences on differences that do not count as a change of behavior, such as another memory
    layout."""
    cpu: Union[float, None] = None
    """Processor time in seconds that the processes of the request used; None if the system does not
    measure it."""


@dataclass(frozen=True)
class Judged:
    """Preliminary result of comparing what the calls of both texts did.

    It is final if ``needs_again`` and ``needs_double`` are empty. ``needs_again`` are cases that
    the original must execute a second time, ``needs_double`` cases that it must execute in double
    precision.
    """

    compared: Compared
    needs_again: Cases = ()
    needs_double: Cases = ()


@dataclass(frozen=True)
class Observe:
    """Instructions for a run that chooses inputs (part "cases") or executes a text with them (part
    "behavior").

    ``seconds`` is the time limit. ``lines`` are zero-based lines of the text that the other text
    does not have. ``cases`` are packed calls with chosen inputs, one text per example call of the
    target; empty for a run that searches for cases. ``double``: execute them in double precision.
    ``only``: numbers of the cases to execute; empty for all.
    """

    seconds: float
    lines: tuple[int, ...]
    cases: tuple[str, ...] = ()
    double: bool = False
    backend: bool = False
    """True to compile the target with Inductor and compare its results with eager calls."""
    only: Cases = ()
    at_random: int = 0
    """Number of random cases to search for instead of the usual search; 0 for the usual search."""
    last_probe: int = 0
    """Number of the last example call (from 0) to use. Later ones are used only if they do not
    depend on another."""
