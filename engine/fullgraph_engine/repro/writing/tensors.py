"""Tensors as expressions: random where the contents say nothing, and else as they are.

Shape, dtype, device, strides, gradness and leafness are kept. Contents are kept where they decide
what happens: small integers and booleans, constants, masks; of larger integers the range. A draft
with a store keeps all: few numbers in the text, many in a file that the program loads.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from ..inputs.loading import NAME as STORED
from .unwritable import Unwritable

if TYPE_CHECKING:
    from .draft import Draft
    from .values import Writing

INLINE = 16
"""Up to how many elements the numbers themselves are written."""

_DENSE = 1 << 14
"""Up to how many elements a sparse tensor is written as a dense one that is converted."""

_READ = 1 << 20
"""Up to how many elements contents are compared with patterns."""

_SCAN = 1 << 26
"""Up to how many elements the range of integers is looked for."""

_CHANNELS_LAST = {4: "channels_last", 5: "channels_last_3d"}

StorageKey = tuple[int, str]

_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
_UNSIGNED = tuple(
    getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name)
)
INTEGERS = (*_SIGNED, *_UNSIGNED)

_SPARSE = (
    *(torch.sparse_coo, torch.sparse_csr, torch.sparse_csc),
    *(torch.sparse_bsr, torch.sparse_bsc),
)

_BITS = {1: torch.uint8, 2: torch.int16}
"""What dtypes are seen as that torch cannot put a number into: those of less than eight bits."""


@dataclass(frozen=True)
class Layout:
    """Where the elements of a strided tensor are in its storage."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def count(self) -> int:
        return math.prod(self.sizes)

    @property
    def extent(self) -> int:
        """How many elements the storage must have."""
        if self.count == 0:
            return self.offset
        spans = zip(self.sizes, self.strides, strict=True)
        return self.offset + sum((size - 1) * stride for size, stride in spans) + 1

    @property
    def is_plain(self) -> bool:
        return self.offset == 0 and self.strides == contiguous(self.sizes)


@dataclass(frozen=True)
class Base:
    """A tensor with a name, of whose storage others are views."""

    name: str
    layout: Layout
    dtype: torch.dtype
    requires_grad: bool


@dataclass(frozen=True)
class Spec:
    """A tensor to be made anew. ``data`` has its elements where they are known."""

    layout: Layout
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    is_leaf: bool
    is_view: bool
    data: torch.Tensor | None


