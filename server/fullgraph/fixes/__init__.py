"""Rewrites of the user's code that may remove a graph break, and their verification.

``rewrites`` make candidates (rewritten texts) from a text and a finding, without executing
anything. ``verification`` traces and executes each; only verified candidates are offered as fixes,
with a safety grade.
"""

from __future__ import annotations

import asyncio
import importlib


async def load() -> None:
    """Import the modules that parse and rewrite code, in a thread: this takes as long as importing
    the whole server."""
    await asyncio.to_thread(importlib.import_module, "fullgraph.fixes.measuring")
