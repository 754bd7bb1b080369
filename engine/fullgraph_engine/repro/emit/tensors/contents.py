"""Recognition of tensor contents with a short text: constants, masks, ranges and few elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .layouts import Layout
from .spelling import as_arguments, as_tuple, comma_separated

READ = 1 << 20
"""Maximum number of elements of a tensor whose contents are compared with patterns."""

_SCAN = 1 << 26
"""Maximum number of elements of an integer tensor whose smallest and largest elements are
computed.
"""

SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)

_UNSIGNED = tuple(
    getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name)
)

INTEGERS = (*SIGNED, *_UNSIGNED)


def is_fake(value: torch.Tensor) -> bool:
    """Whether a tensor is a ``FakeTensor``, which does not have contents."""
    from ....torch_internals.fake_tensors import FakeTensor

    return isinstance(value, FakeTensor)


def is_uninitialized(value: object) -> bool:
    """Whether a value is a lazy parameter of torch without a shape."""
    return hasattr(value, "materialize") and isinstance(value, torch.Tensor)


def is_readable(data: torch.Tensor) -> bool:
    """Whether a tensor's elements can be read: strided, not fake, not on the ``meta`` device."""
    return data.layout is torch.strided and not is_fake(data) and data.device.type != "meta"


def guess_expressions(
    sizes: tuple[int, ...],
    first: Any,
    dtype: str,
    where: str,
    now: str,
    data: torch.Tensor,
) -> Iterator[str]:
    """Yield expressions that may create a tensor equal to ``data``; the caller must check each.

    ``first`` is the first element of ``data``. ``dtype``, ``where`` (the device) and ``now``
    (``requires_grad``) are the text of keyword arguments to append, such as ``,
    dtype=torch.int64``.
    """
    shape = as_arguments(sizes)
    tail = f"{dtype}{where}{now}"
    value = _number_literal(first)
    if value == "True" or first == 1:
        yield f"torch.ones({shape}{tail})"
    if value == "False" or first == 0:
        yield f"torch.zeros({shape}{tail})"
    if isinstance(first, complex) or now:
        return
    yield f"torch.full({as_tuple(sizes)}, {value}{tail})"
    if not sizes:
        return
    last, is_bool = sizes[-1], data.dtype == torch.bool
    if not is_bool:
        plain = "" if data.dtype == torch.int64 else dtype
        if data.dtype == torch.float32:
            plain = ", dtype=torch.float32"
        ranged = f"torch.arange({last}{plain}{where})"
        if isinstance(first, int) and first != 0:
            ranged = f"torch.arange({first}, {first + last}{plain}{where})"
        yield ranged if len(sizes) == 1 else f"{ranged}.expand({comma_separated(sizes)})"
        if len(sizes) > 1:
            yield f"{ranged.replace(f'({last}', f'({math.prod(sizes)}', 1)}.view({shape})"
            yield ranged.replace(f"({last}", f"({sizes[0]}", 1) + f".view({sizes[0]}, 1)"
            lead = ", ".join(["1"] * (len(sizes) - 1))
            yield f"{ranged}.view({lead}, {last})"
    if len(sizes) == 2 and sizes[0] == sizes[1]:
        yield f"torch.eye({last}{tail})"
    if len(sizes) >= 2:
        values = [number_of(one) for one in data.unique()[:3]] if _is_computed(data) else []
        for one in values:
            whole = f"torch.full({as_tuple(sizes)}, {_number_literal(one)}{tail})"
            if one == 1:
                whole = f"torch.ones({shape}{tail})"
            for cut in ("tril", "triu"):
                for diagonal in ("", "1", "-1"):
                    yield f"{whole}.{cut}({diagonal})"


def evaluates_to(text: str, data: torch.Tensor) -> bool:
    """Whether evaluating the expression ``text`` gives a tensor equal to ``data``.

    Dtype, shape, device and elements are compared. NaN equals NaN; without NaN, 0.0 and -0.0
    differ.
    """
    try:
        made = eval(text, {"torch": torch})
    except Exception:  # the expression does not support the dtype
        return False
    if made.dtype != data.dtype or made.shape != data.shape or made.device != data.device:
        return False
    if not _is_computed(data):
        return bool((made.float() == data.float()).all())
    if data.dtype == torch.complex32:
        made, data = made.to(torch.complex64), data.to(torch.complex64)
    same: Callable[..., bool] = torch.equal
    if same(made, data):
        return (
            bool((torch.signbit(made) == torch.signbit(data)).all())
            if _has_signed_zero(data)
            else True
        )
    return bool(data.is_floating_point() and torch.allclose(made, data, 0, 0, equal_nan=True))


