"""Build the inputs of a call from text such as ``f32[b, 16]``, and describe inputs as such text.

``torch`` is imported inside the functions, so that targets can be found without it.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from collections.abc import Mapping as AnyMapping
from collections.abc import Set as AnySet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import placeholder
from ..torch_internals import ambient
from . import notation
from .notation import (
    Arguments,
    LiteralValue,
    Mapping,
    Reference,
    Sequence,
    SizeText,
    SymbolicSize,
    TensorText,
    Value,
    evaluate_size,
    show_size,
    symbols_of_size,
)
from .signatures import find_misfit

if TYPE_CHECKING:
    import torch


class ProbeError(Exception):
    """Raised for example inputs that cannot be built, for example ``f32[-1]``; the message is one
    sentence for the user.

    ``about`` is the wrong word of the text; empty if several are wrong.
    """

    def __init__(self, message: str, about: str = "") -> None:
        super().__init__(message)
        self.about = about


@dataclass
class DynamicDimension:
    """A symbolic dimension of an input, such as ``b`` in ``f32[b, 16]``; ``path`` is the input's
    position, such as ``args[0]``."""

    path: str
    tensor: torch.Tensor
    dim: int
    symbol: str


@dataclass
class Built:
    """Positional and keyword arguments that were built from the text of example inputs, with their
    symbolic dimensions."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic: tuple[DynamicDimension, ...]


def build_inputs(
    arguments: Arguments, sizes: dict[str, int], namespace: AnyMapping[str, Any]
) -> Built:
    """Make the values that parsed example inputs describe; tensors are fake inside a fake mode,
    otherwise real.

    ``sizes`` are the numbers of symbolic sizes, and ``namespace`` has the globals of the file.

    Raises:
        ProbeError: a name is not defined in the file.
    """
    builder = _Builder(sizes, namespace)
    args = tuple(
        builder.value(value, f"args[{index}]") for index, value in enumerate(arguments.positional)
    )
    kwargs = {name: builder.value(value, f"kwargs[{name!r}]") for name, value in arguments.named}
    return Built(args, kwargs, tuple(builder.dynamic))


def build_value(value: Value) -> Any:
    """Make the value that parsed text such as ``f32[4, 16]`` describes; it must not use names of
    the file."""
    return _Builder({}, {}).value(value, "")


class _Builder:
    def __init__(self, sizes: dict[str, int], namespace: AnyMapping[str, Any]) -> None:
        self.sizes = sizes
        self.namespace = namespace
        self.dynamic: list[DynamicDimension] = []

    def value(self, value: Value, path: str) -> Any:
        if isinstance(value, TensorText):
            return self.tensor(value, path)
        if isinstance(value, LiteralValue):
            return value.value
        if isinstance(value, SizeText):
            return self.size(value)
        if isinstance(value, Sequence):
            items = [self.value(item, f"{path}[{at}]") for at, item in enumerate(value.items)]
            return items if value.kind == "list" else tuple(items)
        if isinstance(value, Mapping):
            keys = [self.value(key, path) for key, _ in value.items]
            return {
                key: self.value(item, f"{path}[{key!r}]")
                for key, (_, item) in zip(keys, value.items, strict=True)
            }
        return self.reference(value, path)

    def size(self, text: SizeText) -> Any:
        size = text.size
        unknown = [symbol.name for symbol in symbols_of_size(size) if symbol.name not in self.sizes]
        if not unknown:
            return evaluate_size(size, self.sizes)
        if isinstance(size, SymbolicSize):
            return look_up(size.name, self.namespace)
        raise ProbeError(
            f"The probe uses {unknown[0]} in {show_size(size)}, but no tensor of the probe has "
            f"a dimension {unknown[0]}; write the number.",
            unknown[0],
        )

    def reference(self, reference: Reference, path: str) -> Any:
        found = look_up(reference.name, self.namespace)
        if reference.call is None:
            return found
        args = [
            self.value(value, f"{path}({at})") for at, value in enumerate(reference.call.positional)
        ]
        kwargs = {
            name: self.value(value, f"{path}({name})") for name, value in reference.call.named
        }
        wrong = find_misfit(found, tuple(args), kwargs)
        if wrong is not None:
            words = f"{reference.name}(…) of the probe cannot be constructed: {wrong.reason}."
            raise ProbeError(words, wrong.keyword or reference.name)
        return found(*args, **kwargs)

    def tensor(self, text: TensorText, path: str) -> torch.Tensor:
        shape = tuple(evaluate_size(size, self.sizes) for size in text.sizes)
        for size, length in zip(text.sizes, shape, strict=True):
            if length < 0:
                raise ProbeError(f"The size {show_size(size)} of the probe is {length}, below 0.")
        tensor = example_tensor(text.dtype, shape, text.strides, text.device)
        if text.grad:
            tensor = _requiring_grad(tensor, text)
        _mark_dimensions(tensor, text)
        for dim, size in enumerate(text.sizes):
            if next(symbols_of_size(size), None) is not None:
                self.dynamic.append(DynamicDimension(path, tensor, dim, _symbol_text(size)))
        return tensor


