"""Private names of fake tensors: of their mode, and of Dynamo's functions that examine them."""

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

_SCALARS = "values of scalar tensors that Dynamo reads, in runs with fake tensors"

STATIC_SHAPE = internal(
    "fake tensors",
    "whether Dynamo gives a tensor a static shape, in runs with fake tensors",
    "torch._dynamo.variables.builder",
    "tensor_always_has_static_shape",
)
STATIC_SHAPE_OF_GUARDS = Internal(
    "fake tensors",
    "leaving out guards on dynamic dimensions of parameters, in runs with fake tensors",
    (
        Spelling(
            "torch._dynamo.guards",
            "tensor_always_has_static_shape",
            "up to 2.12",
            "guards on marks of dimensions no longer ask whether a shape is static",
        ),
    ),
)
"""Private name, in torch up to 2.12, of the function by which guards ask whether a tensor's shape
is static.

Other releases do not need it, so it is not in :data:`INTERNALS`.
"""
FROM_REAL_TENSOR = internal(
    "fake tensors",
    _SCALARS,
    "torch._subclasses.fake_tensor",
    "FakeTensorConverter.from_real_tensor",
)
OPERATORS = internal(
    "fake tensors", _SCALARS, "torch._subclasses.fake_impls", "op_implementations_dict"
)
TRACKED_FAKE = internal("fake tensors", _SCALARS, "torch._dynamo.variables.builder", "TrackedFake")
STATIC_REASON = internal(
    "fake tensors",
    "whether Dynamo gives a tensor a static shape, in runs with fake tensors",
    "torch._dynamo.utils",
    "TensorStaticReason.PARAMETER",
)

INTERNALS = (STATIC_SHAPE, FROM_REAL_TENSOR, OPERATORS, TRACKED_FAKE, STATIC_REASON)


def provides_cuda_guard() -> bool:
    """Whether ``FakeTensorMode`` itself installs a CUDA device guard on a machine without a GPU.

    It does since torch 2.10, in builds with CUDA.
    """
    return torch.backends.cuda.is_built() and hasattr(torch._C, "_ensureCUDADeviceGuardSet")


def has_fake_function(operator: Any) -> bool:
    """Whether a higher-order operator has a function for fake tensors, which the mode calls itself.

    ``torch._higher_order_ops.utils.register_fake`` registers such functions. Other higher-order
    operators have a ``py_impl`` rule for ``FakeTensorMode``.
    """
    return operator in getattr(torch._higher_order_ops.utils, "registered_hop_fake_fns", ())


def register_higher_order_rules(mode: type[FakeTensorMode]) -> None:
    """Register the ``FakeTensorMode`` rules of higher-order operators for its subclass ``mode`` as
    well.

    Needed up to torch 2.8. Later releases pass higher-order operators to ``__torch_dispatch__`` of
    a mode whose ``supports_higher_order_operators`` is true.
    """
    if hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        return
    for operator in torch._ops._higher_order_ops.values():
        rules = operator.python_key_table
        if FakeTensorMode in rules:
            rules.setdefault(mode, rules[FakeTensorMode])
