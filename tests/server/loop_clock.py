"""A clock that a test moves on, so that what would come later comes now or not at all."""

from __future__ import annotations

import asyncio


async def passed(seconds: float) -> None:
    """Have the loop's clock go on, and what is due by then be done."""
    loop = asyncio.get_running_loop()
    clock = loop.time
    loop.time = lambda: clock() + seconds  # type: ignore[method-assign]
    for _ in range(5):
        await asyncio.sleep(0)