def _requiring_grad(tensor: torch.Tensor, text: TensorText) -> torch.Tensor:
    """Return a tensor that requires grad as the text states: the tensor itself (a leaf), or the
    result of an operation on it."""
    if not tensor.dtype.is_floating_point and not tensor.dtype.is_complex:
        words = f"A tensor of {text.dtype} cannot require grad; only floating-point ones can."
        raise ProbeError(words, text.grad)
    tensor.requires_grad_()
    return tensor if text.grad == "requires_grad" else tensor.clone()


def _mark_dimensions(tensor: torch.Tensor, text: TensorText) -> None:
    if not text.marks:
        return
    from ..torch_internals import dynamo

    for name, dimensions in text.marks:
        for dimension in dimensions:
            dynamo.marks[name](tensor, dimension)


def look_up(name: str, namespace: AnyMapping[str, Any]) -> Any:
    """Resolve a dotted name of the file, ``torch``, ``SimpleNamespace`` or an imported module.

    Raises:
        ProbeError: the name is undefined.
    """
    root, *rest = name.split(".")
    if root in namespace:
        found = namespace[root]
    elif root == "torch":
        found = importlib.import_module("torch")
    elif hasattr(builtins, root):
        found = getattr(builtins, root)
    elif root == "SimpleNamespace":
        found = types.SimpleNamespace
    elif root in sys.modules:
        found = sys.modules[root]
    else:
        raise ProbeError(
            f"The probe names {root}, which is neither a dimension of its tensors "
            "nor a name of this file.",
            root,
        )
    for part in rest:
        try:
            found = getattr(found, part)
        except AttributeError:
            words = f"The probe names {name}, but {root} has no {part}."
            raise ProbeError(words, part) from None
    return found


def example_tensor(
    dtype_name: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None = None,
    device: str | None = None,
) -> torch.Tensor:
    """Return a tensor of random normal floats, integers of 0 or 1, or random booleans.

    Integers of 0 or 1 are valid indices of any embedding and any number of classes.
    """
    import torch

    dtype = dtype_of(dtype_name)
    where = torch.device(device) if device is not None else None
    if where is not None and not _can_hold_data(where):
        tensor = torch.empty(shape, dtype=dtype, device=where)
    elif dtype == torch.bool:
        tensor = torch.randint(0, 2, shape, device=where).to(torch.bool)
    elif dtype == torch.uint8:
        tensor = torch.randint(0, 8, shape, dtype=dtype, device=where)
    elif dtype.is_complex or (dtype.is_floating_point and dtype.itemsize >= 2):
        tensor = torch.randn(shape, dtype=dtype, device=where)
    elif dtype.is_floating_point and "float4" not in str(dtype):
        tensor = torch.randn(shape, device=where).to(dtype)
    elif dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        tensor = torch.randint(0, 2, shape, dtype=dtype, device=where)
    elif dtype in (torch.uint16, torch.uint32, torch.uint64):
        tensor = torch.randint(0, 2, shape, device=where).to(dtype)
    else:
        tensor = torch.empty(shape, dtype=dtype, device=where)
    if strides is None or tuple(tensor.stride()) == strides:
        return tensor
    return torch.empty_strided(shape, strides, dtype=dtype, device=where).copy_(tensor)


