"""The guards that Dynamo checks, and the tree that it checks them with."""

from __future__ import annotations

from typing import Any

import torch
from torch._guards import TracingContext

from . import releases
from .binding import internal

_GUARDS = "torch._dynamo.guards"

BUILD = internal("guards", "guards", _GUARDS, "CheckFunctionManager.__init__")
WORDS = internal("guards", "the lines that guards come from", _GUARDS, "get_verbose_code_parts")
RELATIONAL = internal(
    "guards",
    "counting guards that relate values once",
    "torch._C._dynamo.guards",
    "RelationalGuard",
)
PROFILE = internal(
    "speed", "speed: leaving out how long guards take", _GUARDS, "profile_guard_manager"
)
FUNCTION_NAME = internal(
    "speed",
    "speed: leaving out functions' names from debug logs",
    "torch._dynamo.symbolic_convert",
    "get_funcname",
)
EXACT_TYPE = internal(
    "fake tensors", "what Dynamo spares parameters, in runs with fake tensors", _GUARDS, "istype"
)

ADD = internal("guards", "the lines that guards come from", "torch._guards", "GuardsSet.add")

INTERNALS = (ADD, BUILD, WORDS, RELATIONAL, PROFILE, FUNCTION_NAME, EXACT_TYPE)


def lack_stacks() -> bool:
    """Whether this torch notes where a guard comes from only for its logs: up to 2.8."""
    return releases.release(torch.__version__) < (2, 9)


def add_stack(guard: Any) -> None:
    """Note the user's stack with a guard that has none."""
    if guard.user_stack is None:
        guard.user_stack = TracingContext.extract_stack()


def type_of(node: Any) -> Any:
    """The type of the value that a node of the tree guards; None where it is not known.

    Up to torch 2.8 the tree does not keep it: then :func:`type_asked_for` has it.
    """
    known = getattr(node, "get_type_of_guarded_value", None)
    return None if known is None else known()


def type_asked_for(guard: Any, source: str) -> Any:
    """The type of the value that Dynamo wanted a guard on, if that has this source; else None."""
    known = getattr(guard, "guarded_class_weakref", None)
    return known() if known is not None and getattr(guard, "name", "") == source else None


def manager_of(owner: Any) -> Any:
    """The tree of guards that a ``CheckFunctionManager`` has built."""
    return owner.guard_manager
