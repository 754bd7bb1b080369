"""Choosing the cases to compare two texts on, by executing the original.

The probe's inputs are varied in all the ways that the target accepts. Then values are looked for
that lead to lines and sides of conditions that no case has reached.
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

MOST = 60
"""Cases of one comparison."""
LEAST = 6
_SEARCH = 0.4
"""The part of the time in which cases are chosen."""
_COST = 8.0
"""How much longer it takes to observe a case in all runs than to try it."""
_OVERHEAD = 0.04
"""Seconds that every case takes, in all runs: most of it for taking apart what it did."""
_BUILD, _SLOW = 0.05, 0.4
"""Seconds that making a target may take if it is made for each case, and a call that is made a
second time."""
_OF_INTEGERS: tuple[Fill, ...] = ("zero", "positive", "range", "negative")
_ALONE: tuple[Fill, ...] = ("negative", "positive", "zero", "nan")
_IN_OTHER_MODE: tuple[Fill, ...] = ("negative", "nan", "zero")
_APART = 1_000_000
"""The first seed of cases at random, where no others are wanted."""
_LARGE = 4_000_000
"""Elements of parameters from which on a module is not copied for other dtypes."""
_HEAVY = 0.1
"""Seconds of a call from which on other cases have smaller inputs, where the target takes them."""
_SMALLER = (16, 4, 2)
"""By what sizes are divided then."""
_STILL = 4
"""The least that a size becomes so."""
_ENDLESS = 2.0
"""Seconds after which a call does not end, where that of the probe takes a tenth of them."""
_WAITING = 3.0
"""How much longer it may take by the clock."""


class _NotEnded(BaseException):
    """Raised in a call that has taken too long."""


@dataclass(frozen=True)
class Chosen:
    """Cases, packed; or why there are none, as a sentence; or that they need real tensors."""

    packed: str = ""
    reason: str = ""


@dataclass(frozen=True)
class _Tried:
    raised: BaseException | None
    reached: Reached
    seconds: float


def choose(tracee: Tracee, order: Observe) -> Chosen:
    """The cases for a target of the original."""
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
        self._budget = Budget(order.seconds * _SEARCH)
        self._left = order.seconds
        """Seconds that observing the chosen cases may take."""
        self._reached = Reached()
        self._capture = Capture()
        self._at_random = order.at_random
        self._no_grad = False
        """With gradients the target raises what it does not raise without."""
        self._most = order.seconds
        """Seconds after which a call is given up, of processor time."""
        self._endless: set[Fill] = set()
        """Values with which a call did not end: a loop may wait for what NaN never is."""

    def run(self) -> Chosen:
        began = time.process_time()
        call = self._calls.call()
        # What takes long to make is made once.
        shared = self._calls.shared = time.process_time() - began > _BUILD
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
        for case in map(vary.smaller, islice(vary.at_random(numbers, _APART), self._at_random)):
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
        return Chosen(packed(Plan(tuple(self._chosen), shared, tried.seconds < _SLOW)))

    def _make_smaller(self, vary: _Variations, first: _Tried) -> None:
        """Find smaller inputs for all cases but the first, where that one takes long: they have to
        do the same as far as is seen, or they are not taken."""
        seconds = first.seconds
        for group, size in vary.large() if first.raised is None else ():
            for divisor in _SMALLER:
                if seconds < _HEAVY or self._late():
                    return
                if size // divisor < _STILL:
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
        full = len(self._chosen) >= MOST or self._left <= 0
        return len(self._chosen) >= LEAST and (full or self._late())

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
                with within(_NotEnded, _WAITING * self._most, self._most):
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
    """Whether a case is worth to be compared in which the original raises: one of other dtypes or
    strides, or with other parameters, is only where it does not."""
    return not (case.dtype or case.strided or case.parameters != "given")


class _Variations:
    """What can be another one in a call."""

    def __init__(self, call: Call, inputs: Inputs, *, shared: bool) -> None:
        self._inputs, self._call = inputs, call
        self._shared = shared
        self.sizes: dict[tuple[int, int], int] = {}
        """Sizes that all cases have but the first, by leaf and dimension."""
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
        """Dimensions of one size, and that: the largest first."""
        found = [(group, self._size(group[0])) for group in self._groups()]
        return sorted(found, key=lambda one: -one[1])

    def smaller(self, case: Case) -> Case:
        """A case with the smaller sizes, as far as it has no others."""
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
        """Those that are tried with every target, the most telling first."""
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
        """Others, on and on: near the numbers that the code has, and at random."""
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
        """Others at random, near these numbers and not, with seeds from the first on."""
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
        return self._shared or sum(p.numel() for p in self._module.parameters()) > _LARGE

    def _other_values(self) -> list[Change]:
        """Flags turned, numbers changed, optional arguments left out."""
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
        """Dimensions that have to be of one size, as far as that is known: of one symbol, else of
        the same size now; and each dimension alone."""
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
        """Each tensor alone."""
        if len(self._leaves) < 2:
            return
        grad = bool(self._floats)
        for leaf, value in islice(self._leaves, 4):
            for number, fill in enumerate(_ALONE if is_floating(value) else _OF_INTEGERS):
                yield Case(60 + number, "given", (Change(leaf, fill),), grad=grad)

    def _twice(self) -> Iterator[Case]:
        """One tensor in place of two that are alike."""
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
