"""The server as users start it, out of the source tree."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "server"), str(ROOT / "engine")]

from fullgraph.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(["server", *sys.argv[1:]]))