def contiguous(sizes: Sequence[int]) -> tuple[int, ...]:
    """The strides that torch gives to a new tensor."""
    strides = [1] * len(sizes)
    for dim in range(len(sizes) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(sizes[dim + 1], 1)
    return tuple(strides)


def hint(value: Any) -> Any:
    """The number that a symbolic size had in the run."""
    node = getattr(value, "node", None)
    if node is None:
        return value
    known = getattr(node, "hint", None)
    if known is None:
        raise Unwritable(f"the size {value} has no value")
    return known


def spelled(writing: Writing, value: Any) -> str:
    """``torch.float32``, ``torch.channels_last``, …"""
    return f"{writing.refer(torch)}.{str(value).removeprefix('torch.')}"


def storage_key(value: torch.Tensor) -> StorageKey | None:
    """What two tensors have in common that share memory; None where there is nothing to share."""
    try:
        if value.layout != torch.strided or value.is_quantized or not value.numel():
            return None
        return (value.untyped_storage()._cdata, str(value.device))
    except (NotImplementedError, RuntimeError):
        return None


def layout_of(value: torch.Tensor) -> Layout:
    return Layout(
        tuple(hint(size) for size in value.size()),
        tuple(hint(stride) for stride in value.stride()),
        hint(value.storage_offset()),
    )


def remember(storages: dict[StorageKey, Base], value: torch.Tensor, name: str) -> None:
    """``name`` is ``value``; the next tensor with its storage is written as a view of it."""
    key = storage_key(value)
    if key is None or key in storages or is_wrapper(value):
        return
    storages[key] = Base(name, layout_of(value), value.dtype, value.requires_grad)


def name_base(draft: Draft, value: object) -> None:
    """Give the storage of ``value`` a name, if ``value`` is only a part of it."""
    if not isinstance(value, torch.Tensor) or is_wrapper(value):
        return
    key = storage_key(value)
    if key is None or key in draft.written.storages:
        return
    count = value.untyped_storage().nbytes() // value.dtype.itemsize
    layout = layout_of(value)
    if layout.is_plain and layout.count == count:
        return
    base = value._base
    whole = Layout((count,), (1,))
    if base is not None and base.dtype == value.dtype:
        of_base = layout_of(base)
        if of_base.is_plain and of_base.count == count:
            whole = of_base
    data = None
    if not is_fake(value) and value.device.type != "meta":
        flat = torch.empty(0, dtype=value.dtype, device=value.device)
        data = flat.set_(value.untyped_storage(), 0, whole.sizes, whole.strides)
    grad = value.requires_grad and not value.is_leaf
    spec = Spec(whole, value.dtype, value.device, grad, True, False, data)
    name = draft.fresh("base")
    draft.add(f"{name} = {_Expression(draft, spec).text()}")
    draft.written.storages[key] = Base(name, whole, value.dtype, grad)


def is_fake(value: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(value, FakeTensor)


def is_uninitialised(value: object) -> bool:
    """Whether the shape of a parameter is not known before the first call."""
    return hasattr(value, "materialize") and isinstance(value, torch.Tensor)


def is_wrapper(value: torch.Tensor) -> bool:
    """A subclass that holds other tensors in the place of a storage."""
    return hasattr(value, "__tensor_flatten__") or value.layout is torch.jagged


def written(writing: Writing, value: torch.Tensor, place: str | None) -> str:
    """An expression for a tensor or a parameter."""
    kind = type(value)
    name = writing.refer(torch)
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        raise Unwritable("a tensor inside a functorch transform has no source text")
    if is_uninitialised(value):
        return f"{name}.nn.parameter.{kind.__name__}()"
    if isinstance(value, torch.nn.Parameter) or getattr(value, "_is_param", False):
        return parameter(writing, value)
    if value.layout is torch.jagged:
        return _nested(writing, value)
    if value.is_nested:
        return _nested(writing, value)
    if is_wrapper(value) and not is_fake(value):
        raise Unwritable(f"a {kind.__module__}.{kind.__qualname__} has no source text")
    text = _exotic(writing, value)
    if text is None:
        text = _view(writing, value)
    if text is None:
        text = _Expression(writing.draft, spec_of(value)).text()
    if kind is not torch.Tensor and not is_fake(value) and not hasattr(value, "_is_buffer"):
        text = f"{text}.as_subclass({writing.refer(kind)})"
    return text


def parameter(writing: Writing, value: torch.Tensor) -> str:
    """``torch.nn.Parameter(…)``, with the dtype and on the device that are not set later."""
    spec = spec_of(value)
    made = replace(spec, requires_grad=False, is_leaf=True, dtype=writing.outer.written(spec.dtype))
    if spec.dtype != made.dtype and made.data is not None:
        made = replace(made, data=made.data.to(made.dtype))
    if writing.outer.device is not None:
        made = replace(made, device=torch.device("cpu"))
    name = writing.refer(torch)
    kind = type(value)
    owner = f"{name}.nn.Parameter"
    if kind is not torch.nn.Parameter and not is_fake(value) and not hasattr(value, "_is_param"):
        owner = writing.refer(kind)
    frozen = "" if value.requires_grad else ", requires_grad=False"
    return f"{owner}({_Expression(writing.draft, made).text()}{frozen})"


def buffer(writing: Writing, value: torch.Tensor) -> str:
    """A buffer, which a later ``.to`` of its module converts."""
    if type(value) is not torch.Tensor and not is_fake(value):
        return writing.expression(value, None)
    spec = spec_of(value)
    made = replace(spec, dtype=writing.outer.written(spec.dtype))
    if made.dtype != spec.dtype and made.data is not None:
        made = replace(made, data=made.data.to(made.dtype))
    if writing.outer.device is not None:
        made = replace(made, device=torch.device("cpu"))
    if value.layout is not torch.strided or value.is_quantized:
        return writing.expression(value, None)
    return _Expression(writing.draft, made).text()


def spec_of(value: torch.Tensor) -> Spec:
    """What is to be kept of ``value``."""
    data: torch.Tensor | None = None
    if is_fake(value):
        data = getattr(value, "constant", None)
    elif value.device.type != "meta":
        data = value.detach()
    return Spec(
        layout_of(value),
        value.dtype,
        value.device,
        value.requires_grad,
        value.is_leaf,
        value._is_view(),
        data,
    )


# -- other layouts ----------------------------------------------------------------------------


def _exotic(writing: Writing, value: torch.Tensor) -> str | None:
    """Tensors that are no strided window on a storage."""
    name = writing.refer(torch)
    sizes = tuple(hint(size) for size in value.size())
    grad = value.requires_grad

    def made(
        dtype: torch.dtype, device: torch.device = value.device, sizes: tuple[int, ...] = sizes
    ) -> str:
        layout = Layout(sizes, contiguous(sizes))
        spec = Spec(layout, dtype, device, False, True, False, None)
        return _Expression(writing.draft, spec).text()

    if writing.draft.store is not None and value.layout in _SPARSE:
        text = _of_parts(writing, value, sizes)
    elif value.layout is torch.sparse_coo:
        dense = value.sparse_dim()
        if math.prod(sizes) <= _DENSE:
            text = f"{made(value.dtype)}.to_sparse({'' if dense == len(sizes) else dense})"
            text += "" if value.is_coalesced() else ".clone()"
        else:
            many = 1 if value.is_coalesced() else 2  # at the same place
            contents = made(value.dtype, sizes=(many, *sizes[dense:]))
            indices = f"{name}.zeros({dense}, {many}, dtype={name}.int64)"
            text = f"{name}.sparse_coo_tensor({indices}, {contents}, {sizes})"
    elif value.layout in (torch.sparse_csr, torch.sparse_csc):
        text = f"{made(value.dtype)}.to_{str(value.layout).removeprefix('torch.')}()"
    elif value.layout in (torch.sparse_bsr, torch.sparse_bsc):
        block = tuple(value.values().shape[-2:])
        text = f"{made(value.dtype)}.to_{str(value.layout).removeprefix('torch.')}({block})"
    elif value.is_mkldnn:
        text = f"{made(value.dtype)}.to_mkldnn()"
    elif value.layout is not torch.strided:
        raise Unwritable(f"a tensor of layout {value.layout} has no source text")
    elif value.is_quantized:
        if writing.draft.store is not None:
            return _of_integers(writing, value)
        return _quantised(name, value, made(torch.float32))
    elif not _has_numbers(value.dtype):
        bits = value.view(_BITS[value.dtype.itemsize])
        text = _Expression(writing.draft, spec_of(bits)).text()
        return f"{text}.view({spelled(writing, value.dtype)})"
    elif value.is_complex() and value.is_conj():
        return f"{_Expression(writing.draft, spec_of(value.conj())).text()}.conj()"
    elif value.is_neg():
        plain = _Expression(writing.draft, spec_of(torch._neg_view(value))).text()
        return f"{name}._neg_view({plain})"
    else:
        return None
    return f"{text}.requires_grad_()" if grad else text


def _of_parts(writing: Writing, value: torch.Tensor, sizes: tuple[int, ...]) -> str:
    """A sparse tensor as a call with the tensors that it consists of."""
    if value.layout is torch.sparse_coo:
        parts = [value._indices(), value._values()]
        made, said = "sparse_coo_tensor", f"is_coalesced={value.is_coalesced()}"
    elif value.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = [value.crow_indices(), value.col_indices(), value.values()]
        made, said = "sparse_compressed_tensor", f"layout={spelled(writing, value.layout)}"
    else:
        parts = [value.ccol_indices(), value.row_indices(), value.values()]
        made, said = "sparse_compressed_tensor", f"layout={spelled(writing, value.layout)}"
    texts = [_Expression(writing.draft, spec_of(part.detach())).text() for part in parts]
    return f"{writing.refer(torch)}.{made}({', '.join(texts)}, {sizes}, {said})"


def _of_integers(writing: Writing, value: torch.Tensor) -> str:
    """A quantised tensor as a call with the integers that it consists of."""

    def written(part: torch.Tensor) -> str:
        return _Expression(writing.draft, spec_of(part)).text()

    made, numbers = f"{writing.refer(torch)}._make_per", written(value.int_repr())
    if value.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        scale, zero = value.q_scale(), value.q_zero_point()
        return f"{made}_tensor_quantized_tensor({numbers}, {scale!r}, {zero})"
    if value.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
        scales, zeros = (
            written(value.q_per_channel_scales()),
            written(value.q_per_channel_zero_points()),
        )
        axis = value.q_per_channel_axis()
        return f"{made}_channel_quantized_tensor({numbers}, {scales}, {zeros}, {axis})"
    raise Unwritable(f"a tensor quantised by {value.qscheme()} has no source text")


@functools.cache
def _has_numbers(dtype: torch.dtype) -> bool:
    try:
        torch.ones(1, dtype=dtype)
    except NotImplementedError:
        return False
    return True


def _quantised(name: str, value: torch.Tensor, plain: str) -> str:
    dtype = f"{name}.{str(value.dtype).removeprefix('torch.')}"
    if value.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        scale, zero = value.q_scale(), value.q_zero_point()
        return f"{name}.quantize_per_tensor({plain}, {scale!r}, {zero}, {dtype})"
    if value.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
        scales = value.q_per_channel_scales().tolist()
        zeros = value.q_per_channel_zero_points().tolist()
        axis = value.q_per_channel_axis()
        return (
            f"{name}.quantize_per_channel({plain}, {name}.tensor({scales}), "
            f"{name}.tensor({zeros}), {axis}, {dtype})"
        )
    raise Unwritable(f"a tensor quantised by {value.qscheme()} has no source text")


def _nested(writing: Writing, value: torch.Tensor) -> str:
    name = writing.refer(torch)
    if is_fake(value) or any(is_fake(part) for part in value.unbind()):
        raise Unwritable("a nested tensor without contents has no source text")
    made = [_Expression(writing.draft, spec_of(part.detach())).text() for part in value.unbind()]
    parts = ", ".join(made)
    layout = ", layout=torch.jagged" if value.layout is torch.jagged else ""
    grad = ", requires_grad=True" if value.requires_grad else ""
    return f"{name}.nested.nested_tensor([{parts}]{layout}{grad})"


# -- views ------------------------------------------------------------------------------------


def _view(writing: Writing, value: torch.Tensor) -> str | None:
    """``value`` as a view of a tensor of the program with the same storage."""
    key = storage_key(value)
    base = None if key is None else writing.draft.written.storages.get(key)
    if base is None:
        return None
    text = base.name
    layout = base.layout
    if base.requires_grad and (value.is_leaf or not value.requires_grad):
        text += ".detach()"
    if base.dtype != value.dtype:
        text += f".view({spelled(writing, value.dtype)})"
        scale = base.dtype.itemsize / value.dtype.itemsize
        layout = Layout((int(layout.count * scale),), (1,), int(layout.offset * scale))
        if not base.layout.is_plain:
            raise Unwritable("two tensors of different dtypes share a storage in parts")
        if len(base.layout.sizes) != 1:
            text = text.replace(".view(", ".flatten().view(", 1)
    text += steps_between(layout, layout_of(value))
    if value.requires_grad and value.is_leaf:
        text += ".requires_grad_()"
    return text


def steps_between(base: Layout, wanted: Layout) -> str:
    """The methods that make the view ``wanted`` of a tensor laid out as ``base``."""
    if base == wanted:
        return "[:]" if base.sizes else ".view(())"
    for steps in _candidates(base, wanted):
        if _laid_out(base, steps) == wanted:
            return steps
    return _as_strided(wanted)


def _candidates(base: Layout, wanted: Layout) -> Iterator[str]:
    rank = len(wanted.sizes)
    if base.is_plain and wanted.offset == 0 and base.count == wanted.count:
        yield f".view({_numbers(wanted.sizes) or '()'})"
    if rank == len(base.sizes):
        indices = _slices(base, wanted)
        if indices is not None:
            yield indices
    if rank < len(base.sizes):
        for dims in itertools.combinations(range(len(base.sizes)), len(base.sizes) - rank):
            indices = _slices(base, wanted, dims)
            if indices is not None:
                yield indices
    for first, second in itertools.combinations(range(rank), 2):
        yield ".t()" if rank == 2 else f".transpose({first}, {second})"
    if 2 < rank <= 5:
        for order in itertools.permutations(range(rank)):
            yield f".permute({_numbers(order)})"


def _slices(base: Layout, wanted: Layout, selected: tuple[int, ...] = ()) -> str | None:
    """Basic indexing from ``base`` to ``wanted``; ``selected`` dimensions take one index."""
    left = wanted.offset - base.offset
    kept = iter(zip(wanted.sizes, wanted.strides, strict=True))
    parts = []
    if left < 0:
        return None
    for dim, (size, stride) in enumerate(zip(base.sizes, base.strides, strict=True)):
        if stride <= 0:
            return None
        start, left = (min(left // stride, size - 1), left) if size else (0, left)
        left -= start * stride
        if dim in selected:
            parts.append(str(start))
            continue
        length, step = next(kept, (0, 0))
        if step % stride or length == 0:
            return None
        step = step // stride if length > 1 else 1
        stop = start + (length - 1) * step + 1
        if step < 1 or stop > size:
            return None
        begin = str(start) if start else ""
        end = "" if stop + step > size and step > 1 else str(stop) if stop < size else ""
        parts.append(f"{begin}:{end}:{step}" if step > 1 else f"{begin}:{end}")
    while len(parts) > 1 and parts[-1] == ":":
        parts.pop()
    return None if left else f"[{', '.join(parts)}]"


def _laid_out(base: Layout, steps: str) -> Layout | None:
    """The layout of ``tensor<steps>``, tried on a tensor without memory."""
    tensor = torch.empty(0, device="meta").as_strided(base.sizes, base.strides, base.offset)
    try:
        return layout_of(eval(f"tensor{steps}", {"tensor": tensor, "torch": torch}))
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None


def _as_strided(layout: Layout) -> str:
    offset = f", {layout.offset}" if layout.offset else ""
    return f".as_strided({layout.sizes}, {layout.strides}{offset})"


# -- one tensor -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Expression:
    """Writes one strided tensor."""

    draft: Draft
    spec: Spec

    @property
    def module(self) -> str:
        """What ``torch`` is called in the program."""
        return self.draft.refer(torch)

    def text(self) -> str:
        spec = self.spec
        layout = spec.layout
        inner = spec.requires_grad and not spec.is_leaf
        if layout.is_plain:
            text = self.filled(layout.sizes, spec.data, grad=spec.requires_grad)
            return f"{text}.clone()" if inner else text
        base, steps, data = self.steps()
        text = f"{self.filled(base.sizes, data, grad=inner)}{steps}"
        return f"{text}.requires_grad_()" if spec.requires_grad and not inner else text

    def steps(self) -> tuple[Layout, str, torch.Tensor | None]:
        """A new tensor, what makes ``spec.layout`` of it, and what it has to contain."""
        layout, data = self.spec.layout, self.spec.data
        dense = _order(layout) if layout.offset == 0 else None
        owns = dense is not None and not self.spec.is_view
        plain = Layout(layout.sizes, contiguous(layout.sizes))
        if owns and len(layout.sizes) in _CHANNELS_LAST:
            format_name = _CHANNELS_LAST[len(layout.sizes)]
            if _laid_out(plain, f".to(memory_format=torch.{format_name})") == layout:
                return plain, f".to(memory_format={self.module}.{format_name})", data
        for base in _bases(layout, dense):
            steps = f".expand({_numbers(layout.sizes)})"
            if 0 not in layout.strides or _laid_out(base, steps) != layout:
                steps = steps_between(base, layout)
            if not steps.startswith(".as_strided"):
                break
        # A clone keeps the strides of a tensor without gaps.
        return base, f"{steps}.clone()" if owns else steps, _spread(data, base, layout)

    def filled(self, sizes: tuple[int, ...], data: torch.Tensor | None, *, grad: bool) -> str:
        """A new contiguous tensor with the dtype and device of ``spec``."""
        spec = self.spec
        where = "" if spec.device.type == "cpu" else f', device="{spec.device}"'
        now = ", requires_grad=True" if grad else ""
        known = self.known(sizes, data, where, now)
        if known is not None:
            return known
        if spec.dtype.is_floating_point or spec.dtype.is_complex:
            text = self.floating(sizes, data, where, now)
        else:
            text = self.integral(sizes, data, where)
        return with_contents(self.draft, text, data)

    def floating(
        self, sizes: tuple[int, ...], data: torch.Tensor | None, where: str, now: str
    ) -> str:
        spec = self.spec
        late = ".requires_grad_()" if now else ""
        dtype = f", dtype={self.module}.{str(spec.dtype).removeprefix('torch.')}"
        said = "" if spec.dtype == torch.float32 else dtype
        if spec.dtype.is_floating_point and spec.dtype.itemsize < 2:
            return f"{self.module}.randn({_shape(sizes)}{where}).to({dtype[8:]}){late}"
        if _is_mask(data) and len(sizes) > 1:
            # Which ones are masked is lost, but every row has one that is not.
            whole = f'{self.module}.full({_tuple(sizes)}, float("-inf"){said}{where})'
            return f"{whole}.triu(1){late}"
        name = "rand" if _is_unit(data) else "randn"
        return f"{self.module}.{name}({_shape(sizes)}{said}{where}{now})"

    def integral(self, sizes: tuple[int, ...], data: torch.Tensor | None, where: str) -> str:
        spec = self.spec
        dtype = f", dtype={self.module}.{str(spec.dtype).removeprefix('torch.')}"
        if spec.dtype == torch.bool:
            return f"({self.module}.rand({_shape(sizes)}{where}) > 0.5)"
        if spec.dtype not in INTEGERS:
            return f"{self.module}.empty({_shape(sizes)}{dtype}{where})"
        low, high = _range_of(data)
        ordered = self.ordered(sizes, data, low, high)
        if ordered is not None:
            return f"{ordered}.to({dtype[8:]})" if spec.dtype != torch.int64 else ordered
        said = "" if spec.dtype == torch.int64 else dtype
        bounds = f"{high + 1}" if low == 0 else f"{low}, {high + 1}"
        if high + 1 < 1 << 63 and spec.dtype in _SIGNED:
            return f"{self.module}.randint({bounds}, {_tuple(sizes)}{said}{where})"
        bounds = f"{max(low, 0)}, {min(high, (1 << 62)) + 1}"
        return f"{self.module}.randint({bounds}, {_tuple(sizes)}{where}).to({dtype[8:]})"

    def ordered(
        self, sizes: tuple[int, ...], data: torch.Tensor | None, low: int, high: int
    ) -> str | None:
        """Integers whose order matters: permutations, and those that only grow, as offsets do."""
        if data is None or len(sizes) != 1 or data.numel() > _READ or not _readable(data):
            return None
        count = sizes[0]
        where = "" if self.spec.device.type == "cpu" else f', device="{self.spec.device}"'
        numbers = data.to(torch.int64)
        steps = numbers.diff()
        if low == 0 and bool((steps >= 0).all()):
            return f"{self.module}.arange({count}{where}) * {high + 1} // {count}"
        if low == 0 and high == count - 1 and bool((numbers.sort().values.diff() == 1).all()):
            rolled = f"{self.module}.arange({count}{where}).roll({-int(numbers[0]) % count})"
            if _makes(rolled, self.module, numbers):
                return rolled
            return f"{self.module}.randperm({count}{where})"
        return None

    def known(
        self, sizes: tuple[int, ...], data: torch.Tensor | None, where: str, now: str
    ) -> str | None:
        """The contents themselves, where they are few or regular."""
        spec = self.spec
        floating = spec.dtype.is_floating_point or spec.dtype.is_complex
        name = f"{self.module}."
        full = str(spec.dtype).removeprefix("torch.")
        dtype = "" if spec.dtype == torch.float32 else f", dtype={self.module}.{full}"
        count = math.prod(sizes)
        if count == 0:
            return f"{name}empty({_shape(sizes)}{dtype}{where}{now})"
        if data is None:
            if floating:
                return None
            if spec.dtype == torch.bool:
                return f"{name}ones({_shape(sizes)}{dtype}{where})"
            if not sizes and spec.dtype in _SIGNED:
                return f"{name}tensor(1{'' if spec.dtype == torch.int64 else dtype}{where})"
            return None
        if count > _READ or not _readable(data):
            return None
        patterns: list[str] = []
        data = data.reshape(sizes) if data.numel() == count else data
        first = _number(data.flatten()[0])
        written = INLINE if self.draft.store is not None or not floating else 1
        if count <= written and _exact(first, data.flatten()[0]):
            listed = _listed(data)
            implied = full in ("int64", "bool", "float32", "complex64")
            patterns.append(f"{name}tensor({listed}{'' if implied else dtype}{where}{now})")
        patterns += _patterns(name, sizes, first, dtype, where, now, data)
        patterns.sort(key=len)
        for text in patterns:
            if _makes(text, self.module, data):
                return text
        return None


def with_contents(draft: Draft, text: str, data: torch.Tensor | None) -> str:
    """``text`` makes a tensor; where real data is kept, with the elements of ``data`` in it."""
    if draft.store is None or data is None or not _readable(data):
        return text
    name = draft.store.save(data)
    if name is None:
        draft.note(f"data beyond {draft.store.most >> 20} MiB is left out: it is random")
        return text
    return f'{STORED}("{name}", {text})'


def refilled(writing: Writing, value: torch.Tensor) -> str:
    """The statement that gives a tensor at ``{0}`` the contents of ``value``; empty if nothing is
    known of them, or there is no room."""
    data = spec_of(value).data
    if data is None or not data.numel():
        return ""
    plain = replace(spec_of(value), device=torch.device("cpu"))
    known = _Expression(writing.draft, plain).known(plain.layout.sizes, data.cpu(), "", "")
    if known is not None:
        return f"{{0}}.data.copy_({known})"
    text = with_contents(writing.draft, "{0}", data)
    return "" if text == "{0}" else text


def _patterns(
    name: str,
    sizes: tuple[int, ...],
    first: Any,
    dtype: str,
    where: str,
    now: str,
    data: torch.Tensor,
) -> Iterator[str]:
    """Expressions that may make ``data``; each is tried."""
    shape = _shape(sizes)
    tail = f"{dtype}{where}{now}"
    value = _literal(first)
    if value == "True" or first == 1:
        yield f"{name}ones({shape}{tail})"
    if value == "False" or first == 0:
        yield f"{name}zeros({shape}{tail})"
    if isinstance(first, complex) or now:
        return
    yield f"{name}full({_tuple(sizes)}, {value}{tail})"
    if not sizes:
        return
    last, is_bool = sizes[-1], data.dtype == torch.bool
    if not is_bool:
        plain = "" if data.dtype == torch.int64 else dtype
        if data.dtype == torch.float32:
            plain = f", dtype={name}float32"
        ranged = f"{name}arange({last}{plain}{where})"
        if isinstance(first, int) and first != 0:
            ranged = f"{name}arange({first}, {first + last}{plain}{where})"
        yield ranged if len(sizes) == 1 else f"{ranged}.expand({_numbers(sizes)})"
        if len(sizes) > 1:
            yield f"{ranged.replace(f'({last}', f'({math.prod(sizes)}', 1)}.view({shape})"
            yield ranged.replace(f"({last}", f"({sizes[0]}", 1) + f".view({sizes[0]}, 1)"
            lead = ", ".join(["1"] * (len(sizes) - 1))
            yield f"{ranged}.view({lead}, {last})"
    if len(sizes) == 2 and sizes[0] == sizes[1]:
        yield f"{name}eye({last}{tail})"
    if len(sizes) >= 2:
        values = [_number(one) for one in data.unique()[:3]] if _is_computed(data) else []
        for one in values:
            whole = f"{name}full({_tuple(sizes)}, {_literal(one)}{tail})"
            if one == 1:
                whole = f"{name}ones({shape}{tail})"
            for cut in ("tril", "triu"):
                for diagonal in ("", "1", "-1"):
                    yield f"{whole}.{cut}({diagonal})"


def _makes(text: str, name: str, data: torch.Tensor) -> bool:
    try:
        made = eval(text, {name.split(".")[0]: torch})
    except Exception:  # a pattern for another dtype
        return False
    if made.dtype != data.dtype or made.shape != data.shape or made.device != data.device:
        return False
    if not _is_computed(data):
        return bool((made.float() == data.float()).all())
    if data.dtype == torch.complex32:
        made, data = made.to(torch.complex64), data.to(torch.complex64)
    same: Callable[..., bool] = torch.equal
    if same(made, data):
        return bool((torch.signbit(made) == torch.signbit(data)).all()) if _signed(data) else True
    return bool(data.is_floating_point() and torch.allclose(made, data, 0, 0, equal_nan=True))


def _is_computed(data: torch.Tensor) -> bool:
    """Whether torch has more than conversions for the dtype."""
    return data.dtype.itemsize > 1 or not data.dtype.is_floating_point


def _signed(data: torch.Tensor) -> bool:
    return data.is_floating_point()


def _readable(data: torch.Tensor) -> bool:
    return data.layout is torch.strided and not is_fake(data) and data.device.type != "meta"


def _number(element: torch.Tensor) -> Any:
    value = element.item()
    if isinstance(value, float) and math.isfinite(value):
        for digits in range(1, 10):
            short = float(f"{value:.{digits}g}")
            if torch.tensor(short, dtype=element.dtype, device=element.device).equal(element):
                return short
    return value


def _exact(value: Any, element: torch.Tensor) -> bool:
    return not isinstance(value, complex) or element.dtype in (torch.complex64, torch.complex128)


def _literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _listed(data: torch.Tensor) -> str:
    if data.dim() == 0:
        return _literal(_number(data))
    return "[" + ", ".join(_listed(part) for part in data) + "]"


def _is_mask(data: torch.Tensor | None) -> bool:
    """Whether there is nothing but zeros and negative infinities, as attention takes them."""
    if data is None or data.numel() > _READ or not _readable(data) or data.is_complex():
        return False
    if data.dtype.itemsize < 2:
        return False
    low, high = data.aminmax()
    return bool(low == -math.inf) and bool(high == 0) and bool(((data == 0) | (data == low)).all())


def _is_unit(data: torch.Tensor | None) -> bool:
    """Whether all elements are between 0 and 1, and so many that this is no accident."""
    if data is None or not 8 <= data.numel() <= _READ or not _readable(data):
        return False
    if not data.is_floating_point():
        return False
    low, high = data.float().aminmax()
    return bool(low >= 0) and bool(high <= 1)


def _range_of(data: torch.Tensor | None) -> tuple[int, int]:
    if data is None or data.numel() > _SCAN or not data.numel() or not _readable(data):
        return 0, 1
    if data.dtype in _UNSIGNED:
        data = data.to(torch.int64)
    low, high = data.aminmax()
    return int(low), int(high)


def _spread(data: torch.Tensor | None, base: Layout, layout: Layout) -> torch.Tensor | None:
    """The contents of a base of which ``data`` is a view; zero where nothing looks."""
    if data is None or not _readable(data) or max(base.count, data.numel()) > _READ:
        return None
    whole = torch.zeros(max(base.extent, layout.extent), dtype=data.dtype, device=data.device)
    try:
        whole.as_strided(layout.sizes, layout.strides, layout.offset).copy_(data)
    except RuntimeError:  # elements that overlap: each is written one by one
        flat = whole.as_strided(layout.sizes, layout.strides, layout.offset)
        for index in itertools.islice(itertools.product(*map(range, layout.sizes)), 1 << 12):
            flat[index] = data[index]
    return whole[: base.count].view(base.sizes)


def _order(layout: Layout) -> tuple[int, ...] | None:
    """The dimensions from the outermost to the innermost in memory, if there are no gaps."""
    order = sorted(
        range(len(layout.sizes)), key=lambda dim: (-layout.strides[dim], -layout.sizes[dim], dim)
    )
    strides = contiguous([layout.sizes[dim] for dim in order])
    if all(layout.strides[dim] == stride for dim, stride in zip(order, strides, strict=True)):
        return tuple(order)
    return None


def _bases(layout: Layout, dense: tuple[int, ...] | None) -> Iterator[Layout]:
    """Contiguous tensors of which ``layout`` may be a simple view."""
    if any(stride == 0 for stride in layout.strides):
        pairs = zip(layout.sizes, layout.strides, strict=True)
        sizes = tuple(1 if stride == 0 else size for size, stride in pairs)
        yield Layout(sizes, contiguous(sizes))
    if dense is not None and layout.offset == 0:
        sizes = tuple(layout.sizes[dim] for dim in dense)
        yield Layout(sizes, contiguous(sizes))
    if layout.count and layout.sizes:
        rows = _rows(layout)
        if rows is not None:
            yield rows
    extent = layout.extent
    yield Layout((extent,), (1,))


def _rows(layout: Layout) -> Layout | None:
    """The tensor of which ``layout`` is a slice per dimension, if the strides nest."""
    outer = layout.strides[:-1]
    if min(layout.strides) < 1 or not outer:
        return None
    if any(stride % inner for stride, inner in itertools.pairwise(layout.strides)):
        return None
    inner_sizes = [stride // inner for stride, inner in itertools.pairwise(outer)]
    sizes = (-(-layout.extent // outer[0]), *inner_sizes, outer[-1])
    return Layout(sizes, contiguous(sizes))


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(str(value) for value in values)


def _shape(sizes: Sequence[int]) -> str:
    return _numbers(sizes) if sizes else "()"


def _tuple(sizes: Sequence[int]) -> str:
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({_numbers(sizes)})"
