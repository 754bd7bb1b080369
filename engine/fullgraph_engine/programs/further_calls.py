"""Call the compiled functions of a program again, with other sizes and numbers than the program.

A size or number that had several values in the program's calls gets further values. Dynamo's
recompiles in these calls show whether the next sizes of a longer run would recompile, too. The
results show whether another version of the program still computes the same.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

import torch

from .. import texts, tracing
from ..targets import rng
from ..torch_internals.regions import CompiledCall, current_stance
from ..torch_internals.trees import pytree
from .observing import input_gradients

SECONDS = 6.0
"""Maximum wall time in seconds for the further calls of one compiled function."""
_ALL_SECONDS = 12.0
"""Maximum wall time in seconds for the further calls of all compiled functions. The time left is
divided equally among the functions left."""
_REPEATS = 3
"""Number of further calls with equal arguments, if no size and no number varied."""
_LARGEST = 128
"""Maximum size in further calls, unless twice the largest size in the program's calls is more."""

_WHOLE_NUMBERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_SHUFFLED = 4
"""Number of further calls with the elements of all tensors in another order."""

Outcome = Union[list[Any], Exception]
"""Tensors, numbers and gradients of a call, or the exception that it raised."""
NoteOutcome = Callable[[str, CompiledCall, Outcome], None]
"""Type of a function that records a further call of the compiled function with the given name, and
the outcome of the call in eager mode."""

_Slot = tuple[int, int]
"""Pair of the index of an argument among all leaves, and a dimension of that tensor (-1 for a
number).
"""


@dataclass
class RegionArguments:
    """The arguments of a compiled function in the calls of a program."""

    compiled: Any
    """The compiled function or module, which the program calls."""
    last: CompiledCall | None = None
    """Latest call, with copies of its tensors."""
    structure: Any = None
    values: dict[_Slot, list[float]] = field(default_factory=dict)
    """Sizes and numbers in each call, by argument."""
    grad: bool = True
    inference: bool = False
    special: bool = False
    """True if the latest call was made under autocast or a torch function mode."""
    training: tuple[bool, ...] = ()
    name: str = ""
    """Name of the compiled function."""

    def note_call(self, call: CompiledCall) -> None:
        """Add the arguments of a new call. Do nothing if ``torch.compiler.set_stance`` changed how
        the call runs.
        """
        if current_stance() != "default":
            return
        leaves, structure = pytree.tree_flatten((call.args, call.kwargs))
        if structure != self.structure:
            self.structure, self.values = structure, {}
        for slot, value in _slots(leaves):
            self.values.setdefault(slot, []).append(value)
        self.last = _with_arguments(call, lambda _, leaf: _copy(leaf))
        self.grad, self.inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        self.special = torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
        self.training = tuple(one.training for one in _modules(call))

    def varied_groups(self) -> list[list[_Slot]]:
        """Return the sizes and numbers that varied between calls.

        Sizes and numbers with equal values in every call are in one list.
        """
        most = max(map(len, self.values.values()), default=0)
        groups: dict[tuple[float, ...], list[_Slot]] = {}
        for slot, values in self.values.items():
            if len(values) == most and len(set(values)) > 1:
                groups.setdefault(tuple(values), []).append(slot)
        return list(groups.values())


def _slots(leaves: Sequence[Any]) -> Iterator[tuple[_Slot, float]]:
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            for axis, size in enumerate(leaf.shape):
                yield (number, axis), int(size)
        elif type(leaf) in (int, float):
            yield (number, -1), leaf


def _copy(leaf: Any) -> Any:
    """Return a copy of a tensor, which later calls do not change; other values are returned
    unchanged."""
    if type(leaf) is torch.nn.Parameter:
        return torch.nn.Parameter(leaf.detach().clone(), leaf.requires_grad)
    if type(leaf) is not torch.Tensor:
        return leaf
    return leaf.detach().clone().requires_grad_(leaf.requires_grad)


def _modules(call: CompiledCall) -> list[torch.nn.Module]:
    owner = getattr(call.function, "__self__", call.function)
    found = [owner, *pytree.tree_leaves((call.args, call.kwargs))]
    return [one for each in found if isinstance(each, torch.nn.Module) for one in each.modules()]


