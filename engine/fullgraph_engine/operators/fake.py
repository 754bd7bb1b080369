"""Determine whether torch can run a registered operator on fake tensors."""

from __future__ import annotations

from typing import Any

import torch

from ..protocol.operators import Fake
from ..torch_internals import dispatcher


def has_fake(qualname: str) -> bool:
    """Whether torch can run an overload on fake tensors; True if the overload is not registered.

    ``qualname`` is ``ns::name`` or ``ns::name.overload``.
    """
    return fake_support(qualname) != "missing"


def fake_support(qualname: str) -> Fake:
    """Return by which mechanism torch runs a registered overload on fake tensors.

    Checks in the same order as ``torch._library.utils.has_fake_kernel`` and ``FakeTensorMode``.
    Returns ``missing`` if torch cannot run it, and ``unknown`` if the operator is not registered.
    """
    operator = find_overload(qualname)
    if operator is None:
        return "unknown"
    name = operator._name
    if dispatcher.has_kernel(name, "CompositeImplicitAutograd"):
        return "composite"
    if dispatcher.has_trivial_fake(operator):
        return "kernel"
    definition = dispatcher.custom_definition(name)
    if definition is not None:
        # A custom operator always has a fake kernel, which raises if the user did not register one.
        return "kernel" if definition._abstract_fn is not None else "missing"
    if dispatcher.registered_fake(name) is not None:
        return "kernel"
    if dispatcher.has_kernel(name, "Meta"):
        return "meta"
    if any(dispatcher.has_kernel(name, key) for key in _COMPOSITES):
        return "composite"
    if dispatcher.has_fake_rule(operator):
        return "kernel"
    return "decomposition" if operator in dispatcher.decomposition_table() else "missing"


_COMPOSITES = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


def find_overload(qualname: str) -> Any:
    """Return the ``OpOverload`` named ``ns::name`` or ``ns::name.overload``; None if it is not
    registered."""
    namespace, found, rest = qualname.partition("::")
    name, _, overload = rest.partition(".")
    try:
        if not found or not dispatcher.is_registered(qualname.removesuffix(".default")):
            return None
        return getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    except (AttributeError, RuntimeError):  # RuntimeError: not a valid operator name
        return None
