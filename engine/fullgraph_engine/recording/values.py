"""Convert the arguments of calls in a running program to probe notation (``f32[4, 16]``).

Contents of tensors are not included.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import functools
import inspect
import re
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Literal

from ..targets import notation
from ..targets.notation import (
    Arguments,
    FixedSize,
    LiteralValue,
    Reference,
    Sequence,
    TensorText,
    Value,
)
from ..torch_internals import ambient

_MOST_ITEMS = 64
_LONGEST = 200
_PUBLIC = ("torch", "torch.nn", "torch.nn.functional")
"""Modules with torch's public names; the objects may be defined in other modules or in C++."""
_WORD = re.compile(r"[\w.:/+-]{1,40}")

Constructed = Callable[[Any], "Arguments | None"]
"""A function that returns the recorded constructor arguments of a module, or None if they are
unknown.
"""


class InexpressibleArgument(Exception):
    """Raised for an argument that probe notation cannot express.

    The message is a description of the argument with an article.
    """


class ArgumentWriter:
    """Converts the arguments of calls to the notation of example inputs (``f32[4, 16]``).

    Names are written as ``home``, the namespace of the called class's module, defines them.
    ``constructed`` returns the constructor arguments of a module. ``contents``: the arguments may
    be user data, so that a string is written only if it is a single word.
    """

    def __init__(
        self, home: Mapping[str, Any], constructed: Constructed, *, contents: bool
    ) -> None:
        self._home, self._constructed, self._contents = home, constructed, contents

    def write_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """Convert the arguments of a call to probe notation, such as ``f32[4, 16]``.

        Raises:
            InexpressibleArgument: an argument cannot be expressed in probe notation.
        """
        return Arguments(
            tuple(self.write_value(value) for value in args),
            tuple((name, self.write_value(value)) for name, value in kwargs.items()),
        )

    def write_value(self, value: Any) -> Value:
        if value is None or type(value) in (bool, int, float):
            return LiteralValue(value)
        torch: Any = sys.modules["torch"]
        if isinstance(value, torch.Tensor):
            return self.write_tensor(value)
        if type(value) is str:
            return self.write_text(value)
        if type(value) in (list, tuple, torch.Size):
            return Sequence("list" if type(value) is list else "tuple", self.write_items(value))
        if type(value) in (dict, OrderedDict):
            pairs = tuple(
                zip(self.write_items(value), self.write_items(value.values()), strict=True)
            )
            return notation.Mapping(pairs)
        if isinstance(value, torch.dtype):
            return Reference(str(value))
        if isinstance(value, torch.device):
            return Reference("torch.device", Arguments((LiteralValue(str(value)),)))
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            return Reference(self.write_name(value))
        if isinstance(value, enum.Enum):
            return Reference(f"{self.write_name(type(value))}.{value.name}")
        return self.constructor_call(value, torch)

    def write_items(self, values: Any) -> tuple[Value, ...]:
        if len(values) > _MOST_ITEMS:
            raise InexpressibleArgument(
                f"a collection of {len(values):,} items, too many to record"
            )
        return tuple(self.write_value(value) for value in values)

    def write_text(self, value: str) -> Value:
        if len(value) > _LONGEST or (self._contents and not _WORD.fullmatch(value)):
            raise InexpressibleArgument("a text")
        return LiteralValue(value)

    def write_tensor(self, tensor: Any) -> TensorText:
        torch: Any = sys.modules["torch"]
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise InexpressibleArgument(f"a {type(tensor).__name__}")
        dtype = dtype_name(tensor.dtype)
        if tensor.layout is not torch.strided or dtype is None:
            raise InexpressibleArgument(f"a tensor of {tensor.dtype}, {tensor.layout}")
        strides = None if tensor.is_contiguous() else tuple(tensor.stride())
        sizes = tuple(FixedSize(int(size)) for size in tensor.shape)
        grad: Literal["", "requires_grad", "grad_fn"] = ""
        if tensor.requires_grad and type(tensor) is torch.Tensor:
            grad = "requires_grad" if tensor.is_leaf else "grad_fn"
        marks = tuple(ambient.marked_dimensions(tensor).items())
        return TensorText(dtype, sizes, strides, device_name(tensor.device), grad, marks)

    def constructor_call(self, value: Any, torch: Any) -> Value:
        """Write an object as the constructor call that creates an equal object."""
        kind = type(value)
        given: Arguments | None = None
        if isinstance(value, torch.nn.Module):
            given = self._constructed(value)
            if given is None and _is_as_new(value):
                given = Arguments()
        elif dataclasses.is_dataclass(value):
            named = [
                (field.name, self.write_value(getattr(value, field.name)))
                for field in dataclasses.fields(value)
                if field.init
            ]
            given = Arguments((), tuple(named))
        elif isinstance(value, tuple) and hasattr(kind, "_fields"):
            given = Arguments(self.write_items(value))
        elif kind in (argparse.Namespace, types.SimpleNamespace):
            given = Arguments((), tuple((k, self.write_value(v)) for k, v in vars(value).items()))
        if given is None:
            raise InexpressibleArgument(
                f"an object of {kind.__qualname__}, which cannot be recorded"
            )
        return Reference(self.write_name(kind), given)

    def write_name(self, value: Any) -> str:
        """Return a dotted name by which ``value`` can be imported, or its name in the file of the
        called class.
        """
        name = getattr(value, "__qualname__", value.__name__)
        root = name.partition(".")[0]
        module = getattr(value, "__module__", None) or ""
        if root in self._home and _resolve_name(name, self._home) is value:
            return str(name)
        if module == "builtins":
            return str(name)
        last = name.rpartition(".")[2]
        for public in _PUBLIC:
            if getattr(sys.modules.get(public), last, self) is value:
                return f"{public}.{last}"
        found = sys.modules.get(module)
        if module == "__main__" or found is None or _resolve_name(name, vars(found)) is not value:
            raise InexpressibleArgument(f"{name}, which cannot be imported")
        return f"{module}.{name}"


def _resolve_name(name: str, namespace: Mapping[str, Any]) -> Any:
    root, *rest = name.split(".")
    found = namespace.get(root)
    for part in rest:
        found = getattr(found, part, None)
    return found


@functools.lru_cache(maxsize=64)
def dtype_name(dtype: Any) -> str | None:
    """Return the short name of a dtype, as in ``f32`` for ``torch.float32``; None without one."""
    return notation.dtype_abbreviations().get(dtype)


@functools.lru_cache(maxsize=64)
def device_name(device: Any) -> str | None:
    """Return the name of a device, as in ``cuda`` for the first GPU; None for the CPU."""
    if device.type == "cpu":
        return None
    return f"{device.type}:{device.index}" if device.index else str(device.type)


def _is_as_new(module: Any) -> bool:
    """Whether a module does not have parameters and was constructed with defaults, such as
    ``nn.ReLU()``.
    """
    kind = type(module)
    if not kind.__module__.startswith("torch.nn.") or module._parameters or module._modules:
        return False
    required = [
        one
        for one in inspect.signature(kind).parameters.values()
        if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    return not required and bool(kind().extra_repr() == module.extra_repr())
