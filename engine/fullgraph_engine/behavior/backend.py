"""Check that a changed function or module compiles, and compare its results with eager calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch

from .. import texts, tracing
from ..protocol import BehaviorOutcome, Observe
from ..protocol.behavior import CompilationMethod
from ..repro.candidate import Backend
from ..repro.graphs.minimize import prepare_process
from ..repro.job import Surroundings
from ..targets import Call, Tracee, rng
from ..torch_internals import backends, dynamo
from ..torch_internals.lowering import lowering_backend
from ..torch_internals.trees import pytree
from ..tracing.drive import install_hooks, use_real_backends
from .budget import ProcessorBudget
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
from .state import subject_of

_MAX_ERROR_LENGTH = 300
"""Maximum number of characters of a compiler's error that a message repeats."""


@dataclass(frozen=True)
class CompilationResult:
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
) -> CompilationResult:
    """Compile a function or module, and compare its results and gradients with eager calls.

    ``tracee`` is the function or module. ``request`` contains the test calls (cases), from which
    the calls for inference and training are made, and the compilation method. ``probe`` is the
    index of the example inputs that the cases vary. ``let_start`` permits the programs that
    Inductor starts, such as a C++ compiler. The caller must end this process after the call.
    """
    packed = request.cases[probe] if probe < len(request.cases) else ""
    cases = CasePlan.unpack(packed).cases
    method = request.compiled_by or "lowered"
    if method == "lowered":
        backends.compile_in_this_process(backends.scratch_folder())
    elif obstacle := prepare_inductor(let_start):
        return CompilationResult("unverified", obstacle)
    # Random numbers agree only if torch itself draws them.
    backends.inductor_config().fallback_random = True
    install_hooks()
    dynamo.reset()
    try:
        with use_real_backends():
            calls = _compare_calls(tracee, cases, method, ProcessorBudget(request.seconds))
    except _CompiledDifference as difference:
        return CompilationResult("differs", str(difference))
    except MemoryError:
        reason = "Memory ran out while the changed code was compiled."
        return CompilationResult("unverified", reason)
    if not calls:
        return CompilationResult("unverified", "The changed code raises in every call.")
    return CompilationResult()


def prepare_inductor(let_start: Callable[[frozenset[str]], bool]) -> str:
    """Prepare this process to compile with Inductor; return why this is impossible, else "".

    ``let_start`` permits this process to start the programs with the given names, and returns False
    if the operating system does not support such permissions.
    """
    surroundings = Surroundings(
        _refuse_trials, lambda _: None, backends.scratch_folder(), let_start
    )
    return prepare_process(Backend("inductor", "inductor", False), surroundings)


def _compare_calls(
    tracee: Tracee, cases: tuple[Case, ...], method: CompilationMethod, budget: ProcessorBudget
) -> int:
    """Compare compiled with eager calls until the time limit; return the number of equal calls.

    Raises:
        _CompiledDifference: A compiled call raises or has other results.
        MemoryError: The compiler ran out of memory.
    """
    eager_calls, compiled_calls = CallBuilder(tracee, shared=True), CallBuilder(tracee, shared=True)
    function = compiled_calls.build_call().function
    backend: Any = "inductor" if method == "inductor" else lowering_backend()
    compiled: Any = torch.compile(function, backend=backend)
    number = 0
    for case in _calls_to_compile(function, cases):
        words, left = _call_case(eager_calls.build_call(), case, tracing.call_eagerly)
        if isinstance(left, Exception):
            continue
        _, right = _call_case(
            compiled_calls.build_call(), case, lambda _, args, kwargs: compiled(*args, **kwargs)
        )
        beginning = f"{_describe_call(words, case)}, the compiled code"
        if isinstance(right, Exception):
            if texts.is_out_of_memory(right):
                raise MemoryError from right
            raise _CompiledDifference(f"{beginning} raises {_error_text(right)}.")
        difference = _first_difference(tracee, case, left, right)
        if difference:
            raise _CompiledDifference(f"{beginning} {difference}.")
        number += 1
        if budget.spent:
            break
    return number


def _calls_to_compile(function: Callable[..., Any], cases: tuple[Case, ...]) -> Iterator[Case]:
    """Yield calls for inference and for training, first with the given sizes, then with others.

    A training call is repeated, because a backward pass may free what the next one needs.
    """
    resized = [
        case
        for case in cases[1:]
        if any(change.sizes for change in case.changes)
        and case.is_finite
        and not (case.dtype or case.strided)
    ]
    subject = subject_of(function)
    is_module = isinstance(subject, torch.nn.Module)
    has_parameters = is_module and any(True for _ in subject.parameters())
    for case in (*cases[:1], *resized[:1]):
        plain = replace(case, parameters="given")
        training = replace(
            plain,
            training=True if is_module else None,
            recording=True,
            grad=case.grad or not has_parameters,
        )
        yield replace(plain, training=False if is_module else None, recording=False, grad=False)
        yield training
        yield training


def _describe_call(words: str, case: Case) -> str:
    how = "forward and backward" if case.recording else "inside torch.no_grad()"
    return f"With {words}, {how}" if words else how.capitalize()


def _error_text(error: BaseException) -> str:
    """Return the first line of a compiler's error, without Dynamo's wrapper
    ``BackendCompilerFailed``."""
    inner = getattr(error, "inner_exception", None)
    if isinstance(inner, BaseException):
        return _error_text(inner)
    return texts.shorten_line(texts.type_and_message(error), _MAX_ERROR_LENGTH).rstrip(".")


def _first_difference(tracee: Tracee, case: Case, left: list[Any], right: list[Any]) -> str:
    """Describe the first difference of the compiled values ``right`` from the eager ones; "" if
    there is none."""
    if len(left) != len(right):
        return f"gives {len(right)} tensors in place of {len(left)}"
    references: list[list[Any]] = []
    for number, (eager_value, compiled_value) in enumerate(zip(left, right, strict=True)):
        if _equal_tensors(eager_value, compiled_value):
            continue
        if not references and isinstance(eager_value, torch.Tensor):
            references = [
                _call_in_double(tracee, case, alter) for alter in (to_double, add_rounding_noise)
            ]
        exact, near = (one[number:] for one in references) if references else ([], [])
        difference = _describe_difference(eager_value, compiled_value, exact, near)
        if difference:
            return f"gives other results than without it: {difference}"
    return ""


def _equal_tensors(left: Any, right: Any) -> bool:
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return False
    left, right = left.detach(), right.detach()
    same_kind = (left.dtype, left.shape) == (right.dtype, right.shape)
    return same_kind and equal_numbers(left, right)


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
        leaves += _gradients(call, prepared_call, pytree.tree_leaves(returned))
    except Exception as error:
        return prepared_call.words, error
    return prepared_call.words, leaves


def _gradients(call: Call, prepared_call: PreparedCall, leaves: list[Any]) -> list[Any]:
    """Return the gradients of the sum of all results with respect to inputs and parameters."""
    ends = [tensor for tensor in leaves if is_floating(tensor) and tensor.requires_grad]
    starts = list(prepared_call.differentiated.values())
    subject = subject_of(call.function)
    if isinstance(subject, torch.nn.Module):
        starts += [one for one in subject.parameters() if is_floating(one) and one.requires_grad]
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
