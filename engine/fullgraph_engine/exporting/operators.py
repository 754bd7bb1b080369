"""Check the custom operators of a file with ``opcheck``, on the calls that its functions make."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import texts, tracing
from ..protocol.evidence import OperatorCall, TensorForm
from ..targets import Call
from ..torch_internals.fake_tensors import TorchDispatchMode
from ..torch_internals.trees import pytree
from ..tracing.variations import Inputs, can_be_resized

_MAX_GROUPS = 4
"""Maximum number of groups of equal sizes, in one call, for which other sizes are tried."""
_MAX_CALLS = 8
"""Maximum number of calls with which each custom operator is checked."""


@dataclass(frozen=True)
class CheckedOperator:
    """The result of checking one custom operator with ``torch.library.opcheck``.

    ``operator`` is its name in ``torch.ops``, with the overload. ``line`` is the zero-based line of
    the file that names it. ``wrong`` is the error that ``opcheck`` raised; empty if the check
    passed.
    """

    operator: str
    line: int
    calls: tuple[OperatorCall, ...] = ()
    wrong: str = ""


@dataclass(frozen=True)
class _OperatorInvocation:
    operator: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Any


class _InvocationRecorder(TorchDispatchMode):
    """A dispatch mode that records calls of a file's custom operators, with copies of the arguments
    made before the call."""

    def __init__(self, defined: Sequence[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._defined = defined
        self.seen: list[_OperatorInvocation] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _operator_name(func) not in self._defined:
            return func(*args, **kwargs)
        before, named = pytree.tree_map(_copy_tensor, (tuple(args), dict(kwargs)))
        outputs = func(*args, **kwargs)
        self.seen.append(_OperatorInvocation(func, before, named, outputs))
        return outputs


def check_operators(call: Call, text: str) -> tuple[CheckedOperator, ...]:
    """Run ``torch.library.opcheck`` on the custom operators that a file defines and a call
    executes.

    ``text`` is the file's source code. Each operator is checked with the sizes of the call, with
    other sizes that the call accepts, and with other strides.
    """
    lines = {
        found[1]: text.count("\n", 0, found.start())
        for found in re.finditer(r"""["'](\w+::\w+)["'(]""", text)
    }
    if not lines:
        return ()
    calls: dict[Any, list[_OperatorInvocation]] = {}
    inputs = Inputs(call.function, call.args, call.kwargs)
    for sizes, values in [
        ({}, {}),
        ({}, _transpose_tensors(inputs)),
        *((new_sizes, {}) for new_sizes in _resized_groups(inputs)),
    ]:
        args, kwargs, _ = inputs.make_arguments(sizes, values)
        recorder = _InvocationRecorder(tuple(lines))
        # The code may raise for the changed sizes.
        with contextlib.suppress(Exception), torch.no_grad(), recorder:
            tracing.call_eagerly(call.function, args, kwargs)
        for invocation in recorder.seen:
            calls.setdefault(invocation.operator, []).append(invocation)
    return tuple(
        CheckedOperator(
            str(operator),
            lines[_operator_name(operator)],
            tuple(dict.fromkeys(filter(None, map(_describe_call, invocations)))),
            _run_opcheck(invocations[:_MAX_CALLS]),
        )
        for operator, invocations in calls.items()
    )


def _resized_groups(inputs: Inputs) -> Iterator[dict[tuple[int, int], int]]:
    """Yield changes of the tensor sizes in a call, each as a dictionary from (tensor index,
    dimension) to the new size.

    Equal sizes form a group. For each group, the first change replaces all its sizes, and the later
    changes replace one size each. The tensor index is the position among the flattened arguments.
    """
    groups: dict[int, list[tuple[int, int]]] = {}
    for number, leaf in enumerate(inputs.leaves):
        if can_be_resized(leaf.value):
            for dim, size in enumerate(leaf.value.shape):
                groups.setdefault(size, []).append((number, dim))
    for size, places in list(groups.items())[:_MAX_GROUPS]:
        for group in (places, *([place] for place in places if len(places) > 1)):
            yield dict.fromkeys(group, size + 1)


def _transpose_tensors(inputs: Inputs) -> dict[int, torch.Tensor]:
    """Return copies of the input tensors in which the strides of the last two dimensions are
    swapped.

    The keys are the indices of the tensors in the flattened inputs. Tensors with fewer than two
    dimensions are left out.
    """
    return {
        number: leaf.value.detach().mT.contiguous().mT
        for number, leaf in enumerate(inputs.leaves)
        if can_be_resized(leaf.value) and leaf.value.dim() > 1
    }


def _run_opcheck(invocations: Sequence[_OperatorInvocation]) -> str:
    for invocation in invocations:
        try:
            torch.library.opcheck(invocation.operator, invocation.args, invocation.kwargs)
        except Exception as error:
            return texts.error_message(error).strip() or type(error).__name__
    return ""


def _operator_name(operator: Any) -> str:
    """Return the operator's name as ``namespace::name``."""
    return str(operator.name()).partition(".")[0]


def _copy_tensor(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _describe_call(invocation: _OperatorInvocation) -> OperatorCall | None:
    """Return the dtypes and sizes of the tensors in an operator call; None if the call returns
    anything but tensors."""
    outputs = (
        invocation.outputs
        if isinstance(invocation.outputs, (tuple, list))
        else (invocation.outputs,)
    )
    output_forms = [_tensor_form(value) for value in outputs]
    arguments = (*invocation.args, *invocation.kwargs.values())
    if not output_forms or None in output_forms:
        return None
    lists = tuple(
        tuple(filter(None, map(_tensor_form, _as_sequence(value)))) for value in arguments
    )
    return OperatorCall(
        tuple(_tensor_form(value) for value in arguments),
        tuple(value for value in output_forms if value is not None),
        isinstance(invocation.outputs, (tuple, list)),
        lists if any(lists) else (),
    )


def _as_sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (tuple, list)) else ()


def _tensor_form(value: Any) -> TensorForm | None:
    if not isinstance(value, torch.Tensor):
        return None
    return TensorForm(str(value.dtype).removeprefix("torch."), tuple(map(int, value.shape)))
