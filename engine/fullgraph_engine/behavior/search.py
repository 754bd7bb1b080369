"""Choose the cases on which two texts are compared, by executing the original.

The inputs of the probe are varied in all ways that the target accepts. Then the search looks for
values that lead to lines and branch sides that no case has reached.
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
from ..protocol.packing import packed
from ..targets import Call, ProbeError, Tracee, rng
from ..targets.deadline import within
from ..tracing.variations import Inputs, can_be_resized
from .budget import Budget
from .cases import Case, Change, Plan, is_floating
from .coverage import Coverage, Reached, constants, wanted
from .observing import Calls, environment, prepared
from .output import Capture
from .state import subject_of

MAX_CASES = 60
"""Maximum number of cases of one comparison."""
MIN_CASES = 6
_SEARCH_SHARE = 0.4
"""Share of the available time that the search for cases may use."""
_COST = 8.0
"""Ratio of the time to observe a case in all runs to the time to try it once."""
_OVERHEAD = 0.04
"""Seconds per case in all runs besides the calls, mostly for collecting facts."""
_MAX_BUILD_SECONDS = 0.05
"""Maximum seconds to build a target, for it to be built again for each case."""
_MAX_TWICE_SECONDS = 0.4
"""Maximum seconds of a call, for it to be called a second time."""
_OF_INTEGERS: tuple[Fill, ...] = ("zero", "positive", "range", "negative")
_ALONE: tuple[Fill, ...] = ("negative", "positive", "zero", "nan")
_IN_OTHER_MODE: tuple[Fill, ...] = ("negative", "nan", "zero")
_RANDOM_SEED = 1_000_000
"""First seed of random cases that a request asks for."""
_MAX_PARAMETERS = 4_000_000
"""Maximum number of parameter elements of a module that is copied for other dtypes."""
_SLOW_CALL = 0.1
"""Seconds of a call above which other cases get smaller inputs, if the target accepts them."""
_DIVISORS = (16, 4, 2)
"""Divisors tried for the sizes of smaller inputs."""
_MIN_SIZE = 4
"""Minimum of a size after the division."""
_ENDLESS = 2.0
"""Seconds after which a call counts as endless, unless the probe's call takes a tenth of them."""
_WALL_FACTOR = 3.0
"""Ratio of wall time to processor time that such a call may take."""


class _NotEnded(BaseException):
    """Raised inside a call that exceeds its time."""


@dataclass(frozen=True)
class Chosen:
    """Packed cases; or in ``reason`` a sentence that says why there are none."""

    packed: str = ""
    reason: str = ""


@dataclass(frozen=True)
class _Tried:
    raised: BaseException | None
    reached: Reached
    seconds: float


def choose(tracee: Tracee, order: Observe) -> Chosen:
    """Choose the cases for a target of the original text."""
    try:
        asked = wanted(tracee.text, tracee.path, frozenset(order.lines))
        return _Search(tracee, order, asked).run()
    except ProbeError as error:
        return Chosen(reason=str(error))


