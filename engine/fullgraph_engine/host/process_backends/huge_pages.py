"""The memory of the warm parent in huge pages: its forks begin and end faster.

A fork copies an entry for each page that its parent has written to, and its end takes them back:
sixty thousand pages of four KiB with torch imported, a hundred and twenty huge ones. Also where a
child has split a huge page, as it does by writing to it, Linux handles its parts together. What
is copied on writing is four KiB as before.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_COLLAPSE = 25
"""``MADV_COLLAPSE``; Linux before 6.1 refuses it, and so does any where there is no room."""
_SIZE = 2 << 20
_LEAST = 1 << 20
"""Bytes in use of a mapping that is worth it."""
_HEAD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)")


def collapse() -> Iterator[None]:
    """Move what this process has allocated until now to huge pages, one each step, of a few
    milliseconds. What cannot be moved stays as it is."""
    if not sys.platform.startswith("linux"):
        return
    advise = ctypes.CDLL(None).madvise
    for start, end in _allocated():
        for address in range(-(-start // _SIZE) * _SIZE, end - _SIZE + 1, _SIZE):
            advise(ctypes.c_void_p(address), ctypes.c_size_t(_SIZE), _COLLAPSE)
            yield


def _allocated() -> list[tuple[int, int]]:
    """Private mappings without a file, as far as this process has written to them."""
    found: list[tuple[int, int]] = []
    try:
        lines = Path("/proc/self/smaps").read_text().splitlines()
    except OSError:
        return found
    current: tuple[int, int] | None = None
    for line in lines:
        if head := _HEAD.match(line):
            wanted = head[3] == "rw-p" and head[4] in ("", "[heap]")
            current = (int(head[1], 16), int(head[2], 16)) if wanted else None
        elif current is not None and line.startswith("Anonymous:"):
            if int(line.split()[1]) << 10 >= _LEAST:
                found.append(current)
            current = None
    return found
