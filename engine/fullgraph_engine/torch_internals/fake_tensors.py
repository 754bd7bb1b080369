"""Fake tensors, the mode that makes them, and what Dynamo asks of them."""

from __future__ import annotations

from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
    unset_fake_temporarily,
)

from .binding import Internal, Spelling, internal

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
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
