"""The server, with the stub in place of the engine."""

import errno
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "server"), str(ROOT / "engine")]

from fullgraph.lsp import serve  # noqa: E402


def full(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


if os.environ.get("STUB_FULL_DISK"):
    os.fsync = full  # type: ignore[assignment]

if __name__ == "__main__":
    tcp = ("127.0.0.1", 0) if "--tcp" in sys.argv else None
    engine = sys.argv[sys.argv.index("--engine") + 1] if "--engine" in sys.argv else ""
    boot = Path(__file__).with_name("stub_engine.py")
    sys.exit(serve(tcp=tcp, boot=boot, engine=engine))
