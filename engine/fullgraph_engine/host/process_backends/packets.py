"""Packets with descriptors, on a socket between a process and the one that it was forked from.

Linux: ``SOCK_SEQPACKET`` keeps packets apart and tells the end of the other side; ``SCM_RIGHTS``
passes descriptors along. macOS has no such socket, and no use for it: there nothing is forked.
"""

from __future__ import annotations

import array
import socket

_PACKET = 1 << 16
_MOST_DESCRIPTORS = 16


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
