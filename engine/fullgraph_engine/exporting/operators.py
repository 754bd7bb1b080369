"""The operators that a file defines, called as its targets call them."""

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

_MOST_SIZES = 4
"""Groups of dimensions that get another size."""
_MOST_CALLS = 8
"""Calls of one operator that are checked."""


@dataclass(frozen=True)
class CheckedOperator:
    """``operator`` as in ``torch.ops``, with its overload; ``line`` is the zero-based one of the
    file that names it. ``wrong`` is what ``torch.library.opcheck`` says; empty for nothing."""

    operator: str
    line: int
    calls: tuple[OperatorCall, ...] = ()
    wrong: str = ""


@dataclass(frozen=True)
class _Seen:
    operator: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Any


class _Calls(TorchDispatchMode):
    """Notes what operators of a file are called with, before the call can change it."""

    def __init__(self, defined: Sequence[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._defined = defined
        self.seen: list[_Seen] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _name(func) not in self._defined:
            return func(*args, **kwargs)
        before, named = pytree.tree_map(_copy, (tuple(args), dict(kwargs)))
        outputs = func(*args, **kwargs)
        self.seen.append(_Seen(func, before, named, outputs))
        return outputs


def checked_operators(call: Call, text: str) -> tuple[CheckedOperator, ...]:
    """What ``torch.library.opcheck`` says of the operators that a text defines and a call calls, at
    the sizes of the call and at others that it accepts, also with other strides."""
    lines = {
        found[1]: text.count("\n", 0, found.start())
        for found in re.finditer(r"""["'](\w+::\w+)["'(]""", text)
    }
    if not lines:
        return ()
    calls: dict[Any, list[_Seen]] = {}
    inputs = Inputs(call.function, call.args, call.kwargs)
    for sizes, values in [
        ({}, {}),
        ({}, _transposed(inputs)),
        *((one, {}) for one in _sizes(inputs)),
    ]:
        args, kwargs, _ = inputs.again(sizes, values)
        watch = _Calls(tuple(lines))
        # Other sizes may be none that the code accepts.
        with contextlib.suppress(Exception), torch.no_grad(), watch:
            tracing.call_eagerly(call.function, args, kwargs)
        for seen in watch.seen:
            calls.setdefault(seen.operator, []).append(seen)
    return tuple(
        CheckedOperator(
            str(operator),
            lines[_name(operator)],
            tuple(dict.fromkeys(filter(None, map(_form, several)))),
            _wrong(several[:_MOST_CALLS]),
        )
        for operator, several in calls.items()
    )


def _sizes(inputs: Inputs) -> Iterator[dict[tuple[int, int], int]]:
    """Another size for dimensions of one size, together and each alone."""
    groups: dict[int, list[tuple[int, int]]] = {}
    for number, leaf in enumerate(inputs.leaves):
        if can_be_resized(leaf.value):
            for dim, size in enumerate(leaf.value.shape):
                groups.setdefault(size, []).append((number, dim))
    for size, places in list(groups.items())[:_MOST_SIZES]:
        for group in (places, *([one] for one in places if len(places) > 1)):
            yield dict.fromkeys(group, size + 1)


def _transposed(inputs: Inputs) -> dict[int, torch.Tensor]:
    """The tensors that have several dimensions, the last two with the strides of each other."""
    return {
        number: leaf.value.detach().mT.contiguous().mT
        for number, leaf in enumerate(inputs.leaves)
        if can_be_resized(leaf.value) and leaf.value.dim() > 1
    }


def _wrong(several: Sequence[_Seen]) -> str:
    for seen in several:
        try:
            torch.library.opcheck(seen.operator, seen.args, seen.kwargs)
        except Exception as error:
            return texts.error_message(error).strip() or type(error).__name__
    return ""


def _name(operator: Any) -> str:
    """``namespace::name``."""
    return str(operator.name()).partition(".")[0]


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _form(seen: _Seen) -> OperatorCall | None:
    """None for one that returns anything but tensors."""
    outputs = seen.outputs if isinstance(seen.outputs, (tuple, list)) else (seen.outputs,)
    made = [_of_tensor(one) for one in outputs]
    given = (*seen.args, *seen.kwargs.values())
    if not made or None in made:
        return None
    lists = tuple(tuple(filter(None, map(_of_tensor, _listed(one)))) for one in given)
    return OperatorCall(
        tuple(_of_tensor(one) for one in given),
        tuple(one for one in made if one is not None),
        isinstance(seen.outputs, (tuple, list)),
        lists if any(lists) else (),
    )


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (tuple, list)) else ()


def _of_tensor(value: Any) -> TensorForm | None:
    if not isinstance(value, torch.Tensor):
        return None
    return TensorForm(str(value.dtype).removeprefix("torch."), tuple(map(int, value.shape)))
