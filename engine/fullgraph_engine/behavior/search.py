"""Choose test calls (cases) to compare two versions of a file, by executing the original.

The user's inputs are varied in all ways that the function or module accepts. Then the search looks
for values that lead to lines and branch sides that no test call has reached.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch

from .. import tracing
from ..protocol import Fill, Observe
from ..protocol.packing import pack
from ..targets import Call, ProbeError, Tracee, rng
from ..targets.deadline import limit_seconds
from ..tracing.variations import Inputs, can_be_resized
from .budget import ProcessorBudget
from .cases import Case, CasePlan, LeafChange, is_floating
from .coverage import CoverageTracer, ReachedCode, numeric_constants, required_coverage
from .observing import CallBuilder, case_context, prepare_case
from .output import OutputCapture
from .state import subject_of

MAX_CASES = 60
"""Maximum number of test calls (cases) in one comparison."""
MIN_CASES = 6
_SEARCH_SHARE = 0.4
"""Share of the available time that may be used to search for test calls; the comparison of the
original and the changed code uses the rest.
"""
_COST = 8.0
"""Estimated processor time of a test call in all runs of a comparison, divided by the time of one
call.
"""
_OVERHEAD = 0.04
"""Estimated seconds for each test call, in addition to the call itself, in all runs of a
comparison.
"""
_MAX_BUILD_SECONDS = 0.05
"""Maximum seconds to build a module for each test call; a slower module is built once for all
calls.
"""
_MAX_TWICE_SECONDS = 0.4
"""Maximum seconds of a call; slower test calls are not made a second time."""
_OF_INTEGERS: tuple[Fill, ...] = ("zero", "positive", "range", "negative")
_ALONE: tuple[Fill, ...] = ("negative", "positive", "zero", "nan")
_IN_OTHER_MODE: tuple[Fill, ...] = ("negative", "nan", "zero")
_RANDOM_SEED = 1_000_000
"""First seed of additional random test calls that the user requests, above all seeds of the usual
search.
"""
_MAX_PARAMETERS = 4_000_000
"""Maximum number of parameter elements of a module for which other dtypes are tried."""
_SLOW_CALL = 0.1
"""Seconds of a call above which the other test calls get smaller inputs, if the code accepts them.
"""
_DIVISORS = (16, 4, 2)
"""Divisors tried for the sizes of smaller inputs."""
_MIN_SIZE = 4
"""Minimum size of a dimension after dividing it for smaller inputs."""
_MAX_SIZE = 1024
"""Maximum size of a dimension that test calls get because a constant of the code is near it."""
_ENDLESS = 2.0
"""Minimum seconds after which a call is stopped because it is assumed never to end. The limit is
ten times the duration of the call with the user's inputs, if this is longer.
"""
_WALL_FACTOR = 3.0
"""Ratio of wall time to processor time above which a test call is assumed never to end."""


class _CallTimeout(BaseException):
    """Raised inside a call that exceeds its time limit."""


@dataclass(frozen=True)
class ChosenCases:
    """The chosen test calls (cases) in serialized form; if there are none, ``reason`` says why."""

    packed: str = ""
    reason: str = ""


@dataclass(frozen=True)
class _TriedCase:
    raised: BaseException | None
    reached: ReachedCode
    seconds: float


def choose_cases(tracee: Tracee, request: Observe) -> ChosenCases:
    """Choose test calls (cases) on which the original and the changed code will be compared.

    ``tracee`` is the function or module of the original code, which is called with varied inputs.
    ``request`` has the time limit and the lines that the calls should execute.
    """
    try:
        required = required_coverage(tracee.text, tracee.path, frozenset(request.lines))
        return _CaseSearch(tracee, request, required).run_search()
    except ProbeError as error:
        return ChosenCases(reason=str(error))


class _CaseSearch:
    def __init__(self, tracee: Tracee, request: Observe, required: Any) -> None:
        self._tracee, self._required = tracee, required
        self._calls = CallBuilder(tracee)
        self._coverage = CoverageTracer(tracee.path, required.lines)
        self._chosen: dict[Case, None] = {}
        self._budget = ProcessorBudget(request.seconds * _SEARCH_SHARE)
        self._seconds_left = request.seconds
        """Time limit in seconds for executing and comparing the chosen test calls."""
        self._reached = ReachedCode()
        self._capture = OutputCapture()
        self._at_random = request.at_random
        self._no_grad = False
        """True if calls raise an exception only when their inputs require gradients."""
        self._call_seconds = request.seconds
        """Seconds of processor time after which one call is aborted."""
        self._endless: set[Fill] = set()
        """Kinds of values with which a call did not end.

        For example, a loop may wait for a condition that NaN never fulfills.
        """

    def run_search(self) -> ChosenCases:
        began = time.process_time()
        call = self._calls.build_call()
        # Build a target only once if building it takes long.
        shared = self._calls.shared = time.process_time() - began > _MAX_BUILD_SECONDS
        inputs = Inputs(call.function, call.args, call.kwargs)
        vary = _CaseVariations(call, inputs, shared=shared)
        first = Case()
        tried = self._try_case(first)
        if tried is None:
            return ChosenCases(
                reason=(
                    "The inputs of the probe cannot be created twice; write a probe comment with "
                    "their sizes."
                )
            )
        self._add_case(first, tried)
        self._call_seconds = max(_ENDLESS, 10 * tried.seconds)
        self._find_smaller_sizes(vary, tried)
        numbers = numeric_constants(self._tracee.text, self._tracee.path)
        for case in map(
            vary.shrink_case, islice(vary.random_cases(numbers, _RANDOM_SEED), self._at_random)
        ):
            tried_case = self._try_case(case)
            if tried_case is not None:
                self._add_case(case, tried_case)
        for case in vary.usual_cases() if not self._at_random else ():
            if self._has_enough():
                break
            self._consider_case(vary.shrink_case(case))
        for case in vary.directed_cases(numbers) if not self._at_random else ():
            if not self._required.missing_lines(self._reached) or self._is_time_up():
                break
            self._consider_case(vary.shrink_case(case), only_new=True)
        return ChosenCases(
            pack(CasePlan(tuple(self._chosen), shared, tried.seconds < _MAX_TWICE_SECONDS))
        )

    def _find_smaller_sizes(self, vary: _CaseVariations, first: _TriedCase) -> None:
        """Find smaller inputs for all test calls but ``first``, if its call is slow.

        Smaller inputs are used only if they execute the same lines and branch sides. ``vary``
        creates the variations of the call.
        """
        seconds = first.seconds
        for group, size in vary.large_groups() if first.raised is None else ():
            for divisor in _DIVISORS:
                if seconds < _SLOW_CALL or self._is_time_up():
                    return
                if size // divisor < _MIN_SIZE:
                    continue
                before = vary.sizes
                vary.sizes = {**before, **dict.fromkeys(group, size // divisor)}
                tried = self._try_case(vary.shrink_case(Case()))
                succeeded = tried is not None and tried.raised is None
                if tried is not None and succeeded and tried.reached == first.reached:
                    seconds = tried.seconds
                    break
                vary.sizes = before

    def _is_time_up(self) -> bool:
        return self._budget.spent

    def _has_enough(self) -> bool:
        full = len(self._chosen) >= MAX_CASES or self._seconds_left <= 0
        return len(self._chosen) >= MIN_CASES and (full or self._is_time_up())

    def _consider_case(self, case: Case, *, only_new: bool = False) -> None:
        if self._no_grad:
            case = replace(case, grad=False)
        if case in self._chosen:
            return
        tried = self._try_case(case)
        if tried is not None and tried.raised is not None and case.grad:
            without = self._try_case(replace(case, grad=False))
            if without is not None and without.raised is None:
                self._no_grad = True
                case, tried = replace(case, grad=False), without
        if tried is None:
            return
        new = self._reached.lacks(tried.reached)
        if only_new and not new:
            return
        if tried.raised is not None and not new and not _is_worth_comparing(case):
            return
        self._add_case(case, tried)

    def _add_case(self, case: Case, tried: _TriedCase) -> None:
        self._chosen[case] = None
        self._seconds_left -= _OVERHEAD + _COST * tried.seconds
        self._reached.lines |= tried.reached.lines & self._required.lines
        self._reached.sides |= tried.reached.sides & self._required.sides

    def _try_case(self, case: Case) -> _TriedCase | None:
        """Execute a test call; return None if its inputs are invalid or it takes too long."""
        if case.fills & self._endless:
            return None
        began = time.process_time()
        try:
            prepared_call = prepare_case(self._calls.build_call(), case)
        except Exception:
            return None
        rng.seed_generators(case.seed)
        raised: BaseException | None = None
        with self._capture.capture(), case_context(case), self._coverage.trace() as reached:
            try:
                with limit_seconds(
                    _CallTimeout, _WALL_FACTOR * self._call_seconds, self._call_seconds
                ):
                    tracing.call_eagerly(
                        prepared_call.function, prepared_call.args, prepared_call.kwargs
                    )
            except _CallTimeout:
                self._endless |= case.fills - {"given"}
                return None
            except BaseException as error:
                raised = error
        took = time.process_time() - began
        reached_here = ReachedCode(
            reached.lines & self._required.lines, reached.sides & self._required.sides
        )
        return _TriedCase(raised, reached_here, took)


def _is_worth_comparing(case: Case) -> bool:
    """Whether to compare a test call in which the original code raises an exception.

    Such a call is not worth comparing if it has another dtype, other strides or other parameters.
    """
    return not (case.dtype or case.strided or case.parameters != "given")


class _CaseVariations:
    """A generator of test calls (cases) that vary the inputs of one call."""

    def __init__(self, call: Call, inputs: Inputs, *, shared: bool) -> None:
        self._inputs, self._call = inputs, call
        self._shared = shared
        self.sizes: dict[tuple[int, int], int] = {}
        """Smaller sizes for all test calls but the first, by input index and dimension."""
        self._leaves = [
            (number, leaf.value)
            for number, leaf in enumerate(inputs.leaves)
            if isinstance(leaf.value, torch.Tensor) and can_be_resized(leaf.value)
        ]
        self._floats = [number for number, value in self._leaves if is_floating(value)]
        self._others = [number for number, value in self._leaves if not is_floating(value)]
        subject = subject_of(call.function)
        self._module = subject if isinstance(subject, torch.nn.Module) else None
        self._mode = self._module.training if self._module is not None else None

    def large_groups(self) -> list[tuple[tuple[tuple[int, int], ...], int]]:
        """Return groups of dimensions with their common size, the largest size first.

        Each dimension is a pair of the index of the input and the dimension's number.
        """
        found = [(group, self._size_of(group[0])) for group in self._size_groups()]
        return sorted(found, key=lambda item: -item[1])

    def shrink_case(self, case: Case) -> Case:
        """Return a test call with smaller sizes, except where the call sets sizes itself."""
        if not self.sizes:
            return case
        changes = {change.leaf: change for change in case.changes}
        for leaf, _ in self._leaves:
            change = changes.get(leaf, LeafChange(leaf, case.fill))
            own_sizes = dict(change.sizes)
            sizes = {dim: size for (at, dim), size in self.sizes.items() if at == leaf}
            if sizes and change.same_as is None and not change.other:
                changes[leaf] = replace(change, sizes=tuple({**sizes, **own_sizes}.items()))
        return replace(case, changes=tuple(changes.values()))

    def usual_cases(self) -> Iterator[Case]:
        """Yield the test calls to try with every function or module, the most informative first."""
        other = None if self._mode is None else not self._mode
        grad = bool(self._floats)
        if other is not None:
            yield Case(1, training=other)
        if self._leaves:
            yield Case(1, "random", grad=grad)
        if self._floats:
            yield Case(2, "negative", grad=True)
            yield Case(3, "positive", grad=True)
            yield Case(4, "zero", grad=True)
            yield Case(5, "nan", grad=True)
        yield from self._flag_cases()
        yield from self._size_cases(grad=grad)
        if self._others:
            for number, fill in enumerate(_OF_INTEGERS):
                yield Case(20 + number, "given", tuple(LeafChange(n, fill) for n in self._others))
        if other is not None and self._leaves:
            yield Case(6, "random", grad=grad, training=other)
        if self._floats:
            yield Case(7, "equal", grad=True)
            yield Case(8, "infinite", grad=True)
            yield Case(9, "large", grad=True)
            yield Case(10, "small", grad=True)
        yield from self._single_tensor_cases()
        if self._floats:
            yield Case(11, "random", strided=True)
        if self._floats and not self._is_large():
            yield from (
                Case(12, "random", dtype=name, grad=grad) for name in ("f64", "bf16", "f16")
            )
            yield from (Case(13, "negative", dtype=name) for name in ("f64", "f16"))
        if other is not None and self._floats:
            for number, fill in enumerate(_IN_OTHER_MODE):
                yield Case(14 + number, fill, grad=True, training=other)
        if self._module is not None and not self._shared:
            yield Case(17, "random", parameters="negative", grad=grad)
            yield Case(18, "random", parameters="random", grad=grad)
        if self._leaves:
            yield Case(19, "random", recording=False)
        yield from self._shared_tensor_cases()

    def directed_cases(self, numbers: Sequence[float]) -> Iterator[Case]:
        """Yield test calls with values near ``numbers`` (constants of the code), then random
        ones.
        """
        near_numbers = _near_numbers(numbers)
        sizes = sorted({int(n) for n in near_numbers if 0 <= n <= _MAX_SIZE and n == int(n)})
        for number in near_numbers:
            everything = tuple(LeafChange(leaf, "constant", number) for leaf, _ in self._leaves)
            if everything:
                yield Case(30, "constant", everything)
            for change in everything if len(everything) > 1 else ():
                yield Case(30, "constant", (change,))
        for group in self._size_groups():
            for size in sizes:
                yield Case(31, "random", _resize_group(group, size, "random"))
        yield from self.random_cases(numbers, 100)

    def random_cases(self, numbers: Sequence[float], first: int) -> Iterator[Case]:
        """Yield test calls with random inputs, some near ``numbers``; their seeds begin at
        ``first``.
        """
        near_numbers = _near_numbers(numbers)
        chance = random.Random(first)
        fills: tuple[Fill, ...] = (
            *("random", "positive", "negative", "zero", "nan", "infinite", "large", "small"),
            *("range", "constant", "given", "given"),
        )
        for seed in range(first, first + 100_000):
            changes = tuple(
                LeafChange(leaf, chance.choice(fills), _random_number(near_numbers, chance))
                for leaf, _ in self._leaves
            )
            other = chance.choice((True, False)) if self._mode is not None else None
            flags = tuple(change for change in self._value_changes() if chance.random() < 0.3)
            parameters: Fill = "given"
            if self._module is not None and not self._shared:
                parameters = chance.choice(("given", "given", "negative", "random", "zero"))
            if not changes and not flags and other is None:
                return
            yield Case(seed, "random", changes + flags, other, parameters)

    def _is_large(self) -> bool:
        if self._module is None:
            return False
        return self._shared or sum(p.numel() for p in self._module.parameters()) > _MAX_PARAMETERS

    def _value_changes(self) -> list[LeafChange]:
        """Return variants of one argument: inverted flags, changed numbers, None for optionals."""
        found: list[LeafChange] = []
        for number, leaf in enumerate(self._inputs.leaves):
            value = leaf.value
            if leaf.optional and value is not None:
                found.append(LeafChange(number, other="None"))
            if isinstance(value, bool):
                found.append(LeafChange(number, other=repr(not value)))
            elif type(value) is int:
                found += [
                    LeafChange(number, other=repr(one)) for one in (0, value + 1, -value or -1)
                ]
            elif type(value) is float:
                found += [
                    LeafChange(number, other=repr(one)) for one in (0.0, -value or -1.0, value / 3)
                ]
        return found

    def _flag_cases(self) -> Iterator[Case]:
        for change in self._value_changes():
            yield Case(40, "given", (change,))
            if self._floats:
                yield Case(41, "negative", (change,), grad=True)

    def _size_groups(self) -> list[tuple[tuple[int, int], ...]]:
        """Return groups of dimensions that probably need the same size.

        In this order: dimensions with the same symbol in the user's inputs, all first dimensions,
        dimensions of equal size, and each dimension alone.
        """
        leaves = {id(value): number for number, value in self._leaves}
        named: dict[str, list[tuple[int, int]]] = {}
        for dimension in self._call.dynamic:
            if id(dimension.tensor) in leaves:
                named.setdefault(dimension.symbol, []).append(
                    (leaves[id(dimension.tensor)], dimension.dim)
                )
        sized: dict[int, list[tuple[int, int]]] = {}
        for number, value in self._leaves:
            for dim, size in enumerate(value.shape):
                sized.setdefault(size, []).append((number, dim))
        first = {(number, 0) for number, value in self._leaves if value.dim()}
        alone = [(at,) for group in sized.values() for at in group]
        groups = [
            tuple(dimension)
            for dimension in (*named.values(), sorted(first), *sized.values(), *alone)
        ]
        return list(dict.fromkeys(group for group in groups if group))

    def _size_cases(self, *, grad: bool) -> Iterator[Case]:
        for group in self._size_groups()[:6]:
            size_now = self._size_of(group[0])
            for size in (0, 1, size_now + 1):
                if size != size_now:
                    yield Case(50 + size, "random", _resize_group(group, size, "random"), grad=grad)

    def _size_of(self, at: tuple[int, int]) -> int:
        leaf, dim = at
        if at in self.sizes:
            return self.sizes[at]
        return int(self._inputs.leaves[leaf].value.shape[dim])

    def _single_tensor_cases(self) -> Iterator[Case]:
        """Yield test calls that change only one input tensor."""
        if len(self._leaves) < 2:
            return
        grad = bool(self._floats)
        for leaf, value in islice(self._leaves, 4):
            for number, fill in enumerate(_ALONE if is_floating(value) else _OF_INTEGERS):
                yield Case(60 + number, "given", (LeafChange(leaf, fill),), grad=grad)

    def _shared_tensor_cases(self) -> Iterator[Case]:
        """Yield test calls that pass one tensor for two parameters with equal shapes and dtypes."""
        for (first, first_tensor), (second, second_tensor) in zip(
            self._leaves, self._leaves[1:], strict=False
        ):
            if (
                first_tensor.shape == second_tensor.shape
                and first_tensor.dtype == second_tensor.dtype
            ):
                yield Case(
                    70,
                    "random",
                    (LeafChange(second, same_as=first),),
                    grad=is_floating(first_tensor),
                )


def _resize_group(
    group: Sequence[tuple[int, int]], size: int, fill: Fill
) -> tuple[LeafChange, ...]:
    sizes: dict[int, list[tuple[int, int]]] = {}
    for leaf, dim in group:
        sizes.setdefault(leaf, []).append((dim, size))
    return tuple(
        LeafChange(leaf, fill, sizes=tuple(leaf_sizes)) for leaf, leaf_sizes in sizes.items()
    )


def _near_numbers(numbers: Sequence[float]) -> list[float]:
    return [near for n in numbers for near in (n + 1, n, n - 1, 2 * n)]


def _random_number(near: Sequence[float], chance: random.Random) -> float:
    if near and chance.random() < 0.5:
        return chance.choice(near)
    return chance.gauss(0, 1) * chance.choice((0.01, 0.1, 1.0, 10.0, 100.0, 1000.0))
