"""The cache in which fake tensor modes keep what operators give, and what its contents rest on."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._decomp
import torch._functorch.config
import torch._library.utils
import torch._ops
import torch.library
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .binding import Internal, Spelling

_PURPOSE = "what operators give for fake tensors, which later runs need not work out again"

ENTRY = Internal(
    "fake tensors",
    _PURPOSE,
    (Spelling("torch._subclasses.fake_tensor", "FakeTensorMode._make_cache_entry"),),
)
"""Makes an entry of ``(mode, state, key, operator, args, kwargs, output)``. Not among what is
required: without it nothing is kept."""

_NAMESPACES = ("aten", "prims")


def entries() -> dict[Any, Any]:
    """All that is kept, of all modes; empty where this torch keeps nothing."""
    kept: dict[Any, Any] = getattr(FakeTensorMode, "cache", {})
    return kept


def misses() -> int:
    """How often an operator was worked out in this process."""
    return int(getattr(FakeTensorMode, "cache_misses", 0))


def words(key: Any, entry: Any) -> str:
    """What a key and its entry consist of; the same in each process."""
    return f"{key.key!r} {entry!r}"


def is_shared(state: Any) -> bool:
    """Whether an entry is kept for all modes, not for the one whose symbols it has."""
    return not state.cache_on_shape_env()


def name_of(operator: Any) -> str:
    """``aten.add.Tensor``; empty for what no torch of this release has of itself."""
    if not isinstance(operator, torch._ops.OpOverload) or operator.namespace not in _NAMESPACES:
        return ""
    return f"{operator.namespace}.{operator._opname}.{operator._overloadname}"


def named(name: str) -> Any:
    """The operator of a name.

    Raises:
        AttributeError, ValueError: there is none.
    """
    namespace, packet, overload = name.split(".")
    if namespace not in _NAMESPACES:
        raise ValueError(name)
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def settings_of(mode: FakeTensorMode) -> dict[str, bool] | None:
    """Of its symbolic sizes; None if it has none."""
    env: Any = mode.shape_env
    return dataclasses.asdict(env.settings) if env is not None else None


def mode_with(settings: dict[str, bool] | None) -> FakeTensorMode:
    """A mode with these settings. Raises what ``ShapeEnv`` raises of others."""
    make: Any = ShapeEnv
    env = None if settings is None else make(**settings)
    return FakeTensorMode(allow_non_fake_inputs=True, shape_env=env)


def below_autograd() -> contextlib.AbstractContextManager[Any]:
    """Inside, operators come to the mode as they do from autograd."""
    guard: contextlib.AbstractContextManager[Any] = torch._C._AutoDispatchBelowAutograd()
    return guard


# -- what an entry rests on, besides its key ----------------------------------------------------

_MODULES = (
    "torch._decomp",
    "torch._meta_registrations",
    "torch._ops",
    "torch._prims",
    "torch._prims_common",
    "torch._refs",
    "torch._subclasses",
    "torch.fx.experimental.symbolic_shapes",
    "torch.utils._python_dispatch",
    "torch.utils._pytree",
)
_FLAGS = (
    "_get_cudnn_allow_tf32",
    "_get_cudnn_benchmark",
    "_get_cudnn_deterministic",
    "_get_cudnn_enabled",
    "_get_cudnn_sdp_enabled",
    "_get_deterministic_algorithms",
    "_get_deterministic_algorithms_warn_only",
    "_get_deterministic_fill_uninitialized_memory",
    "_get_flash_sdp_enabled",
    "_get_float32_matmul_precision",
    "_get_math_sdp_enabled",
    "_get_mem_efficient_sdp_enabled",
    "_get_mkldnn_enabled",
    "_get_nnpack_enabled",
    "_get_overrideable_sdp_enabled",
    "_is_any_autocast_enabled",
)
_CLASSES = (FakeTensor, FakeTensorMode, ShapeEnv, torch._ops.OpOverload)


class Rules:
    """How operators work on fake tensors, as it is now: the functions that do it, what is
    registered for operators of torch itself, and the settings that they read."""

    def __init__(self) -> None:
        self._functions = [(space, *_functions(space)) for space in _spaces()]
        self._registered, self._flags = _registered(), _flags()
        self._tables = [(table, len(table)) for table in _tables()]
        self._operators: dict[Any, Any] = {}

    def add(self, operator: Any) -> None:
        """What Python functions are registered for an operator matters as well."""
        if operator not in self._operators:
            own = [table.get(operator) for table, _ in self._tables]
            self._operators[operator] = dict(operator.py_kernels), own

    def hold(self) -> bool:
        """Whether it is so still. What was only added does not matter."""
        return (
            # Lists compare what is identical without a call.
            all(list(map(space.get, names)) == found for space, names, found in self._functions)
            and all(len(table) == length for table, length in self._tables)
            and all(
                operator.py_kernels == kernels
                and [table.get(operator) for table, _ in self._tables] == own
                for operator, (kernels, own) in self._operators.items()
            )
            and self._registered == _registered()
            and self._flags == _flags()
        )


def _spaces() -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.startswith(_MODULES) and module is not None:
            yield vars(module)
    for kind in _CLASSES:
        yield vars(kind)


def _tables() -> Iterator[Any]:
    """By operator."""
    yield fake_impls.op_implementations_dict
    yield from getattr(torch._decomp, "global_decomposition_table", {}).values()


def _functions(space: Any) -> tuple[list[Any], list[Callable[..., Any]]]:
    found = {name: value for name, value in list(space.items()) if callable(value)}
    return list(found), list(found.values())


def _registered() -> tuple[Any, ...]:
    return _registrations, set(torch.ops.loaded_libraries)


_registrations = 0
"""How often something was registered from Python for operators of torch itself."""


def count_registrations() -> None:
    """From here on. Call it once per process, before others are forked off it."""
    library = torch.library.Library
    original: Any = library.impl

    @functools.wraps(original)
    def impl(self: Any, *args: Any, **kwargs: Any) -> Any:
        global _registrations
        _registrations += self.ns in _NAMESPACES
        return original(self, *args, **kwargs)

    library.impl = impl  # type: ignore[method-assign]


def _flags() -> tuple[Any, ...]:
    flags: list[Any] = []
    for name in _FLAGS:
        ask = getattr(torch._C, name, None)
        flags.append(ask() if ask is not None else None)
    config: Any = torch._functorch.config
    flags.append(config.get_hash())
    return tuple(flags)
