"""Fake tensors, the mode that makes them, and what Dynamo asks of them."""

from __future__ import annotations

from typing import Any

import torch
import torch._higher_order_ops.utils
import torch._ops
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
    unset_fake_temporarily,
)
from torch.utils._python_dispatch import TorchDispatchMode

from .binding import Internal, Spelling, internal

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "TorchDispatchMode",
    "UnsupportedOperatorException",
    "unset_fake_temporarily",
]

_SCALARS = "values of scalars that Dynamo reads, in runs with fake tensors"

STATIC_SHAPE = internal(
    "fake tensors",
    "what Dynamo spares parameters, in runs with fake tensors",
    "torch._dynamo.variables.builder",
    "tensor_always_has_static_shape",
)
STATIC_SHAPE_OF_GUARDS = Internal(
    "fake tensors",
    "guards on marks of dimensions that parameters do without, in runs with fake tensors",
    (
        Spelling(
            "torch._dynamo.guards",
            "tensor_always_has_static_shape",
            "up to 2.12",
            "guards on marks of dimensions no longer ask whether a shape is static",
        ),
    ),
)
"""Not among :data:`INTERNALS`: nothing is missing where there is none."""
MADE_FAKE = internal(
    "fake tensors",
    _SCALARS,
    "torch._subclasses.fake_tensor",
    "FakeTensorConverter.from_real_tensor",
)
OPERATORS = internal(
    "fake tensors", _SCALARS, "torch._subclasses.fake_impls", "op_implementations_dict"
)
TRACKED = internal("fake tensors", _SCALARS, "torch._dynamo.variables.builder", "TrackedFake")
STATIC_REASON = internal(
    "fake tensors",
    "what Dynamo spares parameters, in runs with fake tensors",
    "torch._dynamo.utils",
    "TensorStaticReason.PARAMETER",
)

INTERNALS = (STATIC_SHAPE, MADE_FAKE, OPERATORS, TRACKED, STATIC_REASON)


def does_without_device() -> bool:
    """Whether the mode itself has CUDA's device guard do nothing where there is no GPU.

    Since torch 2.10, in builds with CUDA.
    """
    return torch.backends.cuda.is_built() and hasattr(torch._C, "_ensureCUDADeviceGuardSet")


def has_fake_function(operator: Any) -> bool:
    """Whether a higher-order operator has a function for fake tensors, which the mode itself calls.

    ``torch._higher_order_ops.utils.register_fake``; others have a rule for the mode.
    """
    return operator in getattr(torch._higher_order_ops.utils, "registered_hop_fake_fns", ())


def find_higher_order_rules(mode: type[FakeTensorMode]) -> None:
    """Let higher-order operators find the rules that they have for fake tensors in a subclass.

    Up to torch 2.8. Since then a mode says that they are to come to its ``__torch_dispatch__``.
    """
    if hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        return
    for operator in torch._ops._higher_order_ops.values():
        rules = operator.python_key_table
        if FakeTensorMode in rules:
            rules.setdefault(mode, rules[FakeTensorMode])
