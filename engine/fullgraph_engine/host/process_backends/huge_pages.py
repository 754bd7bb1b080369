"""Memory in huge pages, so that processes that share it are forked, and ended, sooner.

For both the kernel goes through the pages of a process. With torch imported that are 60,000 of
4 KiB, or a hundred of 2 MiB. Of those, a process that writes to one copies 4 KiB, as ever.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

_COLLAPSE = 25
"""``MADV_COLLAPSE`` of Linux 6.1 and later, ``include/uapi/asm-generic/mman-common.h``."""
_SIZE = 2 << 20
"""Bytes of a huge page where others have 4 KiB."""


def gather() -> None:
    """Move what this process has allocated into huge pages, if the kernel can do that.

    Call it before the first fork: what is shared with another process would be there twice.
    """
    try:
        with open("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "rb") as size:  # noqa: PTH123
            if int(size.read()) != _SIZE:
                return
        allocated = list(_allocated())
    except OSError:
        return
    madvise = ctypes.CDLL(None).madvise
    for first, last in allocated:
        for address in range(-(-first // _SIZE) * _SIZE, last - _SIZE + 1, _SIZE):
            # Where nothing has been written yet it fails, and nothing is lost.
            madvise(ctypes.c_void_p(address), ctypes.c_size_t(_SIZE), _COLLAPSE)


def _allocated() -> Iterator[tuple[int, int]]:
    """Addresses where memory of no file begins and ends."""
    with open("/proc/self/maps", "rb") as maps:  # noqa: PTH123
        lines = maps.read().splitlines()
    for line in lines:
        addresses, rights, _, _, inode = line.split()[:5]
        if rights == b"rw-p" and inode == b"0":
            first, _, last = addresses.partition(b"-")
            yield int(first, 16), int(last, 16)
