"""Whether fake tensors get through an operator, as the running torch has it registered."""

from __future__ import annotations

from typing import Any

import torch

from ..protocol.operators import Fake


def has_fake(qualname: str) -> bool:
    """Whether a registered overload (``ns::name`` or ``ns::name.overload``) can be traced."""
    return fake_of(qualname) != "missing"


def fake_of(qualname: str) -> Fake:
    """How fake tensors get through a registered overload.

    The same questions, in the same order, as ``torch._library.utils.has_fake_kernel`` and
    ``FakeTensorMode`` ask; ``unknown`` where the operator is not registered.
    """
    operator = overload_of(qualname)
    if operator is None:
        return "unknown"
    name = operator._name
    if _has_kernel(name, "CompositeImplicitAutograd"):
        return "composite"
    if _is_trivial(operator):
        return "kernel"
    definition = _definition(name)
    if definition is not None:
        # It always registers a fake kernel, which raises where the user gave none.
        return "kernel" if definition._abstract_fn is not None else "missing"
    if _registered(name) is not None:
        return "kernel"
    if _has_kernel(name, "Meta"):
        return "meta"
    if any(_has_kernel(name, key) for key in _COMPOSITES):
        return "composite"
    if _has_own_rule(operator):
        return "kernel"
    from torch._decomp import decomposition_table

    return "decomposition" if operator in decomposition_table else "missing"


_COMPOSITES = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


def overload_of(qualname: str) -> Any:
    """The ``OpOverload`` of that name; None if there is none."""
    namespace, found, rest = qualname.partition("::")
    name, _, overload = rest.partition(".")
    try:
        if not found or not torch._C._dispatch_has_kernel(qualname.removesuffix(".default")):
            return None
        return getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    except (AttributeError, RuntimeError):  # the latter for what cannot be a name
        return None


def _has_kernel(name: str, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def _is_trivial(operator: Any) -> bool:
    """It returns nothing, or what it writes to: torch makes the fake kernel itself."""
    ask = getattr(torch._library.utils, "can_generate_trivial_fake_impl", None)
    return ask is not None and bool(ask(operator))


def _has_own_rule(operator: Any) -> bool:
    """``FakeTensorMode`` itself knows what this one returns (``aten::bincount``)."""
    try:
        from torch._subclasses.fake_impls import op_implementations_checks
    except ImportError:
        return False
    return any(applies(operator) for applies, _ in op_implementations_checks)


def _definition(name: str) -> Any:
    """What ``torch.library.custom_op`` made, where the operator is from there."""
    find = getattr(torch._library.custom_ops, "_maybe_get_opdef", None)
    return None if find is None else find(name)


def _registered(name: str) -> Any:
    registry = torch._library.simple_registry.singleton
    # Not `find`: it makes an entry for every name that it is asked for.
    entry = getattr(registry, "_data", {}).get(name)
    return None if entry is None else entry.fake_impl.kernel
