"""The server with the stub engine, in which a reproduction that ended is saved 0.3 s later."""

import asyncio
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "server"), str(ROOT / "engine")]

from fullgraph.lsp import serve  # noqa: E402
from fullgraph.session import repro_jobs  # noqa: E402
from fullgraph.session.repro import follow_reproduction  # noqa: E402


async def follow_slowly(*arguments: Any) -> Any:
    outcome = await follow_reproduction(*arguments)
    await asyncio.sleep(0.3)
    return outcome


if __name__ == "__main__":
    setattr(repro_jobs, "follow_reproduction", follow_slowly)  # noqa: B010
    boot = Path(__file__).with_name("stub_engine.py")
    sys.exit(serve(tcp=None, boot=boot, engine=""))
