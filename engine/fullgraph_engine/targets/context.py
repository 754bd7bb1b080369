"""Modes of torch in force at a call, so that the call can be traced in the same modes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_DEVICES = ("cpu", "cuda")
"""Device types whose autocast state is part of a call's context."""


@dataclass(frozen=True)
class CallContext:
    """Grad mode, inference mode and autocast of a call. ``autocast`` has a device type and a dtype
    for each enabled autocast."""

    grad: bool = True
    inference: bool = False
    autocast: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def current(cls) -> CallContext:
        """Return the context of the code that runs now."""
        import torch

        autocast = tuple(
            (device, torch.get_autocast_dtype(device))
            for device in _DEVICES
            if torch.is_autocast_enabled(device)
        )
        return cls(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast)

    @contextlib.contextmanager
    def enter(self) -> Iterator[None]:
        """Run the block in this context."""
        import torch

        if self == CallContext():
            yield
            return
        with contextlib.ExitStack() as stack:
            if self.inference:
                stack.enter_context(torch.inference_mode())
            elif not self.grad:
                stack.enter_context(torch.no_grad())
            for device, dtype in self.autocast:
                stack.enter_context(torch.autocast(device, dtype=dtype))
            yield

    @property
    def words(self) -> str:
        """``in inference mode, under autocast to bfloat16``; empty for the default context."""
        grad = "" if self.grad else "without gradients"
        parts = ["in inference mode" if self.inference else grad]
        dtypes = (str(dtype).removeprefix("torch.") for _, dtype in self.autocast)
        parts += [f"under autocast to {dtype}" for dtype in dtypes]
        return ", ".join(filter(None, parts))
