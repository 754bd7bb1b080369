"""Private names of the guards that Dynamo checks and of the tree that contains them."""

from __future__ import annotations

from typing import Any

import torch
from torch._guards import TracingContext

from . import releases
from .binding import internal

_GUARDS = "torch._dynamo.guards"

BUILD_TREE = internal("guards", "guards", _GUARDS, "CheckFunctionManager.__init__")
FORMAT_GUARD = internal("guards", "source lines of guards", _GUARDS, "get_verbose_code_parts")
RELATIONAL = internal(
    "guards",
    "number of guards, without counting a guard on several values twice",
    "torch._C._dynamo.guards",
    "RelationalGuard",
)
PROFILE_TREE = internal(
    "speed", "faster traces: do not time guards", _GUARDS, "profile_guard_manager"
)
FUNCTION_NAME = internal(
    "speed",
    "faster traces: do not look up function names for debug logs",
    "torch._dynamo.symbolic_convert",
    "get_funcname",
)
EXACT_TYPE = internal(
    "fake tensors",
    "whether Dynamo gives a tensor a static shape, in runs with fake tensors",
    _GUARDS,
    "istype",
)

ADD_GUARD = internal("guards", "source lines of guards", "torch._guards", "GuardsSet.add")

INTERNALS = (
    ADD_GUARD,
    BUILD_TREE,
    FORMAT_GUARD,
    RELATIONAL,
    PROFILE_TREE,
    FUNCTION_NAME,
    EXACT_TYPE,
)


def are_stacks_missing() -> bool:
    """Whether torch records the user stack of a guard only with logging on, as releases up to 2.8
    do."""
    return releases.parse_release(torch.__version__) < (2, 9)


def add_stack(guard: Any) -> None:
    """Set a guard's missing ``user_stack`` to the stack of the code that Dynamo is tracing now."""
    if guard.user_stack is None:
        guard.user_stack = TracingContext.extract_stack()


def guarded_type(node: Any) -> Any:
    """Return the type of the value that a node of the guard tree checks, or None if unknown.

    Up to torch 2.8 the tree does not store it; use :func:`requested_type` there.
    """
    read_type = getattr(node, "get_type_of_guarded_value", None)
    return None if read_type is None else read_type()


def requested_type(guard: Any, source: str) -> Any:
    """Return the type of the value ``source`` that a guard request is about.

    ``guard`` is the request, a ``torch._guards.Guard``. None if the type is unknown, or if the
    request is about another source.
    """
    class_reference = getattr(guard, "guarded_class_weakref", None)
    return (
        class_reference()
        if class_reference is not None and getattr(guard, "name", "") == source
        else None
    )


def find_guard_tree(check_manager: Any) -> Any:
    """Return the guard tree that a ``CheckFunctionManager`` of Dynamo has built, or None."""
    return check_manager.guard_manager
