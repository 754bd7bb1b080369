"""Rewrites of the user's source code that may remove a graph break, and their verification.

The package ``rewrites`` makes candidates (rewritten versions of the file) for a finding, without
executing any code. The module ``verification`` traces and executes each candidate. Only verified
candidates are offered as fixes, each with a safety grade.
"""

from __future__ import annotations

import asyncio
import importlib


async def load() -> None:
    """Import the modules that parse and rewrite code, in a thread: this takes as long as importing
    the whole server."""
    await asyncio.to_thread(importlib.import_module, "fullgraph.fixes.measuring")
