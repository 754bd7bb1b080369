"""Decide whether the observations of an original and a changed text agree.

Everything must be equal bit by bit, except for floating-point numbers. Where those differ, both
texts are compared with a double-precision run of the original. The changed text may deviate from it
three times as much as the original, or as much as a change in the last bits of the inputs causes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from ..protocol import Aspect, Compared, ComparedCase
from ..protocol.behavior import Judged
from .cases import Case, Plan
from .coverage import Reached, Wanted, wanted
from .facts import NOTHING, REQUIRES, Data, Fact
from .files import Observed, SeenCall, SeenCase
from .observing import SHAKE

_TOLERANCE_FACTOR = 3
"""Ratio of the allowed deviation to the original's own deviation from double precision."""
_LAST_BITS = 8
"""Relative deviation that is always allowed, in units of the dtype's epsilon."""
_RANDOM_BITS = 64
"""Relative deviation allowed for random results, in units of the dtype's epsilon.

Double precision draws different random numbers, so it gives no reference for them.
"""
_MAX_LISTED = 4
"""Maximum number of lines or notes listed in a message."""


@dataclass
class _Difference:
    aspect: Aspect
    words: str


@dataclass
class _Judged:
    """The result of one case; the first of ``differences`` becomes the reason in the report."""

    differences: list[_Difference] = field(default_factory=list)
    doubtful: str = ""
    """Reason why the case proves nothing; empty if it does."""
    exact: bool = True
    needs_again: bool = False
    needs_double: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Probed:
    """The observations of both texts with one probe.

    ``again`` is a second run of the original, made only where the texts differ. ``exact`` and
    ``near`` are double-precision runs of the original, with the inputs and with slightly changed
    inputs.
    """

    cases: tuple[Case, ...]
    original: Observed
    again: Observed
    changed: Observed
    exact: Observed
    near: Observed

    @classmethod
    def read(cls, number: int, cases: tuple[Case, ...], original: Path, changed: Path) -> Probed:
        """Read the observations from the folders that the runs of both texts wrote."""
        return cls(
            cases,
            Observed(original, f"behavior-{number}"),
            Observed(original, f"behavior-again-{number}"),
            Observed(changed, f"behavior-{number}"),
            Observed(original, f"exact-{number}"),
            Observed(original, f"near-{number}"),
        )

    def judged(self) -> dict[int, _Judged]:
        """Compare the cases that both texts finished, up to the first that only one finished."""
        found: dict[int, _Judged] = {}
        for number in sorted(self.original.cases):
            one = _case(self, number) if number < len(self.cases) else None
            if one is None:
                break
            found[number] = one
        return found

    def lost(self, judged: Mapping[int, _Judged], ended: str) -> str:
        """Describe the first case that only the original finished, and how the changed text ended."""
        for number in sorted(self.changed.begun):
            if (
                number not in self.changed.cases
                and number in self.original.cases
                and number not in judged
            ):
                seen = self.original.cases[number]
                how = "returns" if seen.calls[0].outcome == "returned" else "raises"
                why = ended or "its process ended"
                return (
                    f"{_with(seen.inputs)}the original {how} and the changed code does not: {why}."
                )
        return ""

    def reached(self, judged: Mapping[int, _Judged], *, changed: bool) -> Reached:
        """Collect the lines and branch sides that these cases reach."""
        found = Reached()
        for number in judged:
            seen = (self.changed if changed else self.original).cases.get(number)
            if seen is not None:
                found.lines |= set(seen.lines)
                found.sides |= seen.reached_sides()
        return found


def compare_folders(
    texts: tuple[str, str],
    lines: tuple[tuple[int, ...], tuple[int, ...]],
    folders: tuple[str, str],
    cases: tuple[str, ...],
    ended: str,
) -> Judged:
    """Compare the observations in the folders of two runs, as :func:`compare_observations` does.

    The first item of each pair belongs to the original. ``lines`` are the lines that the other text
    does not have. ``cases`` are packed, one text per probe. ``ended`` says how the changed text's
    process ended early.
    """
    probes = [
        Probed.read(number, Plan.unpacked(one).cases, Path(folders[0]), Path(folders[1]))
        for number, one in enumerate(cases)
    ]
    asked = [_wanted(text, these) for text, these in zip(texts, lines, strict=True)]
    return compare(probes, asked[0], asked[1], ended)


