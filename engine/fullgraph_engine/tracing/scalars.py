"""Let Dynamo read scalars of fake tensors while it traces, as it reads real ones.

When Dynamo converts a real zero-dimensional integer or double tensor, it stores the number behind a
symbol, so that it can trace ``x[step]``. For a fake tensor of the run, this module reads the number
only when Dynamo needs it. Most numbers are never needed. If a needed number is unknown, a run with
real tensors may be better than a chosen number.
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
_ORIGIN_ATTRIBUTE = "_fullgraph_scalar"


@dataclass(frozen=True)
class _ScalarOrigin:
    """The fake tensor of the run from which Dynamo made a fake tensor of its own.

    The number in the run's tensor is valid until Dynamo's tensor is written to, which changes its
    ``version``.
    """

    original: FakeTensor
    source: Any
    context: Any
    version: int

    def read_number(self) -> int | float:
        """Return the number in the run's fake tensor, and store it there for later reads."""
        original = self.original
        with unset_fake_temporarily():
            number: int | float = original.item()
            if original.constant is None:
                original.constant = torch.tensor(number, dtype=original.dtype)
                original.fake_mode.fake_tensor_converter.add_constant_storage_mapping(original)
        return number


@contextlib.contextmanager
def allow_scalar_reads() -> Iterator[None]:
    """Let Dynamo read the numbers in fake tensors of the run while the context is active."""
    operators = fake_tensors.OPERATORS.get()
    if fake_tensors.TRACKED_FAKE.get() is None or _READ not in (operators or ()):
        yield
        return
    undo = fake_tensors.FROM_REAL_TENSOR.wrap(_wrap_from_real_tensor)
    if undo is None:
        yield
        return
    read = operators[_READ]
    operators[_READ] = _wrap_scalar_read(read)
    try:
        yield
    finally:
        operators[_READ] = read
        undo()


def _wrap_from_real_tensor(original: Callable[..., Any]) -> Callable[..., Any]:
    def from_real_tensor(converter: Any, mode: Any, tensor: Any, *args: Any, **options: Any) -> Any:
        converted = original(converter, mode, tensor, *args, **options)
        source = options.get("source")
        if (
            type(tensor) is type(converted) is FakeTensor
            and tensor.dim() == 0
            and tensor.device.type == "cpu"
            and tensor.dtype in (torch.int64, torch.float64)
            and not isinstance(tensor, torch.nn.Parameter)
            and source is not None
            and not isinstance(source, RandomValueSource)
        ):
            context = options.get("symbolic_context")
            setattr(
                converted,
                _ORIGIN_ATTRIBUTE,
                _ScalarOrigin(tensor, source, context, converted._version),
            )
        return converted

    return from_real_tensor


def _wrap_scalar_read(original: Callable[..., Any]) -> Callable[..., Any]:
    def local_scalar_dense(mode: Any, func: Any, tensor: FakeTensor) -> Any:
        origin: _ScalarOrigin | None = getattr(tensor, _ORIGIN_ATTRIBUTE, None)
        translator = frames.current_translator()
        if (
            origin is not None
            and translator is not None
            and tensor.item_memo is None
            and tensor._version == origin.version
        ):
            number = origin.read_number()
            if math.isfinite(number):
                tensor.item_memo = _create_symbol(number, origin, mode.shape_env, translator.output)
        return original(mode, func, tensor)

    return local_scalar_dense


def _create_symbol(
    number: int | float, origin: _ScalarOrigin, environment: Any, output: Any
) -> Any:
    """Create a symbol for a number read from a fake tensor, so that Dynamo can guard it.

    ``origin`` is the fake tensor, ``environment`` the ShapeEnv, and ``output`` Dynamo's
    ``OutputGraph``.
    """
    source = CallMethodItemSource(origin.source)
    symbol = environment.create_unspecified_symbol(
        number,
        source=source,
        dynamic_dim=DimDynamic.DYNAMIC,
        symbolic_context=origin.context,
    )
    integral = isinstance(number, int)
    create = environment.create_symintnode if integral else environment.create_symfloatnode
    symbolic = create(symbol, hint=number, source=source)
    tracked_fake = fake_tensors.TRACKED_FAKE.get()
    output.tracked_fakes.append(tracked_fake(symbolic, source, origin.context))
    return symbolic
