"""What the user lets user code of an engine do; each process that holds user code has it."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.sandbox import Allowed


@dataclass(frozen=True)
class Permissions:
    """``hidden`` are variables of the environment that were removed because they look like
    secrets."""

    allowed: Allowed
    hidden: tuple[str, ...]
