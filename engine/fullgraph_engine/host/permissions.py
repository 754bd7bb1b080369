"""Permissions of user code in one engine; each process that executes user code gets them."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.sandbox import Allowed


@dataclass(frozen=True)
class Permissions:
    """Operations that the user allows, and removed variables.

    ``hidden`` names environment variables that were removed because they look like secrets.
    """

    allowed: Allowed
    hidden: tuple[str, ...]