def _wanted(text: str, lines: tuple[int, ...]) -> Wanted:
    try:
        return wanted(text, "<text>", frozenset(lines))
    except (SyntaxError, ValueError, RecursionError):
        return Wanted()  # such a text was not observed


def compare(
    probes: Sequence[Probed], of_original: Wanted, of_changed: Wanted, ended: str
) -> Judged:
    """Compare the observations of all probes and decide on an outcome.

    ``ended`` says why the changed text did not finish a case; empty if it finished all.
    """
    pairs = [(one, one.judged()) for one in probes]
    of_cases = [
        (one.original.cases[number], one.cases[number], judged)
        for one, several in pairs
        for number, judged in several.items()
    ]
    reached, in_changed = Reached(), Reached()
    for one, several in pairs:
        reached.update(one.reached(several, changed=False))
        in_changed.update(one.reached(several, changed=True))
    unreached = of_original.missing(reached)
    results = [judged for _, _, judged in of_cases]
    made = Compared(
        0,
        "same",
        all(one.exact for one in results),
        tuple(_compared(case, seen, judged) for seen, case, judged in of_cases),
        aspects=tuple(dict.fromkeys(d.aspect for one in results for d in one.differences)),
        reached=tuple(sorted((of_original.lines & reached.lines) - set(unreached))),
        unreached=unreached,
        other_settings=of_original.has_other_settings(reached)
        or of_changed.has_other_settings(in_changed),
        notes=tuple(dict.fromkeys(note for one in results for note in one.notes))[:_MAX_LISTED],
    )
    for seen, _, judged in of_cases:
        if judged.differences:
            reason = _with(seen.inputs) + judged.differences[0].words
            return _with_needs(replace(made, outcome="differs", exact=False, reason=reason), pairs)
    reason = next(filter(None, (one.lost(several, ended) for one, several in pairs)), "")
    if reason:
        aspects: tuple[Aspect, ...] = ("outcome",)
        return Judged(replace(made, outcome="differs", exact=False, reason=reason, aspects=aspects))
    for seen, _, judged in of_cases:
        if judged.doubtful:
            reason = reason or _with(seen.inputs) + judged.doubtful
    if not of_cases:
        reason = _nothing(probes, ended)
    missing = of_changed.missing(in_changed)
    if not reason and unreached:
        reason = _not_reached(unreached, "the original")
    if not reason and missing:
        reason = _not_reached(missing, "the changed code")
    if reason:
        made = replace(made, outcome="unverified", exact=False, reason=reason)
    return _with_needs(made, pairs)


def _with_needs(
    compared: Compared, pairs: Sequence[tuple[Probed, Mapping[int, _Judged]]]
) -> Judged:
    several = [one.items() for _, one in pairs]
    return Judged(
        compared,
        tuple(tuple(number for number, one in each if one.needs_again) for each in several),
        tuple(tuple(number for number, one in each if one.needs_double) for each in several),
    )


def _nothing(probes: Sequence[Probed], ended: str) -> str:
    for one in probes:
        for begun in one.original.begun.values():
            if begun.reason:
                return f"The original was not observed: {begun.reason}."
    if ended:
        return f"The changed code was not observed: {ended}."
    return "No case was observed to its end within the time; give it more seconds."


def _not_reached(lines: Sequence[int], where: str) -> str:
    shown = ", ".join(str(line + 1) for line in lines[:_MAX_LISTED])
    more = f" and {len(lines) - _MAX_LISTED} more" if len(lines) > _MAX_LISTED else ""
    several = (
        f"Lines {shown}{more} of {where} were" if len(lines) > 1 else f"Line {shown} of {where} was"
    )
    return (
        f"{several} not reached, or not on both sides of a condition, with any inputs that were "
        "tried; give the target a probe that leads there."
    )


def _with(inputs: str) -> str:
    return f"With {inputs}, " if inputs else "Without inputs, "