def make_further_calls(
    regions: Sequence[RegionArguments],
    most: int,
    remember: Callable[[], Callable[[], None]] = lambda: lambda: None,
    note: NoteOutcome | None = None,
) -> tuple[int, str]:
    """Call each compiled function up to ``most`` more times, with other sizes and numbers.

    ``remember`` returns a function that removes what Dynamo did since. It is called for calls that
    raise in eager mode, too. ``note`` is called with the outcome of each call in eager mode, unless
    two equal calls have different outcomes; with ``note``, there are also calls with other elements
    in the tensors.
    Return the number of calls, and a description of the first difference between a call and the
    same call in eager mode. The description is empty without a difference.
    """
    count, difference = 0, ""
    regions = [one for one in regions if one.last is not None and not one.special]
    until = time.monotonic() + _ALL_SECONDS
    for number, region in enumerate(regions):
        began = time.monotonic()
        ends = began + min(SECONDS, (until - began) / (len(regions) - number))
        others = _calls_with_other_elements(region) if note is not None else ()
        for call in itertools.chain(_changed_calls(region, most), others):
            if time.monotonic() > ends:
                break
            differs = _call_both(region, call, remember(), note)
            count += differs is not None
            difference = difference or differs or ""
    return count, difference


def _changed_calls(region: RegionArguments, most: int) -> Iterator[CompiledCall]:
    """Yield calls of a compiled function with new sizes and numbers; if none varied in the program,
    yield the latest call a few times."""
    call, groups = region.last, region.varied_groups()
    assert call is not None
    if not groups:
        yield from [call] * _REPEATS
        return
    draw = random.Random(0)
    choices = [_further_values(region, group, most, draw) for group in groups]
    for number in range(most):
        changed = {
            slot: values[number % len(values)]
            for group, values in zip(groups, choices, strict=True)
            for slot in group
        }
        yield _with_arguments(call, functools.partial(_change, changed))


def _calls_with_other_elements(region: RegionArguments) -> Iterator[CompiledCall]:
    """Yield the latest call of a compiled function with other elements in its tensors: in another
    order, and for each tensor of integers or booleans once only its smallest and once only its
    largest element."""
    call = region.last
    assert call is not None
    leaves = pytree.tree_leaves((call.args, call.kwargs))
    if not any(map(_has_several_elements, leaves)):
        return
    generator = torch.Generator().manual_seed(0)
    for _ in range(_SHUFFLED):
        yield _with_arguments(call, lambda _, leaf: _shuffle(leaf, generator))
    for at, leaf in enumerate(leaves):
        if not _has_several_elements(leaf) or leaf.dtype not in _WHOLE_NUMBERS:
            continue
        for element in sorted({leaf.min().item(), leaf.max().item()}):
            yield _with_arguments(call, functools.partial(_fill_leaf, at, element))


def _has_several_elements(leaf: Any) -> bool:
    """Whether an argument is a plain tensor with more than one element."""
    return type(leaf) is torch.Tensor and leaf.numel() > 1


def _with_arguments(call: CompiledCall, change: Callable[[int, Any], Any]) -> CompiledCall:
    """Return a call with changed arguments: the result of ``change`` for the index and the value of
    each leaf of the arguments."""
    leaves, structure = pytree.tree_flatten((call.args, call.kwargs))
    changed = [change(index, leaf) for index, leaf in enumerate(leaves)]
    args, kwargs = pytree.tree_unflatten(changed, structure)
    return CompiledCall(call.function, args, kwargs)


def _fill_leaf(at: int, element: float, index: int, leaf: Any) -> Any:
    """Return the argument with index ``at`` filled with an element; others are returned
    unchanged."""
    return torch.full_like(leaf, element) if index == at else leaf


def _shuffle(leaf: Any, generator: torch.Generator) -> Any:
    """Return a tensor with the same elements in another order; other values are returned
    unchanged."""
    if not _has_several_elements(leaf):
        return leaf
    order = torch.randperm(leaf.numel(), generator=generator).to(leaf.device)
    new = leaf.detach().reshape(-1)[order].reshape(leaf.shape)
    return new.requires_grad_(leaf.requires_grad)


