"""Exceptions of Dynamo and of symbolic shapes."""

from __future__ import annotations

import torch._dynamo.exc
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

TorchDynamoException = torch._dynamo.exc.TorchDynamoException
TorchRuntimeError = torch._dynamo.exc.TorchRuntimeError
UncapturedHigherOrderOpError = torch._dynamo.exc.UncapturedHigherOrderOpError

__all__ = [
    "ConstraintViolationError",
    "TorchDynamoException",
    "TorchRuntimeError",
    "UncapturedHigherOrderOpError",
]
