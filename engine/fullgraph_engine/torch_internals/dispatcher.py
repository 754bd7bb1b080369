"""The dispatcher: registered operators, their schemas, kernels and tags.

Of the import of Dynamo nothing here has need: the operator index is made beside it.
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
"""Where the classes of operators are defined."""

has_keyword_only_tensors = torch._library.utils.has_kwarg_only_tensors


def names() -> list[str]:
    """Every registered overload, as ``ns::name`` or ``ns::name.overload``."""
    listed: list[str] = torch._C._dispatch_get_all_op_names()
    return listed


def jit_schemas() -> Iterable[Any]:
    """All ``FunctionSchema`` objects, also those that only TorchScript has."""
    found: Iterable[Any] = torch._C._jit_get_all_schemas()
    return found


def schema_of(operator: str, overload: str) -> Any:
    """The ``FunctionSchema`` of a registered overload. Raises RuntimeError where there is none."""
    return torch._C._get_schema(operator, overload)


def parse_schema(text: str) -> Any:
    """The ``FunctionSchema`` of a text. Raises what the parser raises, mostly RuntimeError."""
    return torch._C.parse_schema(text)


def dispatch_keys() -> tuple[str, ...]:
    """The names of all dispatch keys and markers, in the order of the enumeration."""
    return tuple(getattr(torch._C.DispatchKey, "__members__", ()))


def registrations(key: str) -> list[str]:
    """The overloads that have a kernel for a key. Raises RuntimeError if it cannot be parsed."""
    found: list[str] = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return found


def has_kernel(name: str, key: str) -> bool:
    """Raises RuntimeError for an alias or a marker."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def is_registered(name: str) -> bool:
    """Whether an overload, without ``.default``, exists."""
    return bool(torch._C._dispatch_has_kernel(name))


def tags_of(operator: str, overload: str) -> tuple[str, ...]:
    """The sorted names of an overload's tags (``torch.Tag``); empty if it does not exist."""
    found = torch._C._get_operation_overload(operator, overload)
    tags = found[2] if found is not None and len(found) > 2 else ()
    return tuple(sorted(tag.name for tag in tags))


def decompositions() -> Any:
    """The table of decompositions, by ``OpOverload``."""
    from torch._decomp import decomposition_table

    return decomposition_table


def custom_definition(name: str) -> Any:
    """What ``torch.library.custom_op`` made, where the operator is from there; else None."""
    find = getattr(torch._library.custom_ops, "_maybe_get_opdef", None)
    return None if find is None else find(name)


def registered_fake(name: str) -> Any:
    """The fake kernel that ``torch.library.register_fake`` was given for an operator, or None."""
    registry = torch._library.simple_registry.singleton
    # Not `find`: it makes an entry for every name that it is asked for.
    entry = getattr(registry, "_data", {}).get(name)
    return None if entry is None else entry.fake_impl.kernel


def fake_function(name: str) -> Any:
    """The function that a user gave ``register_fake`` for the operator ``name``, or None.

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
    """It returns nothing, or what it writes to: torch makes the fake kernel itself."""
    ask = getattr(torch._library.utils, "can_generate_trivial_fake_impl", None)
    return ask is not None and bool(ask(operator))


def has_fake_rule(operator: Any) -> bool:
    """``FakeTensorMode`` itself knows what this one returns (``aten::bincount``)."""
    try:
        from torch._subclasses.fake_impls import op_implementations_checks
    except ImportError:
        return False
    return any(applies(operator) for applies, _ in op_implementations_checks)


def is_effectful(operator: Any) -> bool:
    """Whether torch was told that calls of it matter beyond what they return.

    ``get_effect_key`` up to torch 2.9, which wants the arguments of a call; then ``_get_effect``.
    """
    from torch._higher_order_ops import effects

    find = getattr(effects, "_get_effect", None) or getattr(effects, "get_effect_key", None)
    try:
        return find is None or find(operator) is not None
    except TypeError:
        return bool(find is not None and find(operator, (), {}) is not None)


def is_functorch_wrapped(tensor: torch.Tensor) -> bool:
    """Whether it is the stand-in for a tensor inside ``vmap`` or ``grad``."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def negative_view(tensor: torch.Tensor) -> torch.Tensor:
    """``torch._neg_view``: a view with the negative bit flipped, as ``Tensor.is_neg`` shows it."""
    return torch._neg_view(tensor)


def without_torch_function() -> AbstractContextManager[Any]:
    """Inside, subclasses' ``__torch_function__`` is not asked."""
    plain: AbstractContextManager[Any] = torch._C.DisableTorchFunctionSubclass()
    return plain


@contextmanager
def without_modes() -> Iterator[None]:
    """Inside, no dispatch mode sees what is done."""
    from torch.utils import _python_dispatch

    with _python_dispatch._disable_current_modes():
        yield


def active_modes() -> list[Any]:
    """The dispatch modes in force, outermost first."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return list(_get_current_dispatch_mode_stack())
