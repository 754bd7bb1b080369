"""Connections and packets to listeners of the runner on loopback."""

from __future__ import annotations

from tests.soak.hostile.case import table

# What C needs: addresses as it has them.
_C = r"""
TO_TCP, TO_UDP = (b"\x02\0" + one[1].to_bytes(2, "big") + bytes((127, 0, 0, 1)) + bytes(8) for one in (TCP, UDP))
TO_UNIX, TO_PACKETS = (b"\x01\0" + one.encode() + b"\0" for one in (UNIX, UNIX_PACKETS))
TO_ABSTRACT = b"\x01\0" + ABSTRACT.encode()
def said(address, kind=1, family=None):
    one = libc.socket(family or address[0], kind, 0)
    refused(libc.connect(one, address, len(address)), "connect")
    refused(libc.sendto(one, b"x", 1, 0, address, len(address)), "sendto")
"""


def _in_c(text: str) -> str:
    return text.replace("C\n", _C.lstrip("\n"))


CASES = table(
    _in_c(
        r"""
== a connection | refused: does not let this code use the network
socket.create_connection(TCP)
== a connection, in a run | refused: does not let this code use the network | run
socket.create_connection(TCP)
== a connection without an exception | refused: does not let this code use the network
socket.socket().connect_ex(tuple(TCP))
== a connection over IPv6 | refused: does not let this code use the network
socket.create_connection(TCP6)
== a connection that is not waited for | refused: does not let this code use the network
one = socket.socket()
one.setblocking(False)
one.connect(tuple(TCP))
== urllib | refused: does not let this code use the network
import urllib.request
urllib.request.urlopen("http://%s:%s/" % tuple(TCP))
== urllib, in a run | refused: does not let this code use the network | run
import urllib.request
urllib.request.urlopen("http://%s:%s/" % tuple(TCP))
== http.client | refused: does not let this code use the network
import http.client
http.client.HTTPConnection(*TCP).request("GET", "/")
== asyncio | refused: does not let this code use the network
import asyncio
asyncio.run(asyncio.open_connection(*TCP))
== mail | refused: does not let this code use the network
import smtplib
smtplib.SMTP(*TCP)
== a name is looked up | refused: does not let this code use the network
socket.getaddrinfo(TAG + ".example.com", 80)
== a name is looked up, the old way | refused: does not let this code use the network
socket.gethostbyname(TAG + ".example.com")
== a name is looked up, in C | traced
libc.gethostbyname((TAG + ".localhost").encode())
== the name of an address | refused: does not let this code use the network
socket.gethostbyaddr("127.0.0.1")
== a server of its own | refused: does not let this code use the network
socket.create_server(("127.0.0.1", 0))
== a server of HTTP | refused: does not let this code use the network
import http.server
http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
== a packet | refused: does not let this code use the network
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", tuple(UDP))
== a packet, in a run | refused: does not let this code use the network | run
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", tuple(UDP))
== a packet of many parts | refused: does not let this code use the network
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendmsg([b"x"], [], 0, tuple(UDP))
== packets to everybody | refused: does not let this code use the network
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
one.sendto(b"x", ("255.255.255.255", UDP[1]))
== a local socket | refused: Operation not permitted
socket.socket(socket.AF_UNIX).connect(UNIX)
== a local socket, in a run | refused: Operation not permitted | run
socket.socket(socket.AF_UNIX).connect(UNIX)
== a local socket without a path | refused: Operation not permitted
socket.socket(socket.AF_UNIX).connect(ABSTRACT)
== a packet to a local socket | refused: Operation not permitted
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", UNIX_PACKETS)
== a packet out of a pair of sockets | refused: Operation not permitted
socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", UNIX_PACKETS)
== a stream out of a pair of sockets | refused: Operation not permitted
socket.socketpair()[0].sendto(b"x", UNIX)
== a pair of sockets that is connected anew | refused: Operation not permitted
socket.socketpair()[0].connect(UNIX)
== the log of the system | traced
import syslog
syslog.syslog("hostile")
== a socket of the kernel | refused: does not let this code use the network
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
== raw packets | refused: does not let this code use the network
socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
== frames | refused: does not let this code use the network
socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
== sockets to the host of a virtual machine | refused: does not let this code use the network
socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
== ciphers of the kernel | refused: does not let this code use the network
socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)
== a remote debugger | refused: does not let this code use the network
from multiprocessing.connection import Client
Client(tuple(TCP))
== RPC | refused: does not let this code use the network
import xmlrpc.client
xmlrpc.client.ServerProxy("http://%s:%s/" % tuple(TCP)).system.listMethods()
== weights from a hub | refused: does not let this code use the network
torch.hub.load_state_dict_from_url("http://%s:%s/w.pt" % tuple(TCP), tempfile.gettempdir())
== a store of torch.distributed | traced
try: torch.distributed.TCPStore(TCP[0], TCP[1], timeout=__import__("datetime").timedelta(seconds=1))
except Exception: pass
== a process group | traced
try:
    torch.distributed.init_process_group(
        "gloo", init_method="tcp://%s:%s" % tuple(TCP), rank=1, world_size=2,
        timeout=__import__("datetime").timedelta(seconds=1))
except Exception: pass
== a connection, in C | traced
C
said(TO_TCP)
== a connection, in C and in a run | traced | run
C
said(TO_TCP)
== a connection that sends at once, in C | traced
C
one = libc.socket(2, 1, 0)
refused(libc.sendto(one, b"x", 1, 0x20000000, TO_TCP, 16), "MSG_FASTOPEN")
== a connection of many paths, in C | traced
C
refused(libc.connect(libc.socket(2, 1, 262), TO_TCP, 16), "MPTCP")
== a packet, in C | traced
C
said(TO_UDP, 2)
== many packets at once, in C | traced
C
part = (ctypes.c_void_p * 2)(ctypes.cast(b"x", ctypes.c_void_p), 1)
head = (ctypes.c_long * 8)(ctypes.cast(TO_UDP, ctypes.c_void_p).value, 16, ctypes.addressof(part), 1)
refused(syscall("sendmmsg", libc.socket(2, 2, 0), head, 1, 0), "sendmmsg")
== a local socket, in C | traced
C
said(TO_UNIX)
== a packet to a local socket, in C | traced
C
said(TO_PACKETS, 2)
== a local socket without a path, in C | traced
C
said(TO_ABSTRACT)
== a packet with an address out of a pair, in C | traced
C
pair = (ctypes.c_int * 2)()
libc.socketpair(1, 2, 0, pair)
part = (ctypes.c_void_p * 2)(ctypes.cast(b"x", ctypes.c_void_p), 1)
head = (ctypes.c_long * 7)(
    ctypes.cast(TO_PACKETS, ctypes.c_void_p).value, len(TO_PACKETS), ctypes.addressof(part), 1)
refused(syscall("sendmsg", pair[0], head, 0), "sendmsg")
== sockets without system calls of their own | traced
refused(syscall("io_uring_setup", 4, bytes(120)), "io_uring_setup")
"""
    )
)
