"""Shorter inputs for code that loops over a dimension, for example over the steps of a scan.

Dynamo unrolls loops, and the trace of a long sequence may reach the time limit. A short sequence
has the same findings.
"""

from __future__ import annotations

from collections.abc import Callable

from .candidate import InputCandidate
from .trial import TrialOutcome

_MOST_CALLS = 800
"""Number of torch functions that a target may call before its inputs are made shorter, such as a
sequence that it loops over."""
_SHORT = (4, 8)
"""Sizes to try for a dimension that the code loops over, smallest first."""
_LESS = 0.6
"""Maximum ratio of the number of torch calls with a shorter input to the number with the full one,
if the code loops over the dimension."""


def shorten_loops(
    candidate: InputCandidate, calls: int, run: Callable[[InputCandidate], TrialOutcome]
) -> tuple[InputCandidate, str]:
    """Return arguments with smaller sizes where the code loops over a dimension, and a phrase on
    what was shortened.

    ``calls`` is the number of torch calls with the original arguments, and ``run`` tries others.
    Without such a loop, the arguments are unchanged and the phrase is empty.
    """
    words: list[str] = []
    for path, _, shape in candidate.input_tensors():
        sizes = list(shape)
        for dim, size in enumerate(shape):
            for short in _SHORT if calls > _MOST_CALLS else ():
                if short >= size:
                    break
                shorter = candidate.with_shape(path, (*sizes[:dim], short, *sizes[dim + 1 :]))
                outcome = run(shorter)
                if outcome.phase == 2 and outcome.calls <= _LESS * calls:
                    candidate, calls, sizes[dim] = shorter, outcome.calls, short
                    words.append(f"`{path[1]}.shape[{dim}]` is {short} instead of {size:,}")
                    break
    return candidate, " and ".join(words)