def _compared(case: Case, seen: SeenCase, judged: _Judged) -> ComparedCase:
    return ComparedCase(
        seen.inputs.replace("`", "").replace(" = ", "="),
        case.fill,
        case.training,
        seen.calls[0].outcome,
        not judged.differences and not judged.doubtful,
        judged.exact,
        case.conditions,
        tuple(dict.fromkeys(one.aspect for one in judged.differences)),
    )


# -- one case ---------------------------------------------------------------------------------


def _case(sides: Probed, number: int) -> _Judged | None:
    """Compare one case; None if the changed text did not finish it."""
    original = sides.original.cases[number]
    changed, again = sides.changed.cases.get(number), sides.again.cases.get(number)
    judged = _Judged()
    if changed is None:
        begun = sides.changed.begun.get(number)
        if begun is not None and begun.reason:
            judged.doubtful = f"the call of the changed code is another one: {begun.reason}."
            return judged
        return None
    _given(original, changed, judged)
    if judged.doubtful or judged.differences:
        return judged
    # The original needs a second run only if the changed text is not equal bit by bit.
    judged.needs_again = again is None and bool(_unsteady(original, changed))
    if judged.needs_again and sides.again.begun:
        return None  # the time did not suffice for it
    unsteady = _unsteady(original, again) if again is not None else ""
    if unsteady:
        judged.doubtful = (
            f"two runs of the original differ in {unsteady}, although they are given the same "
            "random numbers, so that nothing can be compared."
        )
        return judged
    for call, (one, two) in enumerate(zip(original.calls, changed.calls, strict=False)):
        _Calls(sides, number, call, original.random, judged).compare(one, two)
        if judged.differences:
            break
    return judged


def _given(original: SeenCase, changed: SeenCase, judged: _Judged) -> None:
    """Check that both texts got the same inputs and initial state; add differences to ``judged``."""
    before = {fact.path: fact for fact in original.before}
    after = {fact.path: fact for fact in changed.before}
    for path, fact in before.items():
        other = after.get(path)
        if other is not None and _equal(fact, other):
            continue
        if fact.aspect == "input":
            judged.doubtful = "the changed code is given other inputs by its probe."
            return
        if not path.startswith(("self", "memory of self")):
            continue  # a global that only the original has; changes of the state are compared later
        there = f"{other.words}" if other is not None else "not there"
        what = f"{path} is {fact.words} in the original and {there} in the changed code"
        if other is not None and other.words == fact.words:
            what = f"{path} has other values in the changed code"
        judged.differences.append(_Difference("state", f"{what} before the call."))
        return
    for path, fact in after.items():
        is_tensor = fact.data is not None and fact.words not in ("float", "complex")
        if path not in before and path.startswith("self") and is_tensor:
            words = f"{path}, {fact.words}, is only in the changed code."
            judged.differences.append(_Difference("state", words))
            return


def _equal(one: Fact, two: Fact) -> bool:
    if one.words != two.words or (one.data is None) != (two.data is None):
        return False
    return one.data is None or two.data is None or one.data.digest == two.data.digest


def _unsteady(one: SeenCase, two: SeenCase) -> str:
    """Return the path of the first fact in which two runs of one text differ; empty if none does."""
    pairs = [(one.before, two.before)]
    pairs += [(first.facts, second.facts) for first, second in zip(one.calls, two.calls)]  # noqa: B905
    for first, second in pairs:
        left = {fact.path: fact for fact in first}
        right = {fact.path: fact for fact in second}
        for path in (*left, *right):
            if path not in left or path not in right or not _equal(left[path], right[path]):
                return path
    return ""


