"""Packets with descriptors, on a socket between a process and the one that it was forked from; and
a stream of reports, of which the kernel says who wrote what.

Linux: ``SOCK_SEQPACKET`` keeps packets apart and tells the end of the other side; ``SCM_RIGHTS``
passes descriptors along. macOS has no such socket, and no use for it: there nothing is forked.
"""

from __future__ import annotations

import array
import os
import socket
import struct
import sys

_PACKET = 1 << 16
_MOST_DESCRIPTORS = 16


_CREDENTIALS = struct.Struct("3i")
_KNOWS_SENDERS = sys.platform.startswith("linux")


def reports() -> tuple[int, int]:
    """What a process reports through: the parent's end, and the one that is written to."""
    if not _KNOWS_SENDERS:
        return os.pipe()
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours.detach(), theirs.detach()


def read_report(descriptor: int, most: int) -> tuple[bytes, int]:
    """What one process has written, and its pid in the pid namespace of this one; 0 if the system
    does not know that. Nothing at the end.

    Raises:
        OSError: as ``os.read``.
    """
    if not _KNOWS_SENDERS:
        return os.read(descriptor, most), 0
    try:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=descriptor)
    except OSError:  # a pipe
        return os.read(descriptor, most), 0
    try:
        data, rights, _, _ = channel.recvmsg(most, socket.CMSG_SPACE(_CREDENTIALS.size))
    finally:
        channel.detach()
    for level, kind, payload in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return data, _CREDENTIALS.unpack(payload)[0]
    return data, 0


def pair() -> tuple[socket.socket, int]:
    """The parent's end, and a descriptor of the child's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return ours, theirs.detach()


def send(channel: socket.socket, data: bytes, descriptors: list[int]) -> bool:
    """One packet; False if nobody is there to read it."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    try:
        channel.sendmsg([data], rights)
    except OSError:
        return False
    return True


def receive(channel: socket.socket) -> tuple[bytes, list[int]] | None:
    """The next packet and its descriptors; None when the other end is gone."""
    found = array.array("i")
    room = socket.CMSG_SPACE(_MOST_DESCRIPTORS * found.itemsize)
    try:
        data, rights, _, _ = channel.recvmsg(_PACKET, room)
    except OSError:
        return None
    if not data:
        return None
    for level, kind, payload in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(payload[: len(payload) - len(payload) % found.itemsize])
    return data, list(found)
