"""Private names of the dispatcher: registered operators, their schemas, kernels and tags.

This module does not import Dynamo: the operator index is built without it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
import torch._library
import torch._ops

OpOverload = torch._ops.OpOverload
OpOverloadPacket = torch._ops.OpOverloadPacket
OPERATOR_MODULES = ("torch._ops", "torch._library.custom_ops")
"""Modules that define the classes of operators."""

has_keyword_only_tensors = torch._library.utils.has_kwarg_only_tensors


def operator_names() -> list[str]:
    """Return the names of all registered overloads, as ``ns::name`` or ``ns::name.overload``."""
    found: list[str] = torch._C._dispatch_get_all_op_names()
    return found


def jit_schemas() -> Iterable[Any]:
    """Return all ``FunctionSchema`` objects, including operators that only TorchScript has."""
    found: Iterable[Any] = torch._C._jit_get_all_schemas()
    return found


def schema_of(operator: str, overload: str) -> Any:
    """Return the ``FunctionSchema`` of a registered overload.

    Raises:
        RuntimeError: The overload does not exist.
    """
    return torch._C._get_schema(operator, overload)


def parse_schema(text: str) -> Any:
    """Parse a schema string into a ``FunctionSchema``.

    Raises:
        RuntimeError: The string is not a valid schema. The parser can raise other types too.
    """
    return torch._C.parse_schema(text)


def dispatch_keys() -> tuple[str, ...]:
    """Return the names of all members of ``torch._C.DispatchKey``, in the order of the
    enumeration."""
    return tuple(getattr(torch._C.DispatchKey, "__members__", ()))


def registered_overloads(key: str) -> list[str]:
    """Return the names of all overloads with a kernel for a dispatch key.

    Raises:
        RuntimeError: The key is unknown.
    """
    found: list[str] = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return found


def has_kernel(name: str, key: str) -> bool:
    """Whether an overload has a kernel for a dispatch key.

    Raises:
        RuntimeError: ``key`` is an alias key or a marker such as ``EndOfBackendKeys``.
    """
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def is_registered(name: str) -> bool:
    """Whether an overload is registered; the name of the default overload is without
    ``.default``."""
    return bool(torch._C._dispatch_has_kernel(name))


def tags_of(operator: str, overload: str) -> tuple[str, ...]:
    """Return the sorted names of an overload's tags (``torch.Tag``); empty if it does not exist."""
    found = torch._C._get_operation_overload(operator, overload)
    tags = found[2] if found is not None and len(found) > 2 else ()
    return tuple(sorted(tag.name for tag in tags))


def decomposition_table() -> Any:
    """Return ``torch._decomp.decomposition_table``, whose keys are ``OpOverload`` objects."""
    from torch._decomp import decomposition_table

    return decomposition_table


def custom_definition(name: str) -> Any:
    """Return the ``CustomOpDef`` of an operator made by ``torch.library.custom_op``, else None."""
    find = getattr(torch._library.custom_ops, "_maybe_get_opdef", None)
    return None if find is None else find(name)


def registered_fake(name: str) -> Any:
    """Return the fake kernel that ``torch.library.register_fake`` stored for an operator, or
    None."""
    registry = torch._library.simple_registry.singleton
    # Read the dictionary: the registry's `find` would create an entry for each name it looks up.
    entry = getattr(registry, "_data", {}).get(name)
    return None if entry is None else entry.fake_impl.kernel


def user_fake_function(name: str) -> Any:
    """Return the user's function that was passed to ``register_fake`` for an operator, or None.

    torch registers a wrapper around it: ``_abstract_fn`` of a custom operator, else the closure of
    ``torch.library._check_pystubs_once``.
    """
    definition = custom_definition(name)
    if definition is not None:
        return definition._abstract_fn
    kernel = registered_fake(name)
    function = getattr(kernel, "func", None)
    if not inspect.isfunction(function):
        return None
    return inspect.getclosurevars(function).nonlocals.get("func", function)


def has_trivial_fake(operator: Any) -> bool:
    """Whether torch generates the fake kernel: the operator returns nothing or only mutated
    arguments.

    Calls ``torch._library.utils.can_generate_trivial_fake_impl``, if torch has it.
    """
    can_generate = getattr(torch._library.utils, "can_generate_trivial_fake_impl", None)
    return can_generate is not None and bool(can_generate(operator))


def has_fake_rule(operator: Any) -> bool:
    """Whether ``FakeTensorMode`` has a built-in rule for an operator, as for ``aten::bincount``.

    The rules are in ``torch._subclasses.fake_impls.op_implementations_checks``.
    """
    try:
        from torch._subclasses.fake_impls import op_implementations_checks
    except ImportError:
        return False
    return any(applies(operator) for applies, _ in op_implementations_checks)


def is_effectful(operator: Any) -> bool:
    """Whether an operator is registered as effectful: torch must not drop or reorder its calls.

    Calls ``get_effect_key`` up to torch 2.9, which requires the arguments of a call, and
    ``_get_effect`` since.
    """
    from torch._higher_order_ops import effects

    find = getattr(effects, "_get_effect", None) or getattr(effects, "get_effect_key", None)
    try:
        return find is None or find(operator) is not None
    except TypeError:
        return bool(find is not None and find(operator, (), {}) is not None)


def is_functorch_wrapped(tensor: torch.Tensor) -> bool:
    """Whether a tensor is the wrapper that functorch passes to functions inside ``vmap`` or
    ``grad``."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def negative_view(tensor: torch.Tensor) -> torch.Tensor:
    """Return ``torch._neg_view(tensor)``: a view with the negative bit flipped
    (``Tensor.is_neg``)."""
    return torch._neg_view(tensor)


def disable_torch_function() -> AbstractContextManager[Any]:
    """Return a context manager that disables ``__torch_function__`` of tensor subclasses."""
    guard: AbstractContextManager[Any] = torch._C.DisableTorchFunctionSubclass()
    return guard


@contextmanager
def disable_modes() -> Iterator[None]:
    """Disable all active ``TorchDispatchMode`` contexts inside the block."""
    from torch.utils import _python_dispatch

    with _python_dispatch._disable_current_modes():
        yield


def active_modes() -> list[Any]:
    """Return the active dispatch modes, outermost first."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return list(_get_current_dispatch_mode_stack())