def dtype_of(name: str) -> torch.dtype:
    """Return the dtype with a short name such as ``f32``.

    Raises:
        ProbeError: this torch does not have the dtype.
    """
    import torch

    for dtype, known in notation.dtype_abbreviations().items():
        if known == name:
            return dtype
    raise ProbeError(f"torch {torch.__version__} has no dtype {name}.", name)


def _can_hold_data(device: torch.device) -> bool:
    """Whether tensors on a device can be filled with random data.

    They cannot if a fake device is used whose backend this torch lacks.
    """
    import torch

    if device.type in ("cpu", "meta"):
        return True
    backend = getattr(torch, device.type, None)
    available: Callable[[], bool] | None = getattr(backend, "is_available", None)
    if available is not None and available():
        return True
    if fake_mode() is None:
        raise ProbeError(
            f"The probe asks for the device {device}, but fullgraph runs code without it; set "
            "`mode` to `fake`, or write another device."
        )
    return False


def fake_mode() -> object | None:
    """Return the active FakeTensorMode; None if tensors are real."""
    from ..torch_internals.dispatcher import active_modes
    from ..torch_internals.fake_tensors import FakeTensorMode

    modes = reversed(active_modes())
    return next((mode for mode in modes if isinstance(mode, FakeTensorMode)), None)


class TooManyParameters(ProbeError):
    """Raised while a module is constructed, as soon as its parameters need too much memory."""


@contextlib.contextmanager
def limit_real_parameters() -> Iterator[None]:
    """Raise :class:`TooManyParameters` in the ``with`` block once the parameters of the modules
    constructed there exceed ``tracing.REAL_BYTES`` in total.

    Fake tensors, which need no memory, are not limited. PyTorch allocates the memory of a parameter
    before it registers it, and initializes it later.
    """
    from torch.nn.modules.module import register_module_parameter_registration_hook

    from .. import tracing

    if fake_mode() is not None:
        yield
        return
    total = 0

    def add_parameter(module: object, name: str, parameter: torch.nn.Parameter | None) -> None:
        nonlocal total
        total += 0 if parameter is None else tracing.storage_bytes(parameter)
        if total > tracing.REAL_BYTES:
            raise TooManyParameters(
                f"{type(module).__name__} and the modules before it have more than "
                f"{tracing.REAL_BYTES >> 20} MiB of parameters, too many for a run with real "
                "tensors; write a probe comment with smaller sizes."
            )

    hook = register_module_parameter_registration_hook(add_parameter)
    try:
        yield
    finally:
        hook.remove()


# -- back to notation -------------------------------------------------------------------------

_ITEMS = 6
_LENGTH = 300


def describe_inputs(
    args: tuple[Any, ...],
    kwargs: AnyMapping[str, Any],
    dynamic: tuple[DynamicDimension, ...] = (),
    *,
    facts: bool = False,
) -> str:
    """Return the inputs of a call as the text of a probe comment: ``f32[b=4, 16], mask=b8[4]``.

    ``dynamic`` are the symbolic dimensions. With ``facts``, the text includes which tensors require
    grad and which dimensions are marked.
    """
    names = {(id(one.tensor), one.dim): one.symbol for one in dynamic}
    if facts:
        names |= {(id(leaf), -1): "" for leaf in _find_tensors((args, kwargs))}
    seen: set[int] = set()
    parts = [_show_argument(value, names, seen) for value in args]
    parts += [f"{name}={_show_argument(value, names, seen)}" for name, value in kwargs.items()]
    text = ", ".join(parts)
    return text if len(text) <= _LENGTH else text[: _LENGTH - 1] + "…"


