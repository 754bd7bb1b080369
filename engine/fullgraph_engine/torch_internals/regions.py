"""Where torch makes a compiled callable, and what it notes of each call of one."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .binding import internal

_EF = "torch._dynamo.eval_frame"

CONTEXT = internal("regions", "regions that a program compiles", _EF, "OptimizeContext.__call__")
EXPORT = internal("regions", "regions that a program exports", "torch.export", "export")

INTERNALS = (CONTEXT, EXPORT)

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


def is_compile(code: types.CodeType) -> bool:
    """Whether a frame is a call of ``torch.compile``."""
    return code is _COMPILE


@dataclass(frozen=True)
class CompiledCall:
    """One call of a compiled callable: the original function and its arguments."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def call_of(frame: types.FrameType | None) -> CompiledCall | None:
    """The call whose wrapper runs the hooks of its context: the wrapper's frame is a few frames
    above a hook. None where that frame is not found."""
    for _ in range(8):
        if frame is None:
            return None
        if frame.f_code.co_filename.endswith("_dynamo/eval_frame.py"):
            names = frame.f_locals
            if {"fn", "args", "kwargs", "callback"} <= names.keys():
                return CompiledCall(names["fn"], names["args"], names["kwargs"])
        frame = frame.f_back
    return None


def on_each_call(context: Any, enter: Callable[[], Callable[[], None]]) -> bool:
    """Run ``enter`` before each call of a context's callable, and the function it returns after the
    call. Return False if this torch does not have such hooks."""
    hooks = getattr(context, "enter_exit_hooks", None)
    if not isinstance(hooks, list):
        return False
    hooks.append(enter)
    return True


def compiled_subject(function: Any) -> Any:
    """The module whose call a bound method is, for the methods that ``torch.compile`` makes of a
    module; else the function itself."""
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", "")
    if isinstance(owner, torch.nn.Module) and name in _MODULE_CALLS:
        return owner
    return function


_MODULE_CALLS = ("_call_impl", "_wrapped_call_impl", "__call__", "_lazy_forward")
