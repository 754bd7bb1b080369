"""Permissions of user code, which each process that executes user code receives."""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.sandbox import Allowed


@dataclass(frozen=True)
class Permissions:
    """The operations that the user allows to the analyzed code.

    ``hidden`` names the environment variables that were removed because they look like secrets.
    """

    allowed: Allowed
    hidden: tuple[str, ...]
