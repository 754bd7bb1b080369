"""Whether fake tensors get through an operator, as the running torch has it registered."""

from __future__ import annotations

from typing import Any

import torch

from ..protocol.operators import Fake
from ..torch_internals import dispatcher


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
    if dispatcher.has_kernel(name, "CompositeImplicitAutograd"):
        return "composite"
    if dispatcher.has_trivial_fake(operator):
        return "kernel"
    definition = dispatcher.custom_definition(name)
    if definition is not None:
        # It always registers a fake kernel, which raises where the user gave none.
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


def overload_of(qualname: str) -> Any:
    """The ``OpOverload`` of that name; None if there is none."""
    namespace, found, rest = qualname.partition("::")
    name, _, overload = rest.partition(".")
    try:
        if not found or not dispatcher.is_registered(qualname.removesuffix(".default")):
            return None
        return getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    except (AttributeError, RuntimeError):  # the latter for what cannot be a name
        return None
