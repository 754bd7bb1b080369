"""Whether Inductor compiles a changed target, and to what gives the same results."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from .. import texts, tracing
from ..protocol import BehaviorOutcome, Observe
from ..repro.candidate import Backend
from ..repro.graphs.minimize import prepare_process
from ..repro.job import Surroundings
from ..targets import Call, Tracee, rng
from ..torch_internals import backends, dynamo
from ..torch_internals.trees import pytree
from ..tracing.drive import install_hooks, use_real_backends
from .cases import Case, Plan, Prepared, is_floating
from .comparing import bound, equal_numbers, first_difference, special_alike
from .observing import Alter, Calls, Double, environment, prepared, shaken, widened

MOST = 3
"""Cases that are compiled for."""


@dataclass(frozen=True)
class Compiled:
    """What came of it; ``reason`` is a sentence, empty for "same"."""

    outcome: BehaviorOutcome = "same"
    reason: str = ""


def _no_trials(*_: Any) -> NoReturn:
    raise NotImplementedError("this process compiles by itself")


class _Refused(Exception):
    """What the compiled target does otherwise."""


def check(
    tracee: Tracee, order: Observe, probe: int, let_start: Callable[[frozenset[str]], bool]
) -> Compiled:
    """Compile the target and call it on the first cases, in a process that ends with it."""
    packed = order.cases[probe] if probe < len(order.cases) else ""
    cases = Plan.unpacked(packed).cases[:MOST]
    refused = prepare_inductor(let_start)
    if refused:
        return Compiled("unverified", refused)
    # Random numbers are the same only if torch itself draws them.
    backends.inductor_config().fallback_random = True
    install_hooks()
    dynamo.reset()
    try:
        with use_real_backends():
            _check(tracee, cases)
    except _Refused as difference:
        return Compiled("differs", str(difference))
    return Compiled()


def prepare_inductor(let_start: Callable[[frozenset[str]], bool]) -> str:
    """Make this process one that compiles with Inductor; why that is not possible, if so."""
    scratch = os.path.join(tempfile.gettempdir(), "compiled")  # noqa: PTH118
    os.makedirs(scratch, exist_ok=True)  # noqa: PTH103
    around = Surroundings(_no_trials, lambda _: None, scratch, let_start)
    return prepare_process(Backend("inductor", "inductor", False), around)


def _check(tracee: Tracee, cases: tuple[Case, ...]) -> None:
    plain, fast = Calls(tracee, shared=True), Calls(tracee, shared=True)
    compiled: Any = torch.compile(fast.call().function, backend="inductor")
    for case in cases:
        words, left = _results(plain.call(), case, tracing.call_eagerly)
        if isinstance(left, Exception):
            continue
        exact, near = (_in_double(tracee, case, alter) for alter in (widened, shaken))
        _, right = _results(fast.call(), case, lambda _, args, kwargs: compiled(*args, **kwargs))
        beginning = f"With {words}, Inductor's code for the changed code"
        if isinstance(right, Exception):
            raise _Refused(f"{beginning} raises {texts.described(right)}.")
        if len(left) != len(right):
            raise _Refused(f"{beginning} gives {len(right)} tensors in place of {len(left)}.")
        for number, (one, two) in enumerate(zip(left, right, strict=True)):
            said = _difference(one, two, exact[number:], near[number:])
            if said:
                raise _Refused(f"{beginning} gives other results than without it: {said}.")


def _in_double(tracee: Tracee, case: Case, alter: Alter) -> list[Any]:
    with contextlib.suppress(Exception):
        _, found = _results(Calls(tracee).call(), case, tracing.call_eagerly, alter)
        if isinstance(found, list):
            return found
    return []


def _results(
    call: Call, case: Case, made: Callable[..., Any], alter: Alter = None
) -> tuple[str, list[Any] | Exception]:
    """The inputs in words; the tensors that a call returns, its inputs afterwards and gradients, or
    what it raises."""
    given = prepared(call, case, alter)
    rng.begin_again(case.seed)
    double = Double() if alter is not None else contextlib.nullcontext()
    try:
        with environment(case), double:
            returned = made(given.function, given.args, given.kwargs)
        leaves = [*pytree.tree_leaves(returned), *pytree.tree_leaves((given.args, given.kwargs))]
        leaves += _gradients(given, pytree.tree_leaves(returned))
    except Exception as error:
        return given.words, error
    return given.words, leaves


def _gradients(given: Prepared, leaves: list[Any]) -> list[Any]:
    ends = [one for one in leaves if is_floating(one) and one.requires_grad]
    starts = list(given.differentiated.values())
    if not ends or not starts:
        return []
    total = [torch.ones_like(one) for one in ends]
    return list(torch.autograd.grad(ends, starts, total, allow_unused=True))


def _difference(left: Any, right: Any, exact: list[Any], near: list[Any]) -> str:
    """In words; empty if there is none."""
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return "" if type(left) is type(right) else f"{texts.shown(right)}, not {texts.shown(left)}"
    left, right = left.detach(), right.detach()
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return f"{right.dtype} {tuple(right.shape)}, not {left.dtype} {tuple(left.shape)}"
    if equal_numbers(left, right):
        return ""
    floating = left.dtype.is_floating_point or left.dtype.is_complex
    if not floating or not special_alike(left, right):
        return first_difference(left, right)
    precise = [one[0].detach() for one in (exact, near) if one and is_floating(one[0])]
    center, off = bound(left, *precise) if len(precise) == 2 else bound(left, None, None)
    inside = ((widened(right) - center).abs() <= off)[left.isfinite()]
    return "" if bool(inside.all()) else first_difference(left, right)
