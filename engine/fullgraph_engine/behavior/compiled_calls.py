"""Calls of a function or module, eager or compiled, whose results and gradients are compared."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from .. import texts, tracing
from ..targets import Call, Tracee, rng
from ..torch_internals import backends, dynamo
from ..torch_internals.trees import pytree
from ..tracing.drive import install_hooks
from .cases import Case, PreparedCall, is_floating
from .comparing import (
    EAGER_AND_COMPILED,
    allowed_deviation,
    describe_difference,
    equal_numbers,
    same_special_values,
)
from .gradients import gradients_of_outputs
from .observing import (
    CallBuilder,
    DoublePrecisionMode,
    TensorTransform,
    case_context,
    prepare_case,
    to_double,
)
from .state import subject_of

COMPARABLE = 0.05
"""Maximum deviation of eager results from double precision that counts as rounding, as a share of
the largest element.
"""
_MOST_VALUES = 24
"""Maximum number of compiled calls with the given sizes and other values."""
_MAX_ERROR_LENGTH = 300
"""Maximum number of characters of a compiler's error that a message repeats."""


def prepare_comparison() -> None:
    """Prepare this process to compile calls and to compare their results with eager calls."""
    # Random numbers agree only if torch itself draws them.
    backends.inductor_config().fallback_random = True
    install_hooks()
    dynamo.reset()


def calls_to_compile(function: Callable[..., Any], cases: tuple[Case, ...]) -> Iterator[Case]:
    """Yield calls for inference and for training, first with the given sizes, then with other
    sizes, and further calls for training with the given sizes and other values.

    The other sizes are at least 2 if such a call exists. Dynamo treats 0 and 1 as constants, and
    torch itself cannot compile the gradients of some losses for empty tensors.

    Each training call is yielded twice, because a backward pass may free data that a second call
    needs.
    """
    usual = [case for case in cases[1:] if case.is_finite and not (case.dtype or case.strided)]
    resized = [case for case in usual if any(change.sizes for change in case.changes)]
    resized.sort(
        key=lambda case: any(size < 2 for change in case.changes for _, size in change.sizes)
    )
    refilled = [case for case in usual if _only_changes_elements(case)]
    subject = subject_of(function)
    is_module = isinstance(subject, torch.nn.Module)
    has_parameters = is_module and any(True for _ in subject.parameters())

    def for_training(case: Case) -> Case:
        return replace(
            case,
            parameters="given",
            training=True if is_module else None,
            recording=True,
            grad=case.grad or not has_parameters,
        )

    for case in (*cases[:1], *resized[:1]):
        training = for_training(case)
        yield replace(training, training=False if is_module else None, recording=False, grad=False)
        yield training
        yield training
    # These calls do not compile again. Compiled code may be wrong for some values only, because it
    # may assume the result of a condition.
    for case in refilled[:_MOST_VALUES]:
        yield for_training(replace(case, grad=cases[0].grad))


def _only_changes_elements(case: Case) -> bool:
    """Whether a test call differs from the first one only in the elements of tensors."""
    return not any(
        change.sizes or change.other or change.same_as is not None for change in case.changes
    )


def describe_call(words: str, case: Case) -> str:
    """Return the beginning of a sentence that describes a test call.

    It names the inputs (``words``) and says whether the call records gradients.
    """
    how = "forward and backward" if case.recording else "inside torch.no_grad()"
    return f"With {words}, {how}" if words else how.capitalize()


def error_text(error: BaseException) -> str:
    """Return the first line of a compiler's error, without Dynamo's wrapper
    ``BackendCompilerFailed``."""
    inner = getattr(error, "inner_exception", None)
    if isinstance(inner, BaseException):
        return error_text(inner)
    return texts.shorten_line(texts.type_and_message(error), _MAX_ERROR_LENGTH).rstrip(".")


def equal_tensors(left: Any, right: Any) -> bool:
    """Whether two values are tensors with the same dtype, shape and elements."""
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return False
    left, right = left.detach(), right.detach()
    same_kind = (left.dtype, left.shape) == (right.dtype, right.shape)
    return same_kind and equal_numbers(left, right)


def call_in_double(tracee: Tracee, case: Case, alter: TensorTransform) -> list[Any]:
    """Return the tensors of an eager test call in double precision; empty if the call raises.

    ``alter`` converts each input tensor to double precision, and may add noise to it.
    """
    with contextlib.suppress(Exception):
        call = CallBuilder(tracee).build_call()
        _, found = call_case(call, case, tracing.call_eagerly, alter, in_double=True)
        if isinstance(found, list):
            return found
    return []


