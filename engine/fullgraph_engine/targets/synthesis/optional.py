"""Values of optional arguments that a call leaves out, found by trying."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..deadline import limit_seconds
from ..notation import LiteralValue, TensorText, Value, show_value
from ..silence import silence_output
from ..tensors import build_value
from .candidate import make_tensor_text
from .guesses import SignatureParameter, input_like, parameters_of
from .trial import TimeIsUp

_MOST = 40
"""Maximum number of values tried for one optional argument."""
_TRY = 1.0
"""Maximum wall time in seconds for trying one value."""
_DTYPES = ("f32", "b8", "i64")


def find_fitting_value(
    function: Callable[..., Any],
    name: str,
    tensors: Sequence[torch.Tensor],
    call: Callable[[Any], object],
) -> str:
    """Return a value for the parameter ``name``, as text such as ``f32[4]``, with which ``call``
    does not raise; else "".

    ``tensors`` are the other inputs, from which shapes are derived. The values are tried in turn,
    as fake or real tensors like those of the caller.
    """
    called = function.forward if isinstance(function, torch.nn.Module) else function
    parameters, _, _ = parameters_of(called, skip=0)
    parameter = next((one for one in parameters if one.name == name), None)
    if parameter is None:
        return ""
    for value in itertools.islice(_candidate_values(parameter, tensors), _MOST):
        try:
            with silence_output(), limit_seconds(TimeIsUp, _TRY):
                call(build_value(value))
        except (Exception, TimeIsUp, SystemExit):
            continue
        return show_value(value)
    return ""


def _candidate_values(
    parameter: SignatureParameter, tensors: Sequence[torch.Tensor]
) -> Iterator[Value]:
    """Yield values to try for a parameter: by its annotation and name, tensors shaped like other
    inputs, and numbers."""
    width = next((int(one.shape[-1]) for one in tensors if one.dim()), 1)
    usual = input_like(parameter, width)
    plain = [one for one in usual if not isinstance(one, TensorText) and one != LiteralValue(None)]
    yield from plain
    named = [one.dtype for one in usual if isinstance(one, TensorText)]
    shapes = list(
        dict.fromkeys(shape for one in tensors for shape in _related_shapes(tuple(one.shape)))
    )
    for dtype in dict.fromkeys((*named, *_DTYPES)):
        yield from (make_tensor_text(dtype, *shape) for shape in shapes)
    yield from (one for one in usual if isinstance(one, TensorText))
    yield from (LiteralValue(2), LiteralValue(0.5), LiteralValue(True))


def _related_shapes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the shape, its prefixes, and shapes of attention masks that fit a tensor of this
    shape.
    """
    yield shape
    for rank in range(len(shape) - 1, 0, -1):
        yield shape[:rank]
    if len(shape) > 1:
        yield shape[-1:]
        yield shape[1], shape[1]
        yield shape[0], 1, shape[1], shape[1]
