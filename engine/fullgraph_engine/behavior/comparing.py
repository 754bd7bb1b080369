"""Decide whether the original and the changed code of a file behave equally.

All observed values must be equal bit by bit, except for floating-point numbers. If floating-point
numbers differ, both versions are compared with a double-precision run of the original. The error of
the changed code may be three times the error of the original. It may also be as large as the effect
of a change in the last bits of the inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from ..protocol import Aspect, Compared, ComparedCase
from ..protocol.behavior import Judged
from .cases import Case, CasePlan
from .coverage import ReachedCode, RequiredCoverage, required_coverage
from .facts import NONE_WORDS, REQUIRES_GRAD, CallFact, TensorData
from .files import ObservedCall, ObservedCase, ObservedRun
from .observing import SHAKE

_TOLERANCE_FACTOR = 3
"""Maximum error of the changed code's results, as a multiple of the error of the original's
results. Both errors are measured against double precision.
"""
_LAST_BITS = 8
"""Relative deviation always allowed between the results of both versions, in units of the dtype's
epsilon.
"""
_RANDOM_BITS = 64
"""Relative deviation allowed between random results, in units of the dtype's epsilon.

A double-precision run draws different random numbers, so its results cannot be the reference.
"""
_TEXTS = ("stdout", "stderr", "warning", "log", "files")
"""Aspects whose values are texts that the call produced."""
_MAX_LISTED = 4
"""Maximum number of differing lines or notes that a message about a comparison lists."""


@dataclass
class _CaseDifference:
    aspect: Aspect
    words: str


@dataclass
class _CaseVerdict:
    """The result of comparing one test call; only the first of ``differences`` is reported.

    ``needs_again``: the original code must run this call a second time before the comparison can be
    finished. ``needs_double``: the original code must run this call in double precision.
    """

    differences: list[_CaseDifference] = field(default_factory=list)
    doubtful: str = ""
    """Reason why the test call proves nothing (for example, because the original is not
    deterministic); empty if it does.
    """
    exact: bool = True
    needs_again: bool = False
    needs_double: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ProbeObservations:
    """Everything observed of the original and the changed code with one set of example inputs.

    ``again`` is a second run of the original, made only where the two versions differ. ``exact``
    and ``near`` are double-precision runs of the original: ``exact`` with the same inputs, ``near``
    with slightly changed inputs.
    """

    cases: tuple[Case, ...]
    original: ObservedRun
    again: ObservedRun
    changed: ObservedRun
    exact: ObservedRun
    near: ObservedRun

    @classmethod
    def read(
        cls, number: int, cases: tuple[Case, ...], original: Path, changed: Path
    ) -> ProbeObservations:
        """Read what the runs of the original and of the changed code observed, from one folder
        each.

        ``number`` is the index of the set of example inputs, and ``cases`` are its test calls.
        """
        return cls(
            cases,
            ObservedRun(original, f"behavior-{number}"),
            ObservedRun(original, f"behavior-again-{number}"),
            ObservedRun(changed, f"behavior-{number}"),
            ObservedRun(original, f"exact-{number}"),
            ObservedRun(original, f"near-{number}"),
        )

    def compare_cases(self) -> dict[int, _CaseVerdict]:
        """Compare every test call that both versions of the code finished; return the verdicts by
        the call's number.

        Stop at the first call that only the original finished.
        """
        found: dict[int, _CaseVerdict] = {}
        for number in sorted(self.original.cases):
            verdict = _compare_case(self, number) if number < len(self.cases) else None
            if verdict is None:
                break
            found[number] = verdict
        return found

    def describe_lost_case(self, verdicts: Mapping[int, _CaseVerdict], ended: str) -> str:
        """Describe the first test call that only the original code finished.

        ``verdicts`` are the compared calls. ``ended`` says how the process of the changed code
        ended. The result is "" if both versions finished the same calls.
        """
        for number in sorted(self.changed.begun):
            if (
                number not in self.changed.cases
                and number in self.original.cases
                and number not in verdicts
            ):
                seen = self.original.cases[number]
                how = "returns" if seen.calls[0].outcome == "returned" else "raises"
                why = ended or "the process that ran it ended"
                return (
                    f"{_inputs_prefix(seen.inputs)}the original {how}, but the changed code does "
                    f"not: {why}."
                )
        return ""

    def reached_code(self, verdicts: Mapping[int, _CaseVerdict], *, changed: bool) -> ReachedCode:
        """Collect the lines and branch sides that the compared test calls executed.

        The lines are of the original code or, with ``changed``, of the changed code.
        """
        found = ReachedCode()
        for number in verdicts:
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
    """Compare the original and the changed code from the files that their runs have written.

    The first item of each pair belongs to the original. ``texts`` is the source code of both.
    ``lines`` are the lines of each that the other source does not contain. ``folders`` hold the
    files. ``cases`` are the serialized test calls, one text for each set of inputs. ``ended`` says
    how the process of the changed code ended early, or is empty.
    """
    probes = [
        ProbeObservations.read(
            number, CasePlan.unpack(packed_plan).cases, Path(folders[0]), Path(folders[1])
        )
        for number, packed_plan in enumerate(cases)
    ]
    required = [
        _required_coverage(text, changed_lines)
        for text, changed_lines in zip(texts, lines, strict=True)
    ]
    return compare_observations(probes, required[0], required[1], ended)


def _required_coverage(text: str, lines: tuple[int, ...]) -> RequiredCoverage:
    try:
        return required_coverage(text, "<text>", frozenset(lines))
    except (SyntaxError, ValueError, RecursionError):
        return RequiredCoverage()  # a text that does not parse was never executed


def compare_observations(
    probes: Sequence[ProbeObservations],
    required_of_original: RequiredCoverage,
    required_of_changed: RequiredCoverage,
    ended: str,
) -> Judged:
    """Decide from all observations whether the changed code behaves as the original does.

    ``probes`` has one item for each set of example inputs. The required coverage lists lines and
    branch sides that the test calls must execute in each version of the code. ``ended`` says why
    the changed code did not finish a call; it is empty if all calls were finished.
    """
    pairs = [(probe, probe.compare_cases()) for probe in probes]
    case_results = [
        (probe.original.cases[number], probe.cases[number], verdict)
        for probe, verdicts in pairs
        for number, verdict in verdicts.items()
    ]
    reached, reached_in_changed = ReachedCode(), ReachedCode()
    for probe, verdicts in pairs:
        reached.update(probe.reached_code(verdicts, changed=False))
        reached_in_changed.update(probe.reached_code(verdicts, changed=True))
    unreached_lines = required_of_original.missing_lines(reached)
    all_verdicts = [verdict for _, _, verdict in case_results]
    aspects = [item.aspect for verdict in all_verdicts for item in verdict.differences]
    notes = [note for verdict in all_verdicts for note in verdict.notes]
    compared = Compared(
        0,
        "same",
        all(verdict.exact for verdict in all_verdicts),
        tuple(_compared_case(case, seen, verdict) for seen, case, verdict in case_results),
        aspects=tuple(dict.fromkeys(aspects)),
        reached=tuple(sorted((required_of_original.lines & reached.lines) - set(unreached_lines))),
        unreached=unreached_lines,
        unreached_in_changed=required_of_changed.missing_lines(reached_in_changed),
        other_settings=required_of_original.has_other_settings(reached)
        or required_of_changed.has_other_settings(reached_in_changed),
        notes=tuple(dict.fromkeys(notes))[:_MAX_LISTED],
    )
    for seen, _, verdict in case_results:
        if verdict.differences:
            reason = _inputs_prefix(seen.inputs) + verdict.differences[0].words
            return _with_needs(
                replace(compared, outcome="differs", exact=False, reason=reason), pairs
            )
    lost_cases = (probe.describe_lost_case(verdicts, ended) for probe, verdicts in pairs)
    reason = next(filter(None, lost_cases), "")
    if reason:
        compared = replace(compared, aspects=("outcome",))
        return Judged(replace(compared, outcome="differs", exact=False, reason=reason))
    for seen, _, verdict in case_results:
        if verdict.doubtful:
            reason = reason or _inputs_prefix(seen.inputs) + verdict.doubtful
    if not case_results:
        reason = _explain_no_cases(probes, ended)
    missing = compared.unreached_in_changed
    if not reason and (unreached_lines or missing):
        compared = replace(compared, equal_where_reached=True)
        reason = (
            _describe_unreached(unreached_lines, "the original")
            if unreached_lines
            else _describe_unreached(missing, "the changed code")
        )
    if reason:
        compared = replace(compared, outcome="unverified", exact=False, reason=reason)
    return _with_needs(compared, pairs)


def _with_needs(
    compared: Compared, pairs: Sequence[tuple[ProbeObservations, Mapping[int, _CaseVerdict]]]
) -> Judged:
    probes = [verdicts.items() for _, verdicts in pairs]
    return Judged(
        compared,
        tuple(tuple(n for n, verdict in probe if verdict.needs_again) for probe in probes),
        tuple(tuple(n for n, verdict in probe if verdict.needs_double) for probe in probes),
    )


def _explain_no_cases(probes: Sequence[ProbeObservations], ended: str) -> str:
    for observations in probes:
        for begun in observations.original.begun.values():
            if begun.reason:
                return f"The original code could not be run for comparison: {begun.reason}."
    if ended:
        return f"The changed code could not be run for comparison: {ended}."
    return "No test call ended within the time limit; raise the limit."


def _describe_unreached(lines: Sequence[int], text_name: str) -> str:
    shown = ", ".join(str(line + 1) for line in lines[:_MAX_LISTED])
    more = f" and {len(lines) - _MAX_LISTED} more" if len(lines) > _MAX_LISTED else ""
    subject = (
        f"Lines {shown}{more} of {text_name} were"
        if len(lines) > 1
        else f"Line {shown} of {text_name} was"
    )
    return (
        f"{subject} not executed, or always took the same branch, with all inputs that were tried; "
        "write a probe comment with inputs that reach all branches."
    )


def _inputs_prefix(inputs: str) -> str:
    return f"With {inputs}, " if inputs else "Without inputs, "


def _compared_case(case: Case, seen: ObservedCase, verdict: _CaseVerdict) -> ComparedCase:
    return ComparedCase(
        seen.inputs.replace("`", "").replace(" = ", "="),
        case.fill,
        case.training,
        seen.calls[0].outcome,
        not verdict.differences and not verdict.doubtful,
        verdict.exact,
        case.conditions,
        tuple(dict.fromkeys(difference.aspect for difference in verdict.differences)),
        seen.outside,
    )


# -- comparison of one case -------------------------------------------------------------------


def _compare_case(sides: ProbeObservations, number: int) -> _CaseVerdict | None:
    """Compare the test call with the index ``number``; return None if the changed code did not
    finish it.
    """
    original = sides.original.cases[number]
    changed, again = sides.changed.cases.get(number), sides.again.cases.get(number)
    verdict = _CaseVerdict()
    if changed is None:
        begun = sides.changed.begun.get(number)
        if begun is not None and begun.reason:
            verdict.doubtful = f"the changed code could not be called: {begun.reason}."
            return verdict
        return None
    _compare_inputs(original, changed, verdict)
    if verdict.doubtful or verdict.differences:
        return verdict
    # The original needs a second run only if the observed values are not equal bit by bit.
    verdict.needs_again = again is None and bool(_find_unsteady_fact(original, changed))
    if verdict.needs_again and sides.again.begun:
        return None  # no time was left for the second run
    unsteady = _find_unsteady_fact(original, again) if again is not None else ""
    if unsteady:
        verdict.doubtful = (
            f"two runs of the original with the same random state differ in {unsteady}, so a "
            "comparison is not possible."
        )
        return verdict
    for call, (original_call, changed_call) in enumerate(
        zip(original.calls, changed.calls, strict=False)
    ):
        _CallComparison(sides, number, call, original.random, verdict).compare(
            original_call, changed_call
        )
        if verdict.differences:
            break
    return verdict


def _compare_inputs(original: ObservedCase, changed: ObservedCase, verdict: _CaseVerdict) -> None:
    """Add a difference to ``verdict`` if the inputs or the initial state were not equal.

    ``original`` and ``changed`` are the same test call with both versions of the code.
    """
    before = {fact.path: fact for fact in original.before}
    after = {fact.path: fact for fact in changed.before}
    for path, fact in before.items():
        other = after.get(path)
        if other is not None and _equal_facts(fact, other):
            continue
        if fact.aspect == "input":
            verdict.doubtful = "the probe of the changed code creates different inputs."
            return
        is_constant = other is not None and _is_constant(fact) and _is_constant(other)
        if not is_constant and not path.startswith(("self", "memory of self")):
            continue  # changes of other globals are compared later
        other_words = f"{other.words}" if other is not None else "not there"
        words = f"{path} is {fact.words} in the original and {other_words} in the changed code"
        if other is not None and other.words == fact.words:
            words = f"{path} has different values in the changed code"
        verdict.differences.append(_CaseDifference("state", f"{words} before the call."))
        return
    for path, fact in after.items():
        is_tensor = fact.data is not None and fact.words not in ("float", "complex")
        if path not in before and path.startswith("self") and is_tensor:
            words = f"{path}, {fact.words}, exists only in the changed code."
            verdict.differences.append(_CaseDifference("state", words))
            return


def _is_constant(fact: CallFact) -> bool:
    """Whether a value is a number, a string, a bool or None."""
    kinds = ("float", "complex", "bool ", "int ", "str ", "bytes ", "NoneType ")
    return fact.words.startswith(kinds)


def _equal_facts(left: CallFact, right: CallFact) -> bool:
    if left.words != right.words or (left.data is None) != (right.data is None):
        return False
    return left.data is None or right.data is None or left.data.digest == right.data.digest


def _find_unsteady_fact(first_run: ObservedCase, second_run: ObservedCase) -> str:
    """Return the path (such as ``result[0]``) of the first value that differs between two runs of a
    test call.

    If both runs execute the same code, such a difference shows that the code is not deterministic.
    Return "" if all observed values are equal.
    """
    pairs = [(first_run.before, second_run.before)]
    pairs += [
        (first.facts, second.facts)
        for first, second in zip(first_run.calls, second_run.calls, strict=False)
    ]
    for first, second in pairs:
        left = {fact.path: fact for fact in first}
        right = {fact.path: fact for fact in second}
        for path in (*left, *right):
            if path not in left or path not in right or not _equal_facts(left[path], right[path]):
                return path
    return ""


class _CallComparison:
    """A comparison of one test call's results and effects in the original and in the changed
    code.
    """

    def __init__(
        self, sides: ProbeObservations, number: int, call: int, random: bool, verdict: _CaseVerdict
    ) -> None:
        self._sides, self._number, self._call = sides, number, call
        self._random, self._verdict = random, verdict

    def compare(self, original: ObservedCall, changed: ObservedCall) -> None:
        left = {(fact.aspect, fact.path): fact for fact in original.facts}
        right = {(fact.aspect, fact.path): fact for fact in changed.facts}
        if original.outcome != changed.outcome:
            # If the outcomes differ, other differences only follow from that, so compare nothing
            # else.
            left, right = (
                {key: facts[key] for key in facts if key[0] == "outcome"} for facts in (left, right)
            )
        for key, fact in left.items():
            other = right.get(key)
            if other is None:
                words = (
                    f"{self._fact_name(fact)}, {_short_words(fact)}, exists only in the original"
                )
                self._add_difference(fact, words)
            elif fact.words != other.words:
                if not (
                    self._both_raise(original, fact, other)
                    or self._is_zero_for_none(fact, other)
                    or self._requires_more(fact, other)
                ):
                    self._add_words_difference(fact, other)
            else:
                self._compare_values(fact, other)
        for key, fact in right.items():
            if key not in left and not self._is_zero_gradient(fact):
                words = (
                    f"{self._fact_name(fact)}, {_short_words(fact)}, exists only in the changed "
                    "code"
                )
                self._add_difference(fact, words)

    def _fact_name(self, fact: CallFact) -> str:
        return f"{fact.path} of a second call" if self._call else fact.path

    def _compare_values(self, fact: CallFact, other: CallFact) -> None:
        """Compare layouts (like strides) and numbers of two values with equal descriptions.

        ``fact`` is from the original, ``other`` from the changed code. Differences are added to the
        verdict of the test call.
        """
        if fact.layout != other.layout:
            note = f"{fact.path} has the strides {other.layout} instead of {fact.layout}"
            self._verdict.notes.append(note)
        alike = fact.code and fact.code == other.code
        if fact.opaque and fact.aspect == "result" and not alike:
            words = f"{self._fact_name(fact)} is {fact.words}, which cannot be compared."
            self._verdict.doubtful = words
        if fact.data is None or other.data is None:
            return
        try:
            self._compare_numbers(fact, fact.data, other.data)
        except (
            RuntimeError,
            NotImplementedError,
            TypeError,
        ) as error:  # the dtype lacks this operation
            self._verdict.doubtful = f"{self._fact_name(fact)} cannot be compared: {error}."

    def _both_raise(self, original: ObservedCall, fact: CallFact, other: CallFact) -> bool:
        """Whether two calls raised the same type of exception in torch.

        ``fact`` is the outcome of the original, and ``other`` of the changed code. Messages may
        then differ. If a ``raise`` statement in the user's file raised an exception, messages must
        be equal, so the result is False.
        """
        if fact.aspect != "outcome" or original.own:
            return False
        kinds = [item.words.partition(":")[0] for item in (fact, other)]
        if kinds[0] != kinds[1] or not kinds[0].startswith("raises "):
            return False
        self._verdict.notes.append(
            f"the changed code raises with another message: {other.words[7:107]}"
        )
        return True

    def _add_words_difference(self, fact: CallFact, other: CallFact) -> None:
        if fact.aspect == "outcome":
            words = f"the original {fact.words} and the changed code {other.words}"
            words += " when called a second time" if self._call else ""
        elif fact.aspect == "random":
            words = "the changed code leaves the random number generator in a different state"
        else:
            words = (
                f"{self._fact_name(fact)} is {_short_words(fact)} in the original and "
                f"{_short_words(other)} in the changed code"
            )
        self._add_difference(fact, words)

    def _add_difference(self, fact: CallFact, words: str) -> None:
        self._verdict.differences.append(_CaseDifference(fact.aspect, f"{words}."))

    def _is_zero_for_none(self, fact: CallFact, other: CallFact) -> bool:
        """Whether one version of the code gives a gradient of zeros where the other version gives
        None.

        An optimizer may treat them differently, but the numbers are equal.
        """
        if fact.aspect != "gradient" or (fact.data is None) == (other.data is None):
            return False
        if not self._is_zero(fact, self._sides.original) and not self._is_zero(
            other, self._sides.changed
        ):
            return False
        self._verdict.exact = False
        self._verdict.notes.append(f"{fact.path} is zero in one version and `None` in the other")
        return True

    def _requires_more(self, fact: CallFact, other: CallFact) -> bool:
        """Whether a value requires gradients only in the changed code.

        ``fact`` is the value in the original, ``other`` in the changed code. The difference is only
        noted here. A later comparison of the gradients checks that they are zero.
        """
        if fact.aspect not in ("result", "state") or other.words != f"{fact.words}{REQUIRES_GRAD}":
            return False
        self._verdict.exact = False
        self._verdict.notes.append(f"{fact.path} requires gradients only in the changed code")
        self._compare_values(fact, other)
        return True

    def _is_zero_gradient(self, fact: CallFact) -> bool:
        """Whether a gradient that exists only in the changed code is zero or None."""
        return fact.aspect == "gradient" and (
            fact.words == NONE_WORDS or self._is_zero(fact, self._sides.changed)
        )

    @staticmethod
    def _is_zero(fact: CallFact, observed: ObservedRun) -> bool:
        data = fact.data
        numbers = observed.read_tensor(data) if data is not None and not data.sampled else None
        return numbers is not None and not bool(numbers.ne(0).any())

    def _compare_numbers(
        self, fact: CallFact, left_data: TensorData, right_data: TensorData
    ) -> None:
        if left_data.digest == right_data.digest:
            return
        left, right = (
            self._sides.original.read_tensor(left_data),
            self._sides.changed.read_tensor(right_data),
        )
        if left is None or right is None or left.shape != right.shape or left.dtype != right.dtype:
            self._verdict.doubtful = (
                f"{self._fact_name(fact)} differs; it was too large to store for a comparison."
            )
            return
        what = self._fact_name(fact)
        if equal_numbers(left, right):
            self._verdict.exact = self._verdict.exact and left_data.sampled
            if left_data.sampled:
                self._verdict.doubtful = (
                    f"{what} differs in elements that were not stored, because it is too large."
                )
            return
        if not (left.dtype.is_floating_point or left.dtype.is_complex):
            self._add_difference(fact, f"{what}, {fact.words}, {describe_difference(left, right)}")
            return
        self._verdict.exact = False
        if not same_special_values(left, right):
            self._add_difference(fact, f"{what}, {fact.words}, {describe_difference(left, right)}")
            return
        allowed = self._tolerance(fact, left)
        if allowed is None:
            return
        if not bool(((_to_double(right) - allowed[0]).abs() <= allowed[1])[left.isfinite()].all()):
            where = describe_difference(left, right)
            words = f"{what}, {fact.words}, {where}, more than rounding explains"
            self._add_difference(fact, words)

    def _tolerance(
        self, fact: CallFact, left: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Return the reference value for a tensor of the changed code, and the allowed deviation
        from it.

        Both are tensors with one number per element. ``fact`` is the compared value in the
        original, and ``left`` is its tensor. Return None if the original must be run in double
        precision first.
        """
        if self._random:
            bits = torch.finfo(left.dtype).eps
            return _to_double(left), _RANDOM_BITS * bits * _to_double(left).abs()
        if self._number not in self._sides.exact.begun:
            self._verdict.needs_double = True
            return None
        exact = self._double_value(self._sides.exact, fact)
        near = self._double_value(self._sides.near, fact)
        return allowed_deviation(left, exact, near)

    def _double_value(self, observed: ObservedRun, fact: CallFact) -> torch.Tensor | None:
        seen = observed.cases.get(self._number)
        if seen is None or self._call >= len(seen.calls):
            return None
        for candidate in seen.calls[self._call].facts:
            if (candidate.aspect, candidate.path) == (
                fact.aspect,
                fact.path,
            ) and candidate.data is not None:
                return observed.read_tensor(candidate.data)
        return None


