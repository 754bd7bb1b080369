"""Private names with which torch creates a compiled callable and calls it."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .binding import internal

_EF = "torch._dynamo.eval_frame"

CONTEXT = internal("regions", "functions that a program compiles", _EF, "OptimizeContext.__call__")
EXPORT = internal("regions", "functions that a program exports", "torch.export", "export")
STANCE = internal("regions", "calls that a program runs uncompiled", _EF, "_stance")

INTERNALS = (CONTEXT, EXPORT, STANCE)

_COMPILE: types.CodeType = torch.compile.__code__

DEFAULTS: dict[str, Any] = {
    "fullgraph": False,
    "dynamic": None,
    "backend": "inductor",
    "mode": None,
    "options": None,
    "name": None,
    "disable": False,
    "recompile_limit": None,
    "isolate_recompiles": False,
    "dynamic_shapes": None,
    "shapes_spec": None,
}
"""Parameters of ``torch.compile`` except the model, with their defaults."""


def is_compile_call(code: types.CodeType) -> bool:
    """Whether a code object belongs to ``torch.compile``."""
    return code is _COMPILE


@dataclass(frozen=True)
class CompiledCall:
    """One call of a compiled callable: the original, uncompiled function and its arguments."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def find_compiled_call(frame: types.FrameType | None) -> CompiledCall | None:
    """Return the compiled call whose hooks run in ``frame``, or None.

    Searches up to eight frames outwards for torch's wrapper, in ``torch/_dynamo/eval_frame.py``.
    """
    found = find_wrapper_frame(frame)
    if found is None:
        return None
    names = found.f_locals
    return CompiledCall(names["fn"], names["args"], names["kwargs"])


def find_wrapper_frame(frame: types.FrameType | None) -> types.FrameType | None:
    """Return the frame of torch's wrapper that makes a compiled call, or None.

    Searches up to eight frames outwards from ``frame``.
    """
    for _ in range(8):
        if frame is None:
            return None
        is_torch = frame.f_code.co_filename.endswith("_dynamo/eval_frame.py")
        if is_torch and {"fn", "args", "kwargs", "callback"} <= frame.f_locals.keys():
            return frame
        frame = frame.f_back
    return None


def add_call_hook(context: Any, enter: Callable[[], Callable[[], None]]) -> bool:
    """Call ``enter`` before each call of the callable that an ``OptimizeContext`` compiled.

    The function that ``enter`` returns is called after the call. Return False if this torch does
    not have ``enter_exit_hooks``.
    """
    hooks = getattr(context, "enter_exit_hooks", None)
    if not isinstance(hooks, list):
        return False
    hooks.append(enter)
    return True


def current_stance() -> str:
    """Return the stance that ``torch.compiler.set_stance`` has set, such as ``force_eager``."""
    return str(getattr(STANCE.get(), "stance", "default"))


def compiled_subject(function: Any) -> Any:
    """Return the module whose call method ``function`` is; other functions are returned unchanged.

    ``torch.compile`` of a module compiles such a method, for example ``_call_impl``.
    """
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", "")
    if isinstance(owner, torch.nn.Module) and name in _MODULE_CALLS:
        return owner
    return function


_MODULE_CALLS = ("_call_impl", "_wrapped_call_impl", "__call__", "_lazy_forward")
