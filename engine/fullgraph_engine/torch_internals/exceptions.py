"""Exceptions of Dynamo and of symbolic shapes."""

from __future__ import annotations

from typing import Any

import torch._dynamo.exc
from torch.fx.experimental.symbolic_shapes import (
    ConstraintViolationError,
    GuardOnDataDependentSymNode,
)

TorchDynamoException = torch._dynamo.exc.TorchDynamoException
TorchRuntimeError = torch._dynamo.exc.TorchRuntimeError
UserError = torch._dynamo.exc.UserError
UncapturedHigherOrderOpError = torch._dynamo.exc.UncapturedHigherOrderOpError

RecompileLimitError = torch._dynamo.exc.FailOnRecompileLimitHit
"""Exception that Dynamo raises at the recompile limit under ``fullgraph=True``, or if a setting
asks for it."""

BREAKS = (
    torch._dynamo.exc.Unsupported,
    UserError,
    UncapturedHigherOrderOpError,
)
"""Exceptions with which a call under ``fullgraph=True`` reports a graph break."""

ObservedFakeError: Any = getattr(torch._dynamo.exc, "FakeTensorObservedException", None)
"""Exception type for an operator's error on fake tensors, which the traced code can catch.

``FakeTensorObservedException`` since torch 2.14; None in earlier releases.
"""

__all__ = [
    "BREAKS",
    "ConstraintViolationError",
    "GuardOnDataDependentSymNode",
    "ObservedFakeError",
    "RecompileLimitError",
    "TorchDynamoException",
    "TorchRuntimeError",
    "UncapturedHigherOrderOpError",
    "UserError",
]