def _further_values(
    region: RegionArguments, group: Sequence[_Slot], most: int, draw: random.Random
) -> list[float]:
    """Return at most ``most`` new values for a size or number that varied between the calls of a
    program.

    ``group`` are the arguments that always have this value together. ``draw`` generates random
    numbers.
    """
    seen = region.values[group[0]]
    low, high = min(seen), max(seen)
    if any(isinstance(value, float) for value in seen):
        return [draw.uniform(low, high) for _ in range(most)]
    if all(axis < 0 for _, axis in group):
        return [draw.randint(int(low), int(2 * high) + most) for _ in range(most)]
    # Dynamo always treats a size of 0 or 1 as a constant.
    least = 2
    step = math.gcd(*(int(one) for one in seen if one > 1)) or 1
    top = max(_LARGEST, 2 * int(high))
    sizes = [size for size in range(least, top + 1) if size % step == 0 and size not in seen]
    draw.shuffle(sizes)
    return [float(size) for size in sizes[:most]] or [high]


def _change(changed: dict[_Slot, float], index: int, leaf: Any) -> Any:
    """Return an argument with the sizes or the number that ``changed`` contains for it.

    ``index`` is the index of the argument ``leaf``. A resized tensor repeats its elements, so that
    they stay valid, for example as indices.
    """
    if not isinstance(leaf, torch.Tensor):
        value = changed.get((index, -1))
        return leaf if value is None else type(leaf)(value)
    new = leaf.detach()
    for axis, size in enumerate(leaf.shape):
        value = changed.get((index, axis))
        if value is not None:
            places = torch.arange(int(value), device=leaf.device) % max(size, 1)
            new = new.index_select(axis, places)
    if type(leaf) is torch.nn.Parameter:
        return torch.nn.Parameter(new, leaf.requires_grad)
    return new.requires_grad_(leaf.requires_grad)


def _call_both(
    region: RegionArguments,
    call: CompiledCall,
    remove_records: Callable[[], None],
    note: NoteOutcome | None,
) -> str | None:
    """Make a call with and without Dynamo.

    Return how the results differ, "" if they agree, or None if the call raises without Dynamo.
    """
    with _same_modes(region, call):
        first = _outcome(call, lambda one: tracing.call_eagerly(call.function, *one))
        if isinstance(first, Exception):
            if note is not None:
                note(region.name, call, first)
            return None
        compiled = _outcome(call, lambda one: region.compiled(*one[0], **one[1]))
        again = _outcome(call, lambda one: tracing.call_eagerly(call.function, *one))
        if isinstance(compiled, Exception):
            # A call may raise after several calls, for example when a cache is full.
            also = isinstance(again, Exception)
            words = f"the compiled call raises {texts.type_and_message(compiled)}"
            if also:
                remove_records()
            return None if also else words
    # A call that changes state, such as a counter, has another result each time.
    if isinstance(again, Exception) or not _agree(first, again):
        return ""
    if note is not None:
        note(region.name, call, first)
    return "" if _agree(first, compiled) else "results or gradients differ from eager mode"


@contextlib.contextmanager
def _same_modes(region: RegionArguments, call: CompiledCall) -> Iterator[None]:
    """Set the gradient mode, and the training mode of modules, as in the latest call of the
    program.
    """
    modules = _modules(call)
    before = [one.training for one in modules]
    if len(modules) == len(region.training):
        _set_modes(modules, region.training)
    try:
        with torch.inference_mode(region.inference), torch.set_grad_enabled(region.grad):
            yield
    finally:
        _set_modes(modules, before)


def _set_modes(modules: Sequence[torch.nn.Module], modes: Sequence[bool]) -> None:
    for module, mode in zip(modules, modes, strict=True):
        module.training = mode


def _outcome(
    call: CompiledCall, make: Callable[[tuple[tuple[Any, ...], dict[str, Any]]], Any]
) -> Outcome:
    """Make a call with copied arguments by ``make``; return its tensors, numbers and gradients, or
    its exception.
    """
    made = _with_arguments(call, lambda _, leaf: _copy(leaf))
    rng.seed_generators()
    try:
        result = make((made.args, made.kwargs))
        found = [
            one
            for one in pytree.tree_leaves(result)
            if isinstance(one, (torch.Tensor, int, float, str))
        ]
        outputs = [one for one in found if isinstance(one, torch.Tensor)]
        return [*found, *input_gradients(made, outputs)]
    except Exception as error:
        return error


def _agree(one: Outcome, other: Outcome) -> bool:
    if isinstance(one, Exception) or isinstance(other, Exception):
        return False
    try:
        torch.testing.assert_close(one, other, equal_nan=True, check_stride=False)
    except (AssertionError, TypeError):
        return False
    return True
