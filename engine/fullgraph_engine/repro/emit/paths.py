"""Names by which a generated program refers to values of torch and the standard library."""

from __future__ import annotations

import functools
import operator
import sys
import types
from typing import Any

from ...torch_internals import dispatcher as ops
from .sources import origin_of

# Modules available after `import torch` in all supported versions.
_LOADED = """
_C _dynamo _dynamo.config _inductor _inductor.config _ops amp autograd autograd.function
autograd.functional autograd.graph autograd.profiler backends backends.cuda backends.cudnn
backends.mkldnn backends.mps compiler cpu cuda cuda.amp distributed distributions fft func
functional futures fx hub jit library linalg mps multiprocessing nested nn nn.functional nn.init
nn.modules nn.parallel nn.parameter nn.utils nn.utils.parametrizations nn.utils.parametrize
nn.utils.rnn onnx ops optim optim.lr_scheduler overrides package profiler quantization random
serialization signal sparse special storage testing types utils utils.data version xpu
"""
_WITH_TORCH = {"torch", *(f"torch.{name}" for name in _LOADED.split())}
# Modules to search for functions without ``__module__``.
_SEARCHED = """
torch torch.nn.functional torch.Tensor torch.linalg torch.fft torch.special torch.nn torch.nn.init
torch.nn.utils.rnn torch.nn.utils torch.autograd torch.utils.checkpoint torch.compiler
torch._dynamo torch.sparse torch.nested torch.func torch.cuda torch.amp torch.jit torch._C
torch._C._nn torch.utils.data torch.distributions torch.optim
math operator builtins functools itertools copy random time os typing collections
"""
_PLACES = _SEARCHED.split()


def needs_import(module: str) -> bool:
    """Whether a generated program must import a module of torch in addition to ``import torch``."""
    return module not in _WITH_TORCH


def public_path(value: Any) -> tuple[str, str] | None:
    """Return the module and name by which a generated program can import an object of torch or
    Python.

    Return None for other objects.
    """
    by_operator = _operator_path(value)
    if by_operator is not None:
        return "torch", by_operator
    module = _module_name(value)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if isinstance(module, str) and isinstance(name, str) and origin_of(module) in _PUBLIC:
        for place in _shorter_modules(module):
            if not _is_private(place) and resolve_path(place, name) is value:
                return place, name
    found = _index_paths().get(id(value))
    if found is not None and resolve_path(*found) is value:
        return found
    if isinstance(module, str) and isinstance(name, str) and origin_of(module) in _PUBLIC:
        return (module, name) if resolve_path(module, name) is value else None
    return None


_PUBLIC = ("torch", "standard")


def _module_name(value: Any) -> Any:
    module = getattr(value, "__module__", None)
    if not isinstance(module, str):
        owner = getattr(value, "__objclass__", None)
        module = getattr(owner, "__module__", None)
    return module


def _operator_path(value: Any) -> str | None:
    """Return the path of an operator inside ``torch``, like ``ops.aten.relu.default``, or None."""
    if isinstance(value, ops.OpOverload):
        namespace, _, name = value._schema.name.partition("::")
        return f"ops.{namespace}.{name}.{value._overloadname}"
    if isinstance(value, ops.OpOverloadPacket):
        namespace, _, name = value._qualified_op_name.partition("::")
        return f"ops.{namespace}.{name}"
    return None


def _shorter_modules(module: str) -> list[str]:
    """Return the dotted names of a module and its parents, such as ``torch`` and ``torch.nn``,
    outermost first.
    """
    parts = module.split(".")
    above = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    if parts[0] not in ("torch", "functorch") and parts[0].startswith("_"):
        above.insert(0, parts[0].lstrip("_"))
    return above


def _is_private(module: str) -> bool:
    return module[0] == "_" or "._" in module


def resolve_path(module: str, name: str) -> Any:
    """Return the value of a dotted name in a loaded module; None if it does not exist."""
    loaded = sys.modules.get(module)
    if loaded is None:
        parts = module.split(".")
        loaded = sys.modules.get(parts[0])
        if loaded is None:
            return None
        name = ".".join([*parts[1:], name])
    try:
        return operator.attrgetter(name)(loaded)
    except Exception:
        return None


@functools.cache
def _index_paths() -> dict[int, tuple[str, str]]:
    """Map the ``id`` of torch's builtin functions to their public module and name.

    Their own ``__module__`` is private or missing.
    """
    found: dict[int, tuple[str, str]] = {}
    for place in _PLACES:
        module, _, name = (place, "", "")
        if place == "torch.Tensor":
            module, name = "torch", "Tensor"
        holder = sys.modules.get(module)
        if holder is None:
            continue
        space: Any = getattr(holder, name) if name else holder
        for attribute in dir(space):
            if attribute.startswith("__"):
                continue
            try:
                value = getattr(space, attribute)
            except Exception:
                continue
            if isinstance(value, types.ModuleType) or _is_plain(value):
                continue
            path = f"{name}.{attribute}" if name else attribute
            found.setdefault(id(value), (module, path))
    return found


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, bytes, tuple, list, dict))
