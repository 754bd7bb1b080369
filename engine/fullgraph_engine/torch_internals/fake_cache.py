"""Access to the cache of ``FakeTensorMode``, which stores what operators return for fake tensors.

The module also detects changes that invalidate cache entries although their keys stay the same.
"""

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

_PURPOSE = "reuse of the results of operators on fake tensors in later traces"

MAKE_CACHE_ENTRY = Internal(
    "fake tensors",
    _PURPOSE,
    (Spelling("torch._subclasses.fake_tensor", "FakeTensorMode._make_cache_entry"),),
)
"""The method that makes an entry from ``(mode, state, key, operator, args, kwargs, output)``.

Excluded from the required names: without it, runs only lose the shared cache entries.
"""

_NAMESPACES = ("aten", "prims")


def cache_entries() -> dict[Any, Any]:
    """Return the cache dictionary of ``FakeTensorMode`` itself, with entries of all modes.

    The result is empty if torch has none.
    """
    cache: dict[Any, Any] = getattr(FakeTensorMode, "cache", {})
    return cache


def count_misses() -> int:
    """Return the number of operator calls on fake tensors in this process that torch's cache did
    not contain.
    """
    return int(getattr(FakeTensorMode, "cache_misses", 0))


def entry_text(key: Any, entry: Any) -> str:
    """Return a text that identifies a cache key and its entry, equal in every process."""
    return f"{key.key!r} {entry!r}"


def is_shared(state: Any) -> bool:
    """Whether a cache entry is valid for every fake tensor mode, not only for the mode that
    created it.

    Entries with symbols of one mode are not.
    """
    return not state.cache_on_shape_env()


def operator_name(operator: Any) -> str:
    """Return the name of an ``aten`` or ``prims`` operator, such as ``aten.add.Tensor``.

    The result is empty for other operators.
    """
    if not isinstance(operator, torch._ops.OpOverload) or operator.namespace not in _NAMESPACES:
        return ""
    return f"{operator.namespace}.{operator._opname}.{operator._overloadname}"


def find_operator(name: str) -> Any:
    """Return the operator for a name that :func:`operator_name` returned.

    Raises:
        AttributeError: torch does not have this operator.
        ValueError: The name is malformed or from another namespace than ``aten`` and ``prims``.
    """
    namespace, packet, overload = name.split(".")
    if namespace not in _NAMESPACES:
        raise ValueError(name)
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def shape_env_settings(mode: FakeTensorMode) -> dict[str, bool] | None:
    """Return the settings of a mode's ``ShapeEnv`` as arguments of its constructor.

    The result is None without a ``ShapeEnv``.
    """
    env: Any = mode.shape_env
    return dataclasses.asdict(env.settings) if env is not None else None


def make_mode(settings: dict[str, bool] | None) -> FakeTensorMode:
    """Create a fake tensor mode whose ``ShapeEnv`` has the given settings; without a ``ShapeEnv``
    for None.

    Raises:
        TypeError: ``ShapeEnv`` does not accept the settings.
    """
    make: Any = ShapeEnv
    env = None if settings is None else make(**settings)
    return FakeTensorMode(allow_non_fake_inputs=True, shape_env=env)


def skip_autograd() -> contextlib.AbstractContextManager[Any]:
    """Return a context manager in which operator calls skip autograd and reach the fake tensor mode
    directly."""
    guard: contextlib.AbstractContextManager[Any] = torch._C._AutoDispatchBelowAutograd()
    return guard


# -- state that entries depend on, apart from their keys -----------------------------------------

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
_FLAG_READERS = (
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


class FakeRulesSnapshot:
    """A record of everything that decides what operators return for fake tensors, to detect later
    changes.

    It contains the functions that implement fake tensors, the Python registrations for torch's own
    operators, and the settings that those functions read.
    """

    def __init__(self) -> None:
        self._functions = [(space, *_list_callables(space)) for space in _watched_namespaces()]
        self._registered, self._flags = _registration_state(), _read_flags()
        self._tables_with_lengths = [(table, len(table)) for table in _operator_tables()]
        self._operators: dict[Any, Any] = {}

    def add_operator(self, operator: Any) -> None:
        """Add the Python kernels and decompositions of an operator to the record."""
        if operator not in self._operators:
            implementations = [table.get(operator) for table, _ in self._tables_with_lengths]
            self._operators[operator] = dict(operator.py_kernels), implementations

    def is_current(self) -> bool:
        """Whether nothing in the record was replaced or removed since it was made; added functions
        do not matter.
        """
        return (
            # Lists are compared because a list comparison does not call `__eq__` for identical
            # objects.
            all(
                list(map(space.get, names)) == functions
                for space, names, functions in self._functions
            )
            and all(len(table) == length for table, length in self._tables_with_lengths)
            and all(
                operator.py_kernels == kernels
                and [table.get(operator) for table, _ in self._tables_with_lengths]
                == implementations
                for operator, (kernels, implementations) in self._operators.items()
            )
            and self._registered == _registration_state()
            and self._flags == _read_flags()
        )


def _watched_namespaces() -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.startswith(_MODULES) and module is not None:
            yield vars(module)
    for kind in _CLASSES:
        yield vars(kind)


def _operator_tables() -> Iterator[Any]:
    """Yield torch's dictionaries that map operators to Python implementations."""
    yield fake_impls.op_implementations_dict
    yield from getattr(torch._decomp, "global_decomposition_table", {}).values()


def _list_callables(space: Any) -> tuple[list[Any], list[Callable[..., Any]]]:
    found = {name: value for name, value in list(space.items()) if callable(value)}
    return list(found), list(found.values())


def _registration_state() -> tuple[Any, ...]:
    return _registration_count, set(torch.ops.loaded_libraries)


_registration_count = 0
"""Number of registrations that Python code has made for torch's own operators."""


def count_registrations() -> None:
    """Start to count kernels that Python code registers for torch's operators.

    Call it once per process, before the process forks.
    """
    library = torch.library.Library
    original: Any = library.impl

    @functools.wraps(original)
    def impl(self: Any, *args: Any, **kwargs: Any) -> Any:
        global _registration_count
        _registration_count += self.ns in _NAMESPACES
        return original(self, *args, **kwargs)

    library.impl = impl  # type: ignore[method-assign]


def _read_flags() -> tuple[Any, ...]:
    flags: list[Any] = []
    for name in _FLAG_READERS:
        read = getattr(torch._C, name, None)
        flags.append(read() if read is not None else None)
    config: Any = torch._functorch.config
    flags.append(config.get_hash())
    return tuple(flags)
