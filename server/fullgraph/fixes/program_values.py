"""Compare the values that two versions of a program computed."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Sequence

from fullgraph_engine.protocol import Aspect, Compared, ObservedValue

_TOLERANCES = {"f64": 1e-7, "c128": 1e-7, "f32": 1e-4, "c64": 1e-4, "f16": 2e-2, "bf16": 5e-2}
"""Relative differences that rounding may cause until the end of a program, by dtype."""
_LEAST_SHARE = 0.01
"""Fraction of the largest gradient in a call. Gradients below this fraction may consist of rounding
errors only, for example the gradient of the bias of the keys in attention.
"""
_DTYPE = re.compile(r"\b(f64|c128|f32|c64|f16|bf16)\b|\bfloat\b")
_REGION = re.compile(r"\bresult \d+ of [^\[]+?(?=[\[.]|$)")


def compare_values(
    before: Sequence[ObservedValue],
    after: Sequence[ObservedValue],
    lost: Collection[Aspect],
    *,
    ended_early: bool = False,
    stopped: bool = False,
) -> Compared:
    """Compare the values of the original program with the values of the rewritten program.

    Results and gradients are compared in the order of the calls. State is compared by name, if both
    programs have it. Differences in the aspects ``lost`` are ignored; if ``lost``
    includes gradients, gradients of both programs are compared. ``ended_early`` is true if an
    exception of Dynamo ended the original program: only the values up to there are compared.
    ``stopped`` is true if the engine ended one of the programs: only calls that both made are
    compared. The outcome is "unverified" if the programs did not compute comparable values.
    """
    exact = True
    count = 0
    aspects: tuple[Aspect, ...] = ("result", "gradient")
    for aspect in aspects:
        old, new = (
            [one for one in side if one.aspect == aspect and not one.call]
            for side in (before, after)
        )
        if aspect in lost and aspect == "gradient":
            shared = {one.path for one in old if one.digest} & {
                one.path for one in new if one.digest
            }
            old, new = ([one for one in side if one.path in shared] for side in (old, new))
        if ended_early:
            new = new[: len(old)]
        if stopped:
            shorter = min(len(old), len(new))
            old, new = old[:shorter], new[:shorter]
        if len(old) != len(new):
            words = f"Calls in the changed program compute {len(new)} values instead of {len(old)}"
            reason = f"{words}, so its {aspect}s cannot be compared."
            return Compared(0, "unverified", reason=reason)
        scales = _scales_of_calls(old) if aspect == "gradient" else {}
        for one, other in zip(old, new, strict=True):
            least = _LEAST_SHARE * scales.get(_call_of(one), 0.0)
            difference = _difference(one, other, aspect in lost, least)
            if difference is None:
                return Compared(0, "differs", aspects=(aspect,), reason=_words(one, other))
            exact, count = exact and not difference, count + 1
    if "state" not in lost and not (ended_early or stopped):
        known = {one.path: one for one in after if one.aspect == "state"}
        for one in before:
            found = known.get(one.path) if one.aspect == "state" else None
            if found is None:
                continue
            difference = _difference(one, found)
            if difference is None:
                return Compared(0, "differs", aspects=("state",), reason=_words(one, found))
            exact, count = exact and not difference, count + 1
    further = _compare_further_calls(before, after, "result" in lost)
    if isinstance(further, str):
        return Compared(0, "differs", aspects=("result",), reason=further)
    exact = exact and further
    if not count:
        return Compared(0, "unverified", reason="The program computes no values to compare.")
    return Compared(0, "same", exact)


def _compare_further_calls(
    before: Sequence[ObservedValue], after: Sequence[ObservedValue], only_numbers: bool
) -> bool | str:
    """Compare the results of the further calls that both programs made with equal arguments.

    Return whether they are equal without rounding, or a sentence about the first difference. Calls
    that raise in the original program are left out. ``only_numbers``: a number equals a tensor that
    contains only this number.
    """
    old, new = _by_call(before), _by_call(after)
    exact = True
    for call in (one for one in old if one in new):
        if any(one.aspect == "outcome" for one in old[call]):
            continue
        raised = next((one for one in new[call] if one.aspect == "outcome"), None)
        if raised is not None:
            return f"In a call with other sizes or values, the changed code raises {raised.words}."
        if len(old[call]) != len(new[call]):
            return "In a call with other sizes or values, the changed code returns other values."
        for one, other in zip(old[call], new[call], strict=True):
            difference = _difference(one, other, only_numbers)
            if difference is None:
                return _words(one, other)
            exact = exact and not difference
    return exact


def _by_call(values: Sequence[ObservedValue]) -> dict[str, list[ObservedValue]]:
    """Return the values of further calls, by the call."""
    found: dict[str, list[ObservedValue]] = {}
    for one in values:
        if one.call:
            found.setdefault(one.call, []).append(one)
    return found


def _call_of(value: ObservedValue) -> str:
    """Return the part of a value's path that names the call, as in ``result 2 of Net[0]``."""
    return value.path.partition("[")[0]


def _scales_of_calls(values: Sequence[ObservedValue]) -> dict[str, float]:
    """Return the largest absolute element among all values of a call, by the name of the call."""
    scales: dict[str, float] = {}
    for one in values:
        scales[_call_of(one)] = max(_largest_element(one), scales.get(_call_of(one), 0.0))
    return scales


def _largest_element(value: ObservedValue) -> float:
    """Return the largest absolute finite element among the recorded elements of a value, or 0."""
    return max(map(abs, filter(math.isfinite, value.sample[:-1])), default=0.0)


def _words(one: ObservedValue, other: ObservedValue) -> str:
    if one.words != other.words:
        return f"The {one.path} is {other.words} instead of {one.words}."
    return f"The {one.path} has different values."


def _difference(
    one: ObservedValue, other: ObservedValue, only_numbers: bool = False, least: float = 0.0
) -> bool | None:
    """Return True if two values differ only by rounding, False if they are equal, else None.

    With ``only_numbers``, a number equals a tensor that contains only this number. ``least`` is the
    smallest magnitude to which the rounding tolerance is relative.
    """
    is_number = only_numbers and len(one.sample) == len(other.sample) == 2
    if not is_number and _REGION.sub("", one.words) != _REGION.sub("", other.words):
        return None
    if one.digest == other.digest:
        return False
    found = _DTYPE.search(other.words) or _DTYPE.search(one.words)
    if found is None or len(one.sample) != len(other.sample) or not one.sample:
        return None
    relative = _TOLERANCES.get(found[0], 1e-7)
    largest = _largest_element(one)
    scale = max(largest, least)
    pairs = itertools.islice(zip(one.sample, other.sample, strict=True), len(one.sample) - 1)
    close = all(_close(a, b, relative, relative * scale) for a, b in pairs)
    of_sum = relative * scale * len(one.sample) if largest < least else relative
    total = _close(one.sample[-1], other.sample[-1], relative, of_sum)
    return True if close and total else None


def _close(one: float, other: float, relative: float, absolute: float) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=relative, abs_tol=absolute)
