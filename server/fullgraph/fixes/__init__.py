"""Rewrites of the user's code that may end a graph break, and what was verified of each.

``rewrites`` make candidates from the text and a finding, without executing anything. Only what was
tried (``verification``) is offered as a fix, with the grade that it reached.
"""

from __future__ import annotations

import asyncio
import importlib


async def load() -> None:
    """Import what parses and rewrites code, off the loop: it takes as long as all of the server."""
    await asyncio.to_thread(importlib.import_module, "fullgraph.fixes.measuring")
