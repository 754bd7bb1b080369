"""Trace kernels written in Triton on a machine without a GPU.

Dynamo captures a kernel launch in its graph only if a device for it exists
(``torch.utils._triton.has_triton``). Without one it traces into Triton's launcher and breaks there,
which does not happen on a machine that can run the code. A launch outside a graph queries the
driver and fails. On fake tensors a launch has nothing to compute.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from ..torch_internals import backends
from ..torch_internals.dispatcher import active_modes
from ..torch_internals.fake_tensors import FakeTensorMode


def install_hook() -> None:
    """Make Dynamo capture Triton kernel launches in its graph even without a GPU, if Triton is
    imported."""
    backends.HAS_TRITON.wrap(lambda _original: _is_triton_imported)


def skip_fake_launches() -> None:
    """Make Triton kernel launches do nothing under a fake tensor mode from now on, if Triton is
    imported."""
    for module, name in (("jit", "JITFunction"), ("autotuner", "Autotuner")):
        kind: Any = getattr(sys.modules.get(f"triton.runtime.{module}"), name, None)
        if hasattr(kind, "run") and kind not in _patched_classes:
            _patched_classes.add(kind)
            kind.run = _wrap_launch(kind.run)


def was_kernel_launched() -> bool:
    """Whether this process has skipped or executed a Triton kernel launch; with real tensors it
    needs a GPU."""
    return _was_launched


_patched_classes = set[Any]()
_was_launched = False


def _is_triton_imported(*_args: Any, **_kwargs: Any) -> bool:
    return hasattr(sys.modules.get("triton"), "jit")


def _wrap_launch(run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def launch(*args: Any, **kwargs: Any) -> Any:
        global _was_launched
        _was_launched = True
        if any(isinstance(mode, FakeTensorMode) for mode in active_modes()):
            return None
        return run(*args, **kwargs)

    return launch
