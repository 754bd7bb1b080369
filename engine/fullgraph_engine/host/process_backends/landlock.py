"""Restrict writing, TCP and signals with Linux Landlock, which applies to C code too.

The interpreter's audit hook (``sandbox``) only sees Python code. ``torch.save`` writes checkpoints
through C++, which only the kernel sees. Without Landlock (before Linux 5.13, or disabled), only the
hook remains.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

from ...protocol.sandbox import SandboxLayer

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1

# Bits of access rights and scopes in linux/landlock.h; later kernels have a higher ABI version.
_WRITE_FILE, _REMOVE_DIR, _REMOVE_FILE = 1 << 1, 1 << 4, 1 << 5
_MAKE = 0b1111111 << 6  # rights to create each of seven types of files
_REFER, _TRUNCATE = 1 << 13, 1 << 14  # since ABI 2 and ABI 3
_NET = 0b11  # bind and connect TCP sockets; since ABI 4
_SCOPED = 0b11  # abstract sockets and signals; since ABI 6
_ONLY_SCOPED = struct.pack("QQQ", 0, 0, _SCOPED)

# Save these functions at import, because user code may replace them later in this process.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None
_close = os.close


def restrict_process(
    writable: tuple[str, ...], devices: tuple[str, ...], *, network: bool = False
) -> SandboxLayer:
    """Restrict writing, TCP and signals for this process and its forks, as far as the kernel
    supports it; this cannot be undone.

    All changes are allowed below ``writable`` folders. ``devices``, and files below them, may be
    written. ``network``: TCP is allowed.
    """
    libc = _libc
    if libc is None:
        return _landlock_layer("only Linux has Landlock")
    version = libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    if version < 1:
        return _landlock_layer("this kernel is older than Linux 5.13, or Landlock is switched off")
    files = _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE
    files |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    net = _NET if version >= 4 and not network else 0
    attributes = struct.pack("QQQ", files, net, _SCOPED if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = libc.syscall(_CREATE_RULESET, attributes, size, 0)
    if ruleset < 0:
        return _landlock_layer("the kernel refuses Landlock")
    try:
        on_files = _WRITE_FILE | (_TRUNCATE if version >= 3 else 0)
        for path in writable:
            _allow_path(libc, ruleset, path, files)
        for path in devices:
            _allow_path(libc, ruleset, path, on_files)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            return _landlock_layer("this kernel does not support no_new_privs")
        if libc.syscall(_RESTRICT_SELF, ruleset, 0) != 0:
            return _landlock_layer("the kernel refuses Landlock")
    finally:
        os.close(ruleset)
    if version < 6:
        return _landlock_layer("Landlock restricts signals only since Linux 6.12", partly=True)
    return _landlock_layer()


def isolate_signals() -> None:
    """Prevent this process and its forks from sending signals to the process that it was forked
    from.

    The two processes share their other restrictions. Without kernel support, this does nothing.
    """
    if _libc is None or _libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG) < 6:
        return
    ruleset = _libc.syscall(_CREATE_RULESET, _ONLY_SCOPED, len(_ONLY_SCOPED), 0)
    if ruleset >= 0:
        _libc.syscall(_RESTRICT_SELF, ruleset, 0)
        _close(ruleset)


def _landlock_layer(lack: str = "", *, partly: bool = False) -> SandboxLayer:
    return SandboxLayer("Landlock", lack, partly)


def _allow_path(libc: ctypes.CDLL, ruleset: int, path: str, access: int) -> None:
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", access, folder), 0)
    finally:
        os.close(folder)
