"""Messages about a comparison of a changed text with the original: whether both do the same when
called with equal inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from .packing import unpack_items
from .regions import ProgramEnd

BehaviorOutcome = Literal["same", "differs", "unverified"]
"""Outcome of a comparison of two texts.

``same``: they agree in all cases (calls with chosen inputs), and the cases execute all changed
code. ``differs``: they do not agree in some case. ``unverified``: they agree in all cases, but the
cases do not execute all changed code, or the comparison was incomplete.
"""

CompilationMethod = Literal["lowered", "inductor"]
"""How a text is compiled before its calls are compared with eager calls.

``lowered``: AOTAutograd and Inductor compile the calls and their gradients, but no C++ code is
built; PyTorch executes the operators of the graphs. ``inductor``: Inductor's C++ code is executed.
"""

FOLDER = "behavior"
"""Name of the folder, inside the scratch folder of a process, in which the process records what it
observed of the calls."""

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
"""Kind of values that an input has in a case (a call with chosen inputs).

``given``: the values of the example call. ``nan``, ``infinite``: mixed with normal values.
``range``: integers beyond the example's values. ``constant``: near a number in the code.
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
    "files",
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
- ``files``: files that the call wrote, moved or removed.
- ``random``: the final state of the random number generators.
"""


Cases = tuple[tuple[int, ...], ...]
"""Indices, from 0, of some cases (calls with chosen inputs): one tuple for each example call of the
target."""


@dataclass(frozen=True)
class ComparedCase:
    """One call that both the original and the changed text executed with equal inputs, and whether
    they agree.

    ``inputs`` are as in a probe comment, such as ``f32[4, 16]``. ``values`` is the kind of the
    input values. ``training`` is the mode of the module; None if the target is not a module or
    keeps its mode. ``outcome`` says how the original's call ended. ``same``: the texts agree;
    ``exact``: bit by bit. ``conditions`` names special conditions: dtypes, strides, gradients,
    parameters. ``aspects`` are the aspects in which the texts differ. ``outside``: an
    argument has numbers outside of the range that the example call suggests, such as negative
    numbers if its example has none.
    """

    inputs: str
    values: Fill = "given"
    training: Union[bool, None] = None
    outcome: CaseOutcome = "returned"
    same: bool = True
    exact: bool = True
    conditions: str = ""
    aspects: tuple[Aspect, ...] = ()
    outside: bool = False


@dataclass(frozen=True)
class Compared:
    """Last event of a ``Compare`` request: whether the changed text does the same as the original.

    ``exact``: every result was equal bit by bit. Otherwise some results that count as equal differ
    by rounding: they are as close to a double-precision calculation as the original's results.
    ``reason`` is a sentence: the first difference, or why equality is not verified; empty for the
    outcome "same". ``aspects`` are those in which any case differs.
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
    """Zero-based changed lines of the original that a case (a call with chosen inputs) executed."""
    unreached: tuple[int, ...] = ()
    """Zero-based changed lines of the original that the cases (calls with chosen inputs) do not
    cover: no case executed the line, or its condition had the same outcome in all cases."""
    unreached_in_changed: tuple[int, ...] = ()
    """Zero-based changed lines of the changed text that the cases do not cover, as in
    ``unreached``."""
    equal_where_reached: bool = False
    """True if the outcome is "unverified" only because of lines in ``unreached`` or
    ``unreached_in_changed``."""
    other_settings: bool = False
    """True if changed code has a branch that runs only if the called object has other attribute
    values than in the cases."""
    notes: tuple[str, ...] = ()
    """Sentences on differences that do not count as a change of behavior, such as another memory
    layout."""
    cpu: Union[float, None] = None
    """Processor time in seconds that the processes of the request used; None if the system does not
    measure it."""
    packed_cases: tuple[str, ...] = ()
    """The calls with chosen inputs, one text per example call of the target. A later ``Compare``
    request can use them."""
    target: str = ""
    """Name of the compared function or module; empty if a whole program was compared."""


@dataclass(frozen=True)
class ObservedValue:
    """A value that a program computed, such as the result of a call of compiled code.

    ``path`` names it, such as ``result 3 of Net``. ``words`` describe it without its numbers.
    ``digest`` identifies the elements of a tensor, or is empty. ``sample`` has some of the
    elements, as floats, to compare values that differ in rounding. ``call`` identifies the function
    and the arguments of a further call, which the program itself does not make; it is empty for
    other values. If a further call raises, its only value has the aspect ``outcome``, and its words
    are the type of the exception.
    """

    aspect: Aspect
    path: str
    words: str
    digest: str = ""
    sample: tuple[float, ...] = ()
    call: str = ""


@dataclass(frozen=True)
class ProgramObserved:
    """Event: the values that a program computed, and what its compiled functions did in further
    calls with other sizes and numbers.

    ``packed`` are the values, see :meth:`unpack_values`. ``further`` is the number of further
    calls. ``difference`` says how a further call differs from the same call in eager mode; empty if
    all agree. ``compile_seconds`` is the processor time in seconds of AOTAutograd and Inductor for
    the program's own calls. ``graphs``, ``breaks`` and ``recompiles`` count what Dynamo did in all
    files of the program, further calls included; a graph break at one place counts once. ``how``
    says how the program ended, and ``error`` is the type and message of the exception that ended
    it.
    """

    request: int
    packed: str = ""
    further: int = 0
    difference: str = ""
    compile_seconds: float = 0.0
    graphs: int = 0
    breaks: int = 0
    recompiles: int = 0
    how: ProgramEnd = "finished"
    error: str = ""

    @property
    def stopped(self) -> bool:
        """Whether the engine ended the program early, so that the number of recorded calls says
        nothing about the program."""
        return self.how in ("quiet", "time", "killed")

    def unpack_values(self) -> tuple[ObservedValue, ...]:
        """Decode the values from ``packed``; empty if the text is invalid."""
        return unpack_items(ObservedValue, self.packed)


@dataclass(frozen=True)
class Judged:
    """Preliminary result of comparing what two texts did in their recorded calls.

    It is final if ``needs_again`` and ``needs_double`` are empty. ``needs_again`` are cases (calls
    with chosen inputs) that the original must execute a second time, to check that it is
    deterministic; ``needs_double`` cases that it must execute in double precision.
    """

    compared: Compared
    needs_again: Cases = ()
    needs_double: Cases = ()


@dataclass(frozen=True)
class Observe:
    """Instructions for a run that chooses inputs (part "cases"), or that calls the target of one
    text with them (part "behavior").

    ``seconds`` is the time limit. ``lines`` are zero-based lines of the text that the other text
    does not have. ``cases`` are packed calls with chosen inputs, one text per example call of the
    target; empty for a run that chooses inputs. ``double``: execute them in double precision.
    ``only``: numbers of the cases to execute; empty for all.
    """

    seconds: float
    lines: tuple[int, ...]
    cases: tuple[str, ...] = ()
    double: bool = False
    compiled_by: Union[CompilationMethod, None] = None
    """How the target is compiled, to compare its results with eager calls; None for a run that does
    not compile it."""
    only: Cases = ()
    at_random: int = 0
    """Number of random inputs to use; 0 to choose inputs systematically."""
    last_probe: int = 0
    """Number (from 0) of the last example inputs of the target that must be used. Later ones are
    used only if they need not be requested by an earlier run."""
