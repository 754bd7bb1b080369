"""Move memory to huge pages, so that forks and exits of processes take less time.

Both operations traverse the page table of a process. With torch imported it has 60,000 pages of 4
KiB, or a hundred of 2 MiB. Copy-on-write after a fork still copies 4 KiB at a time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

_COLLAPSE = 25
"""Value of ``MADV_COLLAPSE`` from Linux 6.1, ``include/uapi/asm-generic/mman-common.h``."""
_SIZE = 2 << 20
"""Bytes of a huge page, on machines with normal pages of 4 KiB."""


def gather_pages() -> None:
    """Move the allocated memory of this process to huge pages, if the kernel supports it.

    Call it before the first fork: afterwards, pages shared with other processes would be
    duplicated.
    """
    try:
        with open("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "rb") as size:  # noqa: PTH123
            if int(size.read()) != _SIZE:
                return
        allocated = list(_anonymous_ranges())
    except OSError:
        return
    madvise = ctypes.CDLL(None).madvise
    for first, last in allocated:
        for address in range(-(-first // _SIZE) * _SIZE, last - _SIZE + 1, _SIZE):
            # The call fails for unwritten memory, which does no harm.
            madvise(ctypes.c_void_p(address), ctypes.c_size_t(_SIZE), _COLLAPSE)


def _anonymous_ranges() -> Iterator[tuple[int, int]]:
    """Yield the start and end addresses of writable memory that is not mapped from a file."""
    with open("/proc/self/maps", "rb") as maps:  # noqa: PTH123
        lines = maps.read().splitlines()
    for line in lines:
        addresses, rights, _, _, inode = line.split()[:5]
        if rights == b"rw-p" and inode == b"0":
            first, _, last = addresses.partition(b"-")
            yield int(first, 16), int(last, 16)
