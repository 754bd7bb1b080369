"""Exceptions of Dynamo and of symbolic shapes."""

from __future__ import annotations

from typing import Any

import torch._dynamo.exc
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

TorchDynamoException = torch._dynamo.exc.TorchDynamoException
TorchRuntimeError = torch._dynamo.exc.TorchRuntimeError
UserError = torch._dynamo.exc.UserError
UncapturedHigherOrderOpError = torch._dynamo.exc.UncapturedHigherOrderOpError

RecompileLimitError = torch._dynamo.exc.FailOnRecompileLimitHit
"""Raised at the recompile limit under ``fullgraph=True``, or if a setting asks for it."""

BREAKS = (
    torch._dynamo.exc.Unsupported,
    UserError,
    UncapturedHigherOrderOpError,
)
"""Exceptions of a call in which a graph break is an error, as under ``fullgraph=True``."""

ObservedFakeError: Any = getattr(torch._dynamo.exc, "FakeTensorObservedException", None)
"""Since torch 2.14: what an operator raises on fake tensors, as the traced code may catch it."""

__all__ = [
    "BREAKS",
    "ConstraintViolationError",
    "ObservedFakeError",
    "RecompileLimitError",
    "TorchDynamoException",
    "TorchRuntimeError",
    "UncapturedHigherOrderOpError",
    "UserError",
]
