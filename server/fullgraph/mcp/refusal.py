"""The error of a tool call that the model can correct."""

from __future__ import annotations


class Refused(Exception):
    """Raised if a tool cannot answer; the message is one sentence with the cause and what to do."""
