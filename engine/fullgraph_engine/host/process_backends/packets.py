"""Send packets with descriptors through sockets, and receive reports with the sender's pid.

On Linux, ``SOCK_SEQPACKET`` preserves packet boundaries and signals the end of the other side;
``SCM_RIGHTS`` passes descriptors. macOS lacks such sockets, and does not need them without forks.
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


def report_channel() -> tuple[int, int]:
    """Create a channel on which a process sends messages to the engine's main process; return its
    end for reading and its end for writing."""
    if not _KNOWS_SENDERS:
        return os.pipe()
    ours, child_end = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours.detach(), child_end.detach()


def read_report(descriptor: int, most: int) -> tuple[bytes, int]:
    """Read data from a report channel; return the data and the pid of its writer, 0 if unknown.

    The data is empty at the end of the channel. The kernel provides the pid, so user code cannot
    forge it.

    Raises:
        OSError: as in ``os.read``.
    """
    if not _KNOWS_SENDERS:
        return os.read(descriptor, most), 0
    try:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=descriptor)
    except OSError:  # the channel is a pipe, not a socket
        return os.read(descriptor, most), 0
    try:
        data, rights, _, _ = channel.recvmsg(most, socket.CMSG_SPACE(_CREDENTIALS.size))
    finally:
        channel.detach()
    for level, kind, payload in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return data, _CREDENTIALS.unpack(payload)[0]
    return data, 0


def control_pair() -> tuple[socket.socket, int]:
    """Create connected sockets for commands to a process: the parent's socket, and a descriptor for
    the child."""
    ours, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return ours, child_end.detach()


def send_packet(channel: socket.socket, data: bytes, descriptors: list[int]) -> bool:
    """Send one packet with copies of the descriptors. Return False if the other end is closed."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    try:
        channel.sendmsg([data], rights)
    except OSError:
        return False
    return True


def receive_packet(channel: socket.socket) -> tuple[bytes, list[int]] | None:
    """Receive the next packet and the descriptors sent with it; None if the other end is closed."""
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