class _Search:
    def __init__(self, tracee: Tracee, order: Observe, asked: Any) -> None:
        self._tracee, self._asked = tracee, asked
        self._calls = Calls(tracee)
        self._coverage = Coverage(tracee.path, asked.lines)
        self._chosen: dict[Case, None] = {}
        self._budget = Budget(order.seconds * _SEARCH_SHARE)
        self._left = order.seconds
        """Seconds left for observing the chosen cases."""
        self._reached = Reached()
        self._capture = Capture()
        self._at_random = order.at_random
        self._no_grad = False
        """Whether the target raises an exception only if inputs require gradients."""
        self._most = order.seconds
        """Seconds of processor time after which a call is aborted."""
        self._endless: set[Fill] = set()
        """Fills with which a call did not end, such as a loop that waits for a condition on NaN."""

    def run(self) -> Chosen:
        began = time.process_time()
        call = self._calls.call()
        # A target that takes long to build is built only once.
        shared = self._calls.shared = time.process_time() - began > _MAX_BUILD_SECONDS
        inputs = Inputs(call.function, call.args, call.kwargs)
        vary = _Variations(call, inputs, shared=shared)
        first = Case()
        tried = self._try(first)
        if tried is None:
            return Chosen(reason="The inputs of the probe cannot be made a second time.")
        self._keep(first, tried)
        self._most = max(_ENDLESS, 10 * tried.seconds)
        self._make_smaller(vary, tried)
        numbers = constants(self._tracee.text, self._tracee.path)
        for case in map(
            vary.smaller, islice(vary.at_random(numbers, _RANDOM_SEED), self._at_random)
        ):
            another = self._try(case)
            if another is not None:
                self._keep(case, another)
        for case in vary.usual() if not self._at_random else ():
            if self._over():
                break
            self._consider(vary.smaller(case))
        for case in vary.directed(numbers) if not self._at_random else ():
            if not self._asked.missing(self._reached) or self._late():
                break
            self._consider(vary.smaller(case), only_new=True)
        return Chosen(packed(Plan(tuple(self._chosen), shared, tried.seconds < _MAX_TWICE_SECONDS)))

    def _make_smaller(self, vary: _Variations, first: _Tried) -> None:
        """Find smaller inputs for all cases but the first, if the first call is slow.

        Smaller inputs are used only if they reach the same lines and sides.
        """
        seconds = first.seconds
        for group, size in vary.large() if first.raised is None else ():
            for divisor in _DIVISORS:
                if seconds < _SLOW_CALL or self._late():
                    return
                if size // divisor < _MIN_SIZE:
                    continue
                before = vary.sizes
                vary.sizes = {**before, **dict.fromkeys(group, size // divisor)}
                tried = self._try(vary.smaller(Case()))
                alike = tried is not None and tried.raised is None
                if tried is not None and alike and tried.reached == first.reached:
                    seconds = tried.seconds
                    break
                vary.sizes = before

    def _late(self) -> bool:
        return self._budget.spent

    def _over(self) -> bool:
        full = len(self._chosen) >= MAX_CASES or self._left <= 0
        return len(self._chosen) >= MIN_CASES and (full or self._late())

    def _consider(self, case: Case, *, only_new: bool = False) -> None:
        if self._no_grad:
            case = replace(case, grad=False)
        if case in self._chosen:
            return
        tried = self._try(case)
        if tried is not None and tried.raised is not None and case.grad:
            without = self._try(replace(case, grad=False))
            if without is not None and without.raised is None:
                self._no_grad = True
                case, tried = replace(case, grad=False), without
        if tried is None:
            return
        new = self._reached.adds(tried.reached)
        if only_new and not new:
            return
        if tried.raised is not None and not new and not _worth(case, tried.raised):
            return
        self._keep(case, tried)

    def _keep(self, case: Case, tried: _Tried) -> None:
        self._chosen[case] = None
        self._left -= _OVERHEAD + _COST * tried.seconds
        self._reached.lines |= tried.reached.lines & self._asked.lines
        self._reached.sides |= tried.reached.sides & self._asked.sides

    def _try(self, case: Case) -> _Tried | None:
        """Execute a case; None if it does not fit the target, or does not end."""
        if case.fills & self._endless:
            return None
        began = time.process_time()
        try:
            given = prepared(self._calls.call(), case)
        except Exception:
            return None
        rng.begin_again(case.seed)
        raised: BaseException | None = None
        with self._capture.output(), environment(case), self._coverage.noting() as reached:
            try:
                with within(_NotEnded, _WALL_FACTOR * self._most, self._most):
                    tracing.call_eagerly(given.function, given.args, given.kwargs)
            except _NotEnded:
                self._endless |= case.fills - {"given"}
                return None
            except BaseException as error:
                raised = error
        took = time.process_time() - began
        here = Reached(reached.lines & self._asked.lines, reached.sides & self._asked.sides)
        return _Tried(raised, here, took)


def _worth(case: Case, raised: BaseException) -> bool:
    """Whether a case in which the original raises is worth comparing.

    A case with another dtype, other strides or other parameters is not.
    """
    return not (case.dtype or case.strided or case.parameters != "given")


class _Variations:
    """A generator of cases that vary the inputs of a call."""

    def __init__(self, call: Call, inputs: Inputs, *, shared: bool) -> None:
        self._inputs, self._call = inputs, call
        self._shared = shared
        self.sizes: dict[tuple[int, int], int] = {}
        """Sizes of all cases but the first, by leaf and dimension."""
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

    def large(self) -> list[tuple[tuple[tuple[int, int], ...], int]]:
        """Return groups of dimensions with their common size, the largest first."""
        found = [(group, self._size(group[0])) for group in self._groups()]
        return sorted(found, key=lambda one: -one[1])

    def smaller(self, case: Case) -> Case:
        """Apply the smaller sizes to a case, except where it has sizes of its own."""
        if not self.sizes:
            return case
        changes = {one.leaf: one for one in case.changes}
        for leaf, _ in self._leaves:
            change = changes.get(leaf, Change(leaf, case.fill))
            own = dict(change.sizes)
            sizes = {dim: size for (at, dim), size in self.sizes.items() if at == leaf}
            if sizes and change.same_as is None and not change.other:
                changes[leaf] = replace(change, sizes=tuple({**sizes, **own}.items()))
        return replace(case, changes=tuple(changes.values()))

    def usual(self) -> Iterator[Case]:
        """Yield the cases that are tried with every target, the most informative first."""
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
        yield from self._flags()
        yield from self._sizes(grad=grad)
        if self._others:
            for number, fill in enumerate(_OF_INTEGERS):
                yield Case(20 + number, "given", tuple(Change(n, fill) for n in self._others))
        if other is not None and self._leaves:
            yield Case(6, "random", grad=grad, training=other)
        if self._floats:
            yield Case(7, "equal", grad=True)
            yield Case(8, "infinite", grad=True)
            yield Case(9, "large", grad=True)
            yield Case(10, "small", grad=True)
        yield from self._single()
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
        yield from self._twice()

    def directed(self, numbers: Sequence[float]) -> Iterator[Case]:
        """Yield cases with values near the constants of the code, then random cases."""
        near = [one for number in numbers for one in (number + 1, number, number - 1, 2 * number)]
        sizes = sorted({int(one) for one in near if 0 <= one <= 64 and one == int(one)})
        for number in near:
            everything = tuple(Change(leaf, "constant", number) for leaf, _ in self._leaves)
            if everything:
                yield Case(30, "constant", everything)
            for change in everything if len(everything) > 1 else ():
                yield Case(30, "constant", (change,))
        for group in self._groups():
            for size in sizes:
                yield Case(31, "random", _resized(group, size, "random"))
        yield from self.at_random(numbers, 100)

    def at_random(self, numbers: Sequence[float], first: int) -> Iterator[Case]:
        """Yield random cases, with values near these numbers and others; seeds begin at ``first``."""
        near = [one for number in numbers for one in (number + 1, number, number - 1, 2 * number)]
        chance = random.Random(first)
        fills: tuple[Fill, ...] = (
            *("random", "positive", "negative", "zero", "nan", "infinite", "large", "small"),
            *("range", "constant", "given", "given"),
        )
        for seed in range(first, first + 100_000):
            changes = tuple(
                Change(leaf, chance.choice(fills), _number(near, chance))
                for leaf, _ in self._leaves
            )
            other = chance.choice((True, False)) if self._mode is not None else None
            flags = tuple(one for one in self._other_values() if chance.random() < 0.3)
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

    def _other_values(self) -> list[Change]:
        """Return changes that invert flags, change numbers, and set optional arguments to None."""
        found: list[Change] = []
        for number, leaf in enumerate(self._inputs.leaves):
            value = leaf.value
            if leaf.optional and value is not None:
                found.append(Change(number, other="None"))
            if isinstance(value, bool):
                found.append(Change(number, other=repr(not value)))
            elif type(value) is int:
                found += [Change(number, other=repr(one)) for one in (0, value + 1, -value or -1)]
            elif type(value) is float:
                found += [
                    Change(number, other=repr(one)) for one in (0.0, -value or -1.0, value / 3)
                ]
        return found

    def _flags(self) -> Iterator[Case]:
        for change in self._other_values():
            yield Case(40, "given", (change,))
            if self._floats:
                yield Case(41, "negative", (change,), grad=True)

    def _groups(self) -> list[tuple[tuple[int, int], ...]]:
        """Return groups of dimensions that probably need the same size.

        These are dimensions of one symbol, dimensions that have the same size now, and each
        dimension alone.
        """
        leaves = {id(value): number for number, value in self._leaves}
        named: dict[str, list[tuple[int, int]]] = {}
        for one in self._call.dynamic:
            if id(one.tensor) in leaves:
                named.setdefault(one.symbol, []).append((leaves[id(one.tensor)], one.dim))
        sized: dict[int, list[tuple[int, int]]] = {}
        for number, value in self._leaves:
            for dim, size in enumerate(value.shape):
                sized.setdefault(size, []).append((number, dim))
        first = {(number, 0) for number, value in self._leaves if value.dim()}
        alone = [(at,) for several in sized.values() for at in several]
        groups = [tuple(one) for one in (*named.values(), sorted(first), *sized.values(), *alone)]
        return list(dict.fromkeys(group for group in groups if group))

    def _sizes(self, *, grad: bool) -> Iterator[Case]:
        for group in self._groups()[:6]:
            now = self._size(group[0])
            for size in (0, 1, now + 1):
                if size != now:
                    yield Case(50 + size, "random", _resized(group, size, "random"), grad=grad)

    def _size(self, at: tuple[int, int]) -> int:
        leaf, dim = at
        if at in self.sizes:
            return self.sizes[at]
        return int(self._inputs.leaves[leaf].value.shape[dim])

    def _single(self) -> Iterator[Case]:
        """Yield cases that change only one tensor."""
        if len(self._leaves) < 2:
            return
        grad = bool(self._floats)
        for leaf, value in islice(self._leaves, 4):
            for number, fill in enumerate(_ALONE if is_floating(value) else _OF_INTEGERS):
                yield Case(60 + number, "given", (Change(leaf, fill),), grad=grad)

    def _twice(self) -> Iterator[Case]:
        """Yield cases that pass one tensor for two parameters with equal shape and dtype."""
        for (first, one), (second, two) in zip(self._leaves, self._leaves[1:], strict=False):
            if one.shape == two.shape and one.dtype == two.dtype:
                yield Case(70, "random", (Change(second, same_as=first),), grad=is_floating(one))


def _resized(group: Sequence[tuple[int, int]], size: int, fill: Fill) -> tuple[Change, ...]:
    sizes: dict[int, list[tuple[int, int]]] = {}
    for leaf, dim in group:
        sizes.setdefault(leaf, []).append((dim, size))
    return tuple(Change(leaf, fill, sizes=tuple(several)) for leaf, several in sizes.items())


def _number(near: Sequence[float], chance: random.Random) -> float:
    if near and chance.random() < 0.5:
        return chance.choice(near)
    return chance.gauss(0, 1) * chance.choice((0.01, 0.1, 1.0, 10.0, 100.0, 1000.0))