class _Calls:
    """Comparison of the same call in both texts."""

    def __init__(
        self, sides: Probed, number: int, call: int, random: bool, judged: _Judged
    ) -> None:
        self._sides, self._number, self._call = sides, number, call
        self._random, self._judged = random, judged
        self._double: tuple[dict[str, Fact], dict[str, Fact]] | None = None

    def compare(self, original: SeenCall, changed: SeenCall) -> None:
        left = {(fact.aspect, fact.path): fact for fact in original.facts}
        right = {(fact.aspect, fact.path): fact for fact in changed.facts}
        if original.outcome != changed.outcome:
            # All other differences follow from the outcome.
            left, right = (
                {key: one[key] for key in one if key[0] == "outcome"} for one in (left, right)
            )
        for key, fact in left.items():
            other = right.get(key)
            if other is None:
                words = f"{self._what(fact)}, {_shown(fact)}, is only in the original"
                self._differs(fact, words)
            elif fact.words != other.words:
                if not (
                    self._both_raise(original, fact, other)
                    or self._zero_for_none(fact, other)
                    or self._requires_more(fact, other)
                ):
                    self._words(fact, other)
            else:
                self._alike(fact, other)
        for key, fact in right.items():
            if key not in left and not self._is_zero_gradient(fact):
                words = f"{self._what(fact)}, {_shown(fact)}, is only in the changed code"
                self._differs(fact, words)

    def _what(self, fact: Fact) -> str:
        return f"{fact.path} of a second call" if self._call else fact.path

    def _alike(self, fact: Fact, other: Fact) -> None:
        """Compare facts that have the same words."""
        if fact.layout != other.layout:
            note = f"{fact.path} has the strides {other.layout} in place of {fact.layout}"
            self._judged.notes.append(note)
        alike = fact.code and fact.code == other.code
        if fact.opaque and fact.aspect == "result" and not alike:
            words = f"{self._what(fact)} is {fact.words}, which cannot be compared."
            self._judged.doubtful = words
        if fact.data is None or other.data is None:
            return
        try:
            self._numbers(fact, fact.data, other.data)
        except (
            RuntimeError,
            NotImplementedError,
            TypeError,
        ) as error:  # the dtype lacks this operation
            self._judged.doubtful = f"{self._what(fact)} cannot be compared: {error}."

    def _both_raise(self, original: SeenCall, fact: Fact, other: Fact) -> bool:
        """Whether both texts raise the same type of exception in torch.

        An error of an operator may have another message; an error that the user's file raises may
        not.
        """
        if fact.aspect != "outcome" or original.own:
            return False
        kinds = [one.words.partition(":")[0] for one in (fact, other)]
        if kinds[0] != kinds[1] or not kinds[0].startswith("raises "):
            return False
        self._judged.notes.append(f"an error has other words: {other.words[7:107]}")
        return True

    def _words(self, fact: Fact, other: Fact) -> None:
        if fact.aspect == "outcome":
            words = f"the original {fact.words} and the changed code {other.words}"
            words += " when called a second time" if self._call else ""
        elif fact.aspect == "random":
            words = "the random numbers that follow are others in the changed code"
        else:
            words = (
                f"{self._what(fact)} is {_shown(fact)} in the original and {_shown(other)} in the "
                "changed code"
            )
        self._differs(fact, words)

    def _differs(self, fact: Fact, words: str) -> None:
        self._judged.differences.append(_Difference(fact.aspect, f"{words}."))

    def _zero_for_none(self, fact: Fact, other: Fact) -> bool:
        """Whether one text has no gradient where the other has a zero one.

        An optimizer may treat them differently, but the numbers are equal.
        """
        if fact.aspect != "gradient" or (fact.data is None) == (other.data is None):
            return False
        if not self._zero(fact, self._sides.original) and not self._zero(
            other, self._sides.changed
        ):
            return False
        self._judged.exact = False
        self._judged.notes.append(f"{fact.path} is zero in one and none in the other")
        return True

    def _requires_more(self, fact: Fact, other: Fact) -> bool:
        """Whether a value requires gradients only in the changed text.

        These gradients must be zero, which the gradients of results and state show.
        """
        if fact.aspect not in ("result", "state") or other.words != f"{fact.words}{REQUIRES}":
            return False
        self._judged.exact = False
        self._judged.notes.append(f"{fact.path} requires gradients only in the changed code")
        self._alike(fact, other)
        return True

    def _is_zero_gradient(self, fact: Fact) -> bool:
        """Whether a gradient that only the changed text has is zero or None."""
        return fact.aspect == "gradient" and (
            fact.words == NOTHING or self._zero(fact, self._sides.changed)
        )

    @staticmethod
    def _zero(fact: Fact, observed: Observed) -> bool:
        data = fact.data
        numbers = observed.tensor(data) if data is not None and not data.sampled else None
        return numbers is not None and not bool(numbers.ne(0).any())

    def _numbers(self, fact: Fact, one: Data, two: Data) -> None:
        if one.digest == two.digest:
            return
        left, right = self._sides.original.tensor(one), self._sides.changed.tensor(two)
        if left is None or right is None or left.shape != right.shape or left.dtype != right.dtype:
            self._judged.doubtful = f"{self._what(fact)} was too large to be kept, and differs."
            return
        what = self._what(fact)
        if equal_numbers(left, right):
            self._judged.exact = self._judged.exact and one.sampled
            if one.sampled:
                self._judged.doubtful = f"{what} differs where it was too large to be kept."
            return
        if not (left.dtype.is_floating_point or left.dtype.is_complex):
            self._differs(fact, f"{what}, {fact.words}, {first_difference(left, right)}")
            return
        self._judged.exact = False
        if not special_alike(left, right):
            self._differs(fact, f"{what}, {fact.words}, {first_difference(left, right)}")
            return
        allowed = self._allowed(fact, left)
        if allowed is None:
            return
        if not bool(((_wide(right) - allowed[0]).abs() <= allowed[1])[left.isfinite()].all()):
            where = first_difference(left, right)
            words = f"{what}, {fact.words}, {where}, more than rounding explains"
            self._differs(fact, words)

    def _allowed(self, fact: Fact, left: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Return the right values and their tolerance; None while double precision is still needed."""
        if self._random:
            bits = torch.finfo(left.dtype).eps
            return _wide(left), _RANDOM_BITS * bits * _wide(left).abs()
        if self._number not in self._sides.exact.begun:
            self._judged.needs_double = True
            return None
        exact = self._in_double(self._sides.exact, fact)
        near = self._in_double(self._sides.near, fact)
        return bound(left, exact, near)

    def _in_double(self, observed: Observed, fact: Fact) -> torch.Tensor | None:
        seen = observed.cases.get(self._number)
        if seen is None or self._call >= len(seen.calls):
            return None
        for one in seen.calls[self._call].facts:
            if (one.aspect, one.path) == (fact.aspect, fact.path) and one.data is not None:
                return observed.tensor(one.data)
        return None


def bound(
    left: torch.Tensor, exact: torch.Tensor | None, near: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the right values, and how far a result may deviate from them.

    ``left`` is the original's result; ``exact`` and ``near`` are its double-precision values, for
    the inputs and for slightly changed inputs, or None if the code does not run in double
    precision.
    """
    bits = torch.finfo(left.dtype).eps
    if exact is None or near is None or not exact.shape == near.shape == left.shape:
        return _wide(left), _LAST_BITS * bits * _wide(left).abs()
    finite = left.isfinite() & exact.isfinite()
    off = (_wide(left) - exact).abs()
    usual = off[finite].max() if bool(finite.any()) else torch.zeros(())
    moved = (near - exact).abs() * (bits / SHAKE)
    return exact, _TOLERANCE_FACTOR * torch.maximum(usual, moved) + _LAST_BITS * bits * exact.abs()


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float64))


def _shown(fact: Fact) -> str:
    words = fact.words if len(fact.words) <= 120 else fact.words[:119] + "…"
    return repr(words) if fact.aspect in ("stdout", "stderr", "warning", "log") else words


def equal_numbers(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors are equal, with NaN equal to NaN."""
    same = left == right
    if left.dtype.is_floating_point or left.dtype.is_complex:
        same = same | (left.isnan() & right.isnan())
    return bool(same.all())


def special_alike(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have NaN and infinities at the same places, with the same signs."""
    if not torch.equal(left.isfinite(), right.isfinite()):
        return False
    special = ~left.isfinite()
    return equal_numbers(left[special], right[special])


def first_difference(left: torch.Tensor, right: torch.Tensor) -> str:
    """Describe the first place where two tensors differ."""
    same = (left == right) | (left.isnan() & right.isnan())
    at = (~same).nonzero()[0].tolist()
    one, two = left[tuple(at)].item(), right[tuple(at)].item()
    where = f" at {at}" if at else ""
    return f"is {one!r} in the original and {two!r} in the changed code{where}"