def _find_tensors(tree: Any) -> list[torch.Tensor]:
    import torch

    from ..torch_internals.trees import pytree

    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _show_argument(value: Any, names: dict[tuple[int, int], str], seen: set[int]) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        return _show_tensor(value, names)
    if isinstance(value, torch.nn.Module):
        return type(value).__name__
    if value is None or isinstance(value, (bool, int, float, complex, bytes)):
        return repr(value)
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:39] + "…")
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    if type(value) is placeholder.Placeholder:
        return placeholder.error_of_use(value).missing
    if isinstance(value, type) or callable(value):
        return getattr(value, "__name__", type(value).__name__)
    if id(value) in seen:
        return "…"
    seen.add(id(value))
    try:
        return _show_container(value, names, seen)
    finally:
        seen.discard(id(value))


def _show_container(value: Any, names: dict[tuple[int, int], str], seen: set[int]) -> str:
    if isinstance(value, AnyMapping):
        items = [
            f"{_show_argument(key, names, seen)}: {_show_argument(item, names, seen)}"
            for key, item in list(value.items())[:_ITEMS]
        ]
        return "{" + ", ".join(items + ["…"] * (len(value) > _ITEMS)) + "}"
    if isinstance(value, (list, tuple)):
        inner = [_show_argument(item, names, seen) for item in value[:_ITEMS]]
        inner += ["…"] * (len(value) > _ITEMS)
        if isinstance(value, list):
            return "[" + ", ".join(inner) + "]"
        text = ", ".join(inner) + ("," if len(value) == 1 else "")
        name = type(value).__name__ if type(value) is not tuple else ""
        return f"{name}({text})"
    if dataclasses.is_dataclass(value):
        given = [
            (field.name, item)
            for field in dataclasses.fields(value)
            if not _is_plainly(item := getattr(value, field.name, None), field.default)
        ]
        fields = [f"{name}={_show_argument(item, names, seen)}" for name, item in given[:_ITEMS]]
        fields += ["…"] * (len(given) > _ITEMS)
        return f"{type(value).__name__}({', '.join(fields)})"
    return f"{type(value).__name__}(…)"


def _is_plainly(value: Any, other: Any) -> bool:
    """Whether two values of builtin types are equal, compared without calling user code; False for
    other types."""
    plain = (bool, int, float, str, type(None))
    return type(value) is type(other) and type(value) in plain and value == other


def _show_tensor(tensor: torch.Tensor, names: dict[tuple[int, int], str]) -> str:
    import torch

    dtype = notation.dtype_abbreviations().get(tensor.dtype) or str(tensor.dtype).removeprefix(
        "torch."
    )
    sizes = []
    for dim, size in enumerate(tensor.shape):
        symbol = names.get((id(tensor), dim))
        if symbol is None:
            sizes.append(str(size))
        else:
            sizes.append(f"{symbol}={size}" if symbol.isidentifier() else symbol)
    text = f"{dtype}[{', '.join(sizes)}]"
    try:
        device = tensor.device
    except RuntimeError:  # a tensor subclass that has no device
        return text
    text = text if device == torch.device("cpu") else f"{text}@{device}"
    if (id(tensor), -1) not in names:
        return text
    facts = _tensor_facts(tensor, {dim for known, dim in names if known == id(tensor)})
    return f"{text}({', '.join(facts)})" if facts else text


def _tensor_facts(tensor: torch.Tensor, symbolic: AnySet[int]) -> list[str]:
    """Return a tensor's properties as the text of a probe comment states them, such as
    ``requires_grad``.

    Marks of the dimensions ``symbolic`` are left out.
    """
    import torch

    facts = []
    if tensor.requires_grad and not isinstance(tensor, torch.nn.Parameter):
        facts.append("requires_grad" if tensor.is_leaf else "grad_fn")
    for name, dimensions in ambient.marked_dimensions(tensor).items():
        weak = name == "maybe_mark_dynamic"
        left = tuple(one for one in dimensions if not (weak and one in symbolic))
        facts += [notation.show_mark(name, left)] if left else []
    return facts


def _symbol_text(size: notation.Size) -> str:
    return size.name if isinstance(size, SymbolicSize) else show_size(size)
