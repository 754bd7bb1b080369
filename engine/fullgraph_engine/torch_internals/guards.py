"""The guards that Dynamo checks, and the tree that it checks them with."""

from __future__ import annotations

from typing import Any

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
EXACT_TYPE = internal(
    "fake tensors", "what Dynamo spares parameters, in runs with fake tensors", _GUARDS, "istype"
)

INTERNALS = (BUILD, WORDS, RELATIONAL, PROFILE, EXACT_TYPE)


def manager_of(owner: Any) -> Any:
    """The tree of guards that a ``CheckFunctionManager`` has built."""
    return owner.guard_manager