def _is_computed(data: torch.Tensor) -> bool:
    """Whether torch supports arithmetic for the dtype of ``data``, not only conversions."""
    return data.dtype.itemsize > 1 or not data.dtype.is_floating_point


def _has_signed_zero(data: torch.Tensor) -> bool:
    return data.is_floating_point()


def number_of(element: torch.Tensor) -> Any:
    """Return the Python number of a one-element tensor.

    A float is rounded to the fewest significant digits, up to 9, that give the same element. If 9
    digits do not, all digits are kept.
    """
    value = element.item()
    if isinstance(value, float) and math.isfinite(value):
        for digits in range(1, 10):
            short = float(f"{value:.{digits}g}")
            if torch.tensor(short, dtype=element.dtype, device=element.device).equal(element):
                return short
    return value


def is_exact(value: Any, element: torch.Tensor) -> bool:
    """Whether the literal of the number ``value`` can restore the tensor element exactly.

    It cannot for the dtype ``complex32``.
    """
    return not isinstance(value, complex) or element.dtype in (torch.complex64, torch.complex128)


def _number_literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def nested_lists(data: torch.Tensor) -> str:
    """Return the elements as nested lists, as ``torch.tensor`` accepts them."""
    if data.dim() == 0:
        return _number_literal(number_of(data))
    return "[" + ", ".join(nested_lists(part) for part in data) + "]"


def is_mask(data: torch.Tensor | None) -> bool:
    """Whether a tensor contains only zeros and negative infinities, like an attention mask."""
    if data is None or data.numel() > READ or not is_readable(data) or data.is_complex():
        return False
    if data.dtype.itemsize < 2:
        return False
    low, high = data.aminmax()
    return bool(low == -math.inf) and bool(high == 0) and bool(((data == 0) | (data == low)).all())


def is_unit(data: torch.Tensor | None) -> bool:
    """Whether all elements are between 0 and 1, and there are at least 8."""
    if data is None or not 8 <= data.numel() <= READ or not is_readable(data):
        return False
    if not data.is_floating_point():
        return False
    low, high = data.float().aminmax()
    return bool(low >= 0) and bool(high <= 1)


def range_of(data: torch.Tensor | None) -> tuple[int, int]:
    """Return the smallest and the largest element as integers.

    The result is ``(0, 1)`` if the elements cannot be read, if there are none or more than 2**26,
    or if one is 2**63 or larger.
    """
    if data is None or data.numel() > _SCAN or not data.numel() or not is_readable(data):
        return 0, 1
    unsigned = not data.dtype.is_signed
    if data.dtype in _UNSIGNED:
        data = data.to(torch.int64)
    low, high = map(int, data.aminmax())
    return (0, 1) if unsigned and low < 0 else (low, high)


def base_contents(data: torch.Tensor | None, base: Layout, layout: Layout) -> torch.Tensor | None:
    """Return elements for a larger tensor, so that a view of it has the elements ``data``.

    ``base`` is the layout of the larger tensor, and ``layout`` the layout of the view. Elements
    outside the view are zero.
    """
    if data is None or not is_readable(data) or max(base.count, data.numel()) > READ:
        return None
    whole = torch.zeros(max(base.extent, layout.extent), dtype=data.dtype, device=data.device)
    try:
        whole.as_strided(layout.sizes, layout.strides, layout.offset).copy_(data)
    except RuntimeError:  # torch cannot copy into overlapping elements, so write them one by one
        flat = whole.as_strided(layout.sizes, layout.strides, layout.offset)
        for index in itertools.islice(itertools.product(*map(range, layout.sizes)), 1 << 12):
            flat[index] = data[index]
    return whole[: base.count].view(base.sizes)
