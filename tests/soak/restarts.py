"""Kills the engine over and over: the server's memory stays what it is.

``python tests/soak/restarts.py [kills]`` prints what the server holds after a fifth of the kills
and after all. Status 1 if that is more by ``SHARE``, or if a file is not right in the end.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path

import psutil
from load import TEXT
from window import Window

SHARE = 0.10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kills", nargs="?", type=int, default=50)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        window = Window(Path(folder).resolve(), forecast=False)
        uri = window.open("net.py", TEXT.format(number=1))
        window.rest_with_torch(300)
        uses = []
        for number in range(1, options.kills + 1):
            # An engine that has traced nothing counts as one that dies again and again.
            window.replace(uri, TEXT.format(number=1) + f"K = {number}\n")
            window.rest(120)
            before = window.engine()
            if before is not None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    before.kill()
            window.until_state("starting", 60)
            window.rest_with_torch(120)
            if number % max(1, options.kills // 5) == 0:
                uses.append(window.usage())
                took = time.monotonic() - began
                print(f"{number} kills, {took:.0f} s: {uses[-1]}", flush=True)
        right = window.codes(uri) == ["graph-break/GB0059"]
        each = (uses[-1].server - uses[0].server) / (options.kills - options.kills // 5)
        print(f"server: {1024 * each:.0f} KiB more for each kill; the file is right: {right}")
        window.close()
    grown = uses[-1].server > (1 + SHARE) * uses[0].server
    return 1 if grown or not right else 0


if __name__ == "__main__":
    sys.exit(main())
