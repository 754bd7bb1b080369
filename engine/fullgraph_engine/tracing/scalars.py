"""Scalars of fake tensors that Dynamo reads while it traces, as it reads those of real ones.

Where a real integer or double without dimensions becomes a fake tensor of its own, Dynamo notes its
number behind a symbol, and with that it traces ``x[step]``. The number of a fake one is asked for
only when it is needed: nobody looks at most of them, and where it is not known a run with real
tensors may be the better answer.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..torch_internals import fake_tensors, frames
from ..torch_internals.fake_tensors import FakeTensor, unset_fake_temporarily
from ..torch_internals.shapes import CallMethodItemSource, DimDynamic, RandomValueSource

_READ = torch.ops.aten._local_scalar_dense.default
_KEPT = "_fullgraph_scalar"


@dataclass(frozen=True)
class _Scalar:
    """What a fake tensor of Dynamo's was made of; until it is written, that one's number is its."""

    original: FakeTensor
    source: Any
    context: Any
    version: int

    def number(self) -> int | float:
        """Asks the mode of the original, and lets that keep what was chosen for it."""
        original = self.original
        with unset_fake_temporarily():
            number: int | float = original.item()
            if original.constant is None:
                original.constant = torch.tensor(number, dtype=original.dtype)
                original.fake_mode.fake_tensor_converter.add_constant_storage_mapping(original)
        return number


@contextlib.contextmanager
def readable_scalars() -> Iterator[None]:
    """Let Dynamo read numbers of fake tensors where it reads those of real ones."""
    operators = fake_tensors.OPERATORS.get()
    if fake_tensors.TRACKED_FAKE.get() is None or _READ not in (operators or ()):
        yield
        return
    undo = fake_tensors.FROM_REAL_TENSOR.wrap(_remembering)
    if undo is None:
        yield
        return
    read = operators[_READ]
    operators[_READ] = _reading(read)
    try:
        yield
    finally:
        operators[_READ] = read
        undo()


def _remembering(original: Callable[..., Any]) -> Callable[..., Any]:
    def from_real_tensor(converter: Any, mode: Any, tensor: Any, *args: Any, **given: Any) -> Any:
        made = original(converter, mode, tensor, *args, **given)
        source = given.get("source")
        if (
            type(tensor) is type(made) is FakeTensor
            and tensor.dim() == 0
            and tensor.device.type == "cpu"
            and tensor.dtype in (torch.int64, torch.float64)
            and not isinstance(tensor, torch.nn.Parameter)
            and source is not None
            and not isinstance(source, RandomValueSource)
        ):
            context = given.get("symbolic_context")
            setattr(made, _KEPT, _Scalar(tensor, source, context, made._version))
        return made

    return from_real_tensor


def _reading(original: Callable[..., Any]) -> Callable[..., Any]:
    def local_scalar_dense(mode: Any, func: Any, tensor: FakeTensor) -> Any:
        scalar: _Scalar | None = getattr(tensor, _KEPT, None)
        translator = frames.current_translator()
        if (
            scalar is not None
            and translator is not None
            and tensor.item_memo is None
            and tensor._version == scalar.version
        ):
            number = scalar.number()
            if math.isfinite(number):
                tensor.item_memo = _tracked(number, scalar, mode.shape_env, translator.output)
        return original(mode, func, tensor)

    return local_scalar_dense


def _tracked(number: int | float, scalar: _Scalar, environment: Any, output: Any) -> Any:
    """A symbol for the number, on which guards can be made."""
    source = CallMethodItemSource(scalar.source)
    symbol = environment.create_unspecified_symbol(
        number,
        source=source,
        dynamic_dim=DimDynamic.DYNAMIC,
        symbolic_context=scalar.context,
    )
    integral = isinstance(number, int)
    create = environment.create_symintnode if integral else environment.create_symfloatnode
    made = create(symbol, hint=number, source=source)
    tracked = fake_tensors.TRACKED_FAKE.get()
    output.tracked_fakes.append(tracked(made, source, scalar.context))
    return made
