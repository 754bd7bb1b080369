"""Kernels written in Triton, traced without a GPU.

Dynamo takes a launch into its graph where there is a device for it, which it asks
``torch.utils._triton.has_triton``. Elsewhere it traces into Triton's launcher, and breaks there: a
break that nobody has who can run the code. A launch outside of a graph asks for a driver and fails;
on fake tensors it has nothing to compute, as any other kernel.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from ..torch_internals import backends
from ..torch_internals.dispatcher import active_modes
from ..torch_internals.fake_tensors import FakeTensorMode


def install() -> None:
    """Have Dynamo take launches for such that a device is there for, if Triton is."""
    backends.HAS_TRITON.wrap(lambda _original: _is_imported)


def launch_nothing() -> None:
    """From now on kernels are not launched on fake tensors, if Triton was imported."""
    for module, name in (("jit", "JITFunction"), ("autotuner", "Autotuner")):
        kind: Any = getattr(sys.modules.get(f"triton.runtime.{module}"), name, None)
        if hasattr(kind, "run") and kind not in _changed:
            _changed.add(kind)
            kind.run = _unless_fake(kind.run)


def were_launched() -> bool:
    """Whether code of this process has launched one, in vain: with real tensors it would fail."""
    return _launched


_changed = set[Any]()
_launched = False


def _is_imported(*_args: Any, **_kwargs: Any) -> bool:
    return hasattr(sys.modules.get("triton"), "jit")


def _unless_fake(run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def launch(*args: Any, **kwargs: Any) -> Any:
        global _launched
        _launched = True
        if any(isinstance(mode, FakeTensorMode) for mode in active_modes()):
            return None
        return run(*args, **kwargs)

    return launch