ORIGINAL_AND_CHANGED = ("in the original", "in the changed code")
EAGER_AND_COMPILED = ("in eager mode", "compiled")


def allowed_deviation(
    left: torch.Tensor, exact: torch.Tensor | None, near: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the reference for a result, and the allowed deviation from it, for each element.

    ``left`` is the result of the original code. ``exact`` and ``near`` are the same result in
    double precision, for the inputs and for slightly changed inputs. If the code does not run in
    double precision, both are None and ``left`` is the reference.
    """
    bits = torch.finfo(left.dtype).eps
    if exact is None or near is None or not exact.shape == near.shape == left.shape:
        return _to_double(left), _LAST_BITS * bits * _to_double(left).abs()
    input_deviation = (near - exact).abs() * (bits / SHAKE)
    # If the original is in double precision already, no exact reference exists. The effect of
    # slightly changed inputs then estimates its rounding errors.
    is_double = left.dtype == exact.dtype
    deviation = input_deviation if is_double else (_to_double(left) - exact).abs()
    finite = left.isfinite() & exact.isfinite() & deviation.isfinite()
    largest = deviation[finite].max() if bool(finite.any()) else torch.zeros(())
    return exact, _TOLERANCE_FACTOR * torch.maximum(
        largest, input_deviation
    ) + _LAST_BITS * bits * exact.abs()


def _to_double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float64))


def _short_words(fact: CallFact) -> str:
    words = fact.words if len(fact.words) <= 120 else fact.words[:119] + "…"
    return repr(words) if fact.aspect in _TEXTS else words


def equal_numbers(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors are equal in every element, with NaN equal to NaN."""
    same = left == right
    if left.dtype.is_floating_point or left.dtype.is_complex:
        same = same | (left.isnan() & right.isnan())
    return bool(same.all())


def same_special_values(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have NaN and infinities at the same indices, with the same signs."""
    if not torch.equal(left.isfinite(), right.isfinite()):
        return False
    special = ~left.isfinite()
    return equal_numbers(left[special], right[special])


def describe_difference(
    left: torch.Tensor, right: torch.Tensor, sources: tuple[str, str] = ORIGINAL_AND_CHANGED
) -> str:
    """Describe the first element in which two tensors differ: its index and both values.

    ``sources`` are words that say where the tensors come from, as in "in the original".
    """
    same = (left == right) | (left.isnan() & right.isnan())
    index = (~same).nonzero()[0].tolist()
    left_value, right_value = left[tuple(index)].item(), right[tuple(index)].item()
    where = f" at {index}" if index else ""
    return f"is {left_value!r} {sources[0]} and {right_value!r} {sources[1]}{where}"
