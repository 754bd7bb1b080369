"""Two language servers as one: fullgraph's and another, for clients with one server per
language."""

from __future__ import annotations


class CannotStart(Exception):
    """Raised if the command of the other server cannot be executed; the message says why."""
