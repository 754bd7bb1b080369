"""Check that Inductor compiles a changed function or module, and compare its results with eager."""

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
from .cases import Case, CasePlan, PreparedCall, is_floating
from .comparing import allowed_deviation, describe_difference, equal_numbers, same_special_values
from .observing import (
    CallBuilder,
    DoublePrecisionMode,
    TensorTransform,
    add_rounding_noise,
    case_context,
    prepare_case,
    to_double,
)

MAX_CASES = 3
"""Maximum number of test calls (cases) with which the compiled function or module is checked."""


@dataclass(frozen=True)
class InductorResult:
    """Outcome of comparing a compiled function or module with eager execution.

    ``reason`` is a sentence that explains the outcome; it is empty for the outcome "same".
    """

    outcome: BehaviorOutcome = "same"
    reason: str = ""


def _refuse_trials(*_: Any) -> NoReturn:
    raise NotImplementedError("this process compiles by itself")


class _CompiledDifference(Exception):
    """Raised with a description of the first difference between compiled and eager results."""


def check_compiled(
    tracee: Tracee, request: Observe, probe: int, let_start: Callable[[frozenset[str]], bool]
) -> InductorResult:
    """Compile a function or module with Inductor and compare its results with eager calls.

    ``tracee`` is the function or module. ``request`` contains the test calls (cases); only the
    first few are used. ``probe`` is the index of the example inputs that they vary. ``let_start``
    permits the programs that Inductor starts, such as a C++ compiler. The caller must end this
    process after the call.
    """
    packed = request.cases[probe] if probe < len(request.cases) else ""
    cases = CasePlan.unpack(packed).cases[:MAX_CASES]
    obstacle = prepare_inductor(let_start)
    if obstacle:
        return InductorResult("unverified", obstacle)
    # Random numbers agree only if torch itself draws them.
    backends.inductor_config().fallback_random = True
    install_hooks()
    dynamo.reset()
    try:
        with use_real_backends():
            _compare_cases(tracee, cases)
    except _CompiledDifference as difference:
        return InductorResult("differs", str(difference))
    return InductorResult()


def prepare_inductor(let_start: Callable[[frozenset[str]], bool]) -> str:
    """Prepare this process to compile with Inductor; return why this is impossible, else "".

    ``let_start`` permits this process to start the programs with the given names, and returns False
    if the operating system does not support such permissions.
    """
    scratch = os.path.join(tempfile.gettempdir(), "compiled")  # noqa: PTH118
    os.makedirs(scratch, exist_ok=True)  # noqa: PTH103
    surroundings = Surroundings(_refuse_trials, lambda _: None, scratch, let_start)
    return prepare_process(Backend("inductor", "inductor", False), surroundings)


def _compare_cases(tracee: Tracee, cases: tuple[Case, ...]) -> None:
    eager_calls, compiled_calls = CallBuilder(tracee, shared=True), CallBuilder(tracee, shared=True)
    compiled: Any = torch.compile(compiled_calls.build_call().function, backend="inductor")
    for case in cases:
        words, left = _call_case(eager_calls.build_call(), case, tracing.call_eagerly)
        if isinstance(left, Exception):
            continue
        exact, near = (
            _call_in_double(tracee, case, alter) for alter in (to_double, add_rounding_noise)
        )
        _, right = _call_case(
            compiled_calls.build_call(), case, lambda _, args, kwargs: compiled(*args, **kwargs)
        )
        beginning = f"With {words}, Inductor's code for the changed code"
        if isinstance(right, Exception):
            raise _CompiledDifference(f"{beginning} raises {texts.type_and_message(right)}.")
        if len(left) != len(right):
            raise _CompiledDifference(
                f"{beginning} gives {len(right)} tensors in place of {len(left)}."
            )
        for number, (eager_value, compiled_value) in enumerate(zip(left, right, strict=True)):
            difference = _describe_difference(
                eager_value, compiled_value, exact[number:], near[number:]
            )
            if difference:
                raise _CompiledDifference(
                    f"{beginning} gives other results than without it: {difference}."
                )


def _call_in_double(tracee: Tracee, case: Case, alter: TensorTransform) -> list[Any]:
    with contextlib.suppress(Exception):
        _, found = _call_case(CallBuilder(tracee).build_call(), case, tracing.call_eagerly, alter)
        if isinstance(found, list):
            return found
    return []


def _call_case(
    call: Call, case: Case, run: Callable[..., Any], alter: TensorTransform = None
) -> tuple[str, list[Any] | Exception]:
    """Call the function or module with the inputs of one test call; return inputs and tensors.

    The inputs are returned as Python source. The tensors are the results, the inputs after the call
    and the gradients; if the call raises, the exception is returned instead. ``run`` executes the
    call: eagerly, or compiled. ``alter`` converts each input tensor, for example to double
    precision.
    """
    prepared_call = prepare_case(call, case, alter)
    rng.seed_generators(case.seed)
    double = DoublePrecisionMode() if alter is not None else contextlib.nullcontext()
    try:
        with case_context(case), double:
            returned = run(prepared_call.function, prepared_call.args, prepared_call.kwargs)
        leaves = [
            *pytree.tree_leaves(returned),
            *pytree.tree_leaves((prepared_call.args, prepared_call.kwargs)),
        ]
        leaves += _input_gradients(prepared_call, pytree.tree_leaves(returned))
    except Exception as error:
        return prepared_call.words, error
    return prepared_call.words, leaves


def _input_gradients(prepared_call: PreparedCall, leaves: list[Any]) -> list[Any]:
    ends = [tensor for tensor in leaves if is_floating(tensor) and tensor.requires_grad]
    starts = list(prepared_call.differentiated.values())
    if not ends or not starts:
        return []
    total = [torch.ones_like(tensor) for tensor in ends]
    return list(torch.autograd.grad(ends, starts, total, allow_unused=True))


def _describe_difference(left: Any, right: Any, exact: list[Any], near: list[Any]) -> str:
    """Describe how the compiled value ``right`` differs from the eager value ``left``.

    Return "" if they agree within rounding. ``exact`` and ``near`` are the same value computed in
    double precision, for the same inputs and for slightly changed inputs; they are empty if
    unknown.
    """
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return (
            ""
            if type(left) is type(right)
            else f"{texts.safe_repr(right)}, not {texts.safe_repr(left)}"
        )
    left, right = left.detach(), right.detach()
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return f"{right.dtype} {tuple(right.shape)}, not {left.dtype} {tuple(left.shape)}"
    if equal_numbers(left, right):
        return ""
    floating = left.dtype.is_floating_point or left.dtype.is_complex
    if not floating or not same_special_values(left, right):
        return describe_difference(left, right)
    precise = [
        reference[0].detach()
        for reference in (exact, near)
        if reference and is_floating(reference[0])
    ]
    center, tolerance = (
        allowed_deviation(left, *precise)
        if len(precise) == 2
        else allowed_deviation(left, None, None)
    )
    inside = ((to_double(right) - center).abs() <= tolerance)[left.isfinite()]
    return "" if bool(inside.all()) else describe_difference(left, right)