def call_case(
    call: Call,
    case: Case,
    run: Callable[..., Any],
    alter: TensorTransform = None,
    *,
    in_double: bool = False,
) -> tuple[str, list[Any] | Exception]:
    """Call the function or module with the inputs of one test call; return inputs and tensors.

    The inputs are returned as Python source. The tensors are the results, the inputs, parameters
    and buffers after the call, and the gradients; if the call raises, the exception is returned
    instead. ``run`` executes the call: eagerly, or compiled. ``alter`` converts each input tensor,
    for example to double precision; with ``in_double``, all torch functions compute in double
    precision.
    """
    prepared_call = prepare_case(call, case, alter)
    rng.seed_generators(case.seed)
    double = DoublePrecisionMode() if in_double else contextlib.nullcontext()
    try:
        with case_context(case), double:
            returned = run(prepared_call.function, prepared_call.args, prepared_call.kwargs)
        leaves = [
            *pytree.tree_leaves(returned),
            *pytree.tree_leaves((prepared_call.args, prepared_call.kwargs)),
        ]
        subject = subject_of(call.function)
        if isinstance(subject, torch.nn.Module):
            # The next call may change them in place.
            state = (*subject.parameters(), *subject.buffers())
            leaves += [one.detach().clone() for one in state]
        leaves += _gradients(call, prepared_call, pytree.tree_leaves(returned))
    except Exception as error:
        return prepared_call.words, error
    return prepared_call.words, leaves


def _gradients(call: Call, prepared_call: PreparedCall, leaves: list[Any]) -> list[Any]:
    """Return the gradients of a weighted sum of all results with respect to inputs and
    parameters."""
    starts = list(prepared_call.differentiated.values())
    subject = subject_of(call.function)
    if isinstance(subject, torch.nn.Module):
        starts += [one for one in subject.parameters() if is_floating(one) and one.requires_grad]
    return gradients_of_leaves(leaves, starts)


def gradients_of_leaves(leaves: list[Any], starts: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """Return the gradients of a weighted sum of the tensors in ``leaves`` that require gradients,
    with respect to ``starts``; see :func:`gradients_of_outputs`."""
    ends = [one for one in leaves if is_floating(one) and one.requires_grad]
    return gradients_of_outputs(ends, starts)


def describe_deviation(
    left: Any, right: Any, exact: Sequence[Any], near: Sequence[Any], scale: float = 0.0
) -> str:
    """Describe how the compiled value ``right`` differs from the eager value ``left``.

    Return "" if they agree within rounding. ``exact`` and ``near`` are the same value in double
    precision, for the same inputs and for slightly changed inputs. Both are empty if unknown. The
    allowed deviation is then the square root of the dtype's epsilon, relative to the largest
    element. ``scale`` is the largest element of all tensors of the call.
    """
    sources = EAGER_AND_COMPILED
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
        return describe_difference(left, right, sources)
    precise = [
        reference[0].detach()
        for reference in (exact, near)
        if reference and is_floating(reference[0])
    ]
    if len(precise) == 2 and is_comparable(left, precise[0], scale):
        center, tolerance = allowed_deviation(left, *precise)
    else:
        center = to_double(left)
        tolerance = torch.finfo(left.dtype).eps ** 0.5 * largest_element(center)
    inside = ((to_double(right) - center).abs() <= tolerance)[left.isfinite()]
    return "" if bool(inside.all()) else describe_difference(left, right, sources)


def is_comparable(value: torch.Tensor, exact: torch.Tensor, scale: float = 0.0) -> bool:
    """Whether ``exact``, computed in double precision, can serve as a reference for the eager
    ``value``.

    It cannot if the code draws random numbers, because double precision draws different ones.
    ``scale`` is the largest element of all tensors of the call. If ``value`` is tiny compared with
    it, larger deviations are accepted, because ``value`` may consist of rounding errors only. An
    example is the gradient of a bias before a normalization.
    """
    if value.shape != exact.shape:
        return False
    rounding = float(torch.finfo(value.dtype).eps) ** 0.5 * scale
    allowed = max(COMPARABLE, rounding / float(largest_element(exact.detach())))
    return bool(relative_error(value, exact) <= allowed)


def relative_error(value: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the largest deviation of finite elements of ``value`` from ``exact``, divided by the
    largest element of ``exact``.
    """
    wide, exact = to_double(value.detach()), exact.detach()
    finite = wide.isfinite() & exact.isfinite()
    deviation = (wide - exact)[finite].abs()
    return float(deviation.max() / largest_element(exact)) if deviation.numel() else 0.0


def largest_element(tensor: torch.Tensor) -> torch.Tensor:
    """Return the largest absolute value of finite elements as a scalar tensor; 1 if all are 0."""
    finite = tensor[tensor.isfinite()].abs()
    largest = finite.max() if finite.numel() else torch.zeros(())
    return largest if bool(largest) else torch.ones_like(largest)
