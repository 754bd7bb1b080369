"""Deny system calls that traced code does not need, with Linux seccomp.

The filter sees the number and the arguments of a call, but not memory behind pointers. So Landlock
and the mount namespace check paths and addresses. A denied call fails with EPERM; a call of another
architecture (32 bit, x32) kills the process.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import signal
import struct
import sys
from dataclasses import dataclass

from . import system_calls

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_CALL = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER = 1
_ALL_THREADS, _SPEC_ALLOW = 1, 4
"""Flags for installing the filter: it applies to all threads, and does not turn on a slow
protection against speculation in old kernels."""

# Architecture numbers (linux/audit.h) and system call numbers, by machine.
_MACHINES = {
    "x86_64": (0xC000003E, system_calls.X86_64),
    "aarch64": (0xC00000B7, system_calls.AARCH64),
}
_X32 = 0x40000000

# Codes of BPF instructions, actions of the filter, and offsets of the system call's data
# (linux/bpf_common.h, linux/seccomp.h).
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_ABOVE = 0x15, 0x25
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALL_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class Is:
    """A test of one argument of a system call: its low 32 bits, masked with ``bits``, are one of
    ``values``.

    ``negated`` inverts the test. ``upper`` tests the high 32 bits of a pointer instead.
    """

    argument: int
    values: tuple[int, ...]
    bits: int = _ALL_BITS
    negated: bool = False
    upper: bool = False


Rule = tuple[tuple[Is, ...], ...]
"""Alternatives for allowing a system call. Each is a tuple of tests that must all succeed; without
alternatives the call is denied."""

_NEVER: Rule = ()


def _null_pointer(argument: int) -> tuple[Is, ...]:
    return Is(argument, (0,)), Is(argument, (0,), upper=True)


_ITSELF: Rule = ((Is(0, (0,)),),)
"""Rule that allows a system call only if its first argument, a pid, is 0 (the calling process)."""
_RLIMIT_NPROC = 6
_NAMESPACES = 0x7E020000
"""Mask of the CLONE_NEW… flags of clone(2)."""
_CLONE_PARENT = 0x8000
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET, _TYPE = 1, 2, 5, 0xF
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_MM, _PR_SET_PTRACER = 1, 4, 35, 0x59616D61
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETLEASE = 8, 10, 15, 1024
_TIOCSTI, _TIOCLINUX, _FIOSETOWN, _SIOCSPGRP = 0x5412, 0x541C, 0x8901, 0x8902
_FS_IOC_SETFLAGS, _FS_IOC_FSSETXATTR = 0x40086602, 0x401C5820

_RULES: dict[str, Rule] = {
    # Only kill(-1), a signal to all processes, is denied here, because a filter cannot know which
    # pids belong to the caller and its children. Landlock and the pid namespace restrict other
    # targets.
    "kill": ((Is(0, (0xFFFFFFFF,), negated=True),),),
    # If a process could lower the limit on processes, the next run could not be forked.
    "prlimit64": ((*_ITSELF[0], Is(1, (_RLIMIT_NPROC,), negated=True)), _null_pointer(2)),
    "setrlimit": ((Is(0, (_RLIMIT_NPROC,), negated=True),),),
    "setpriority": ((Is(0, (0,)), Is(1, (0,))),),
    "ioprio_set": ((Is(0, (1,)), Is(1, (0,))),),
    **dict.fromkeys(
        (
            "move_pages",
            "sched_setaffinity",
            "sched_setattr",
            "sched_setparam",
            "sched_setscheduler",
        ),
        _ITSELF,
    ),
    "fcntl": ((Is(1, (_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETLEASE), negated=True),),),
    # The process must still end with its parent, and its open files must remain visible.
    "prctl": (
        (Is(0, (_PR_SET_PDEATHSIG,)), Is(1, (int(signal.SIGKILL),))),
        (
            Is(
                0,
                (_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_MM, _PR_SET_PTRACER),
                negated=True,
            ),
        ),
    ),
    "clone": ((Is(0, (0,), bits=_NAMESPACES | _CLONE_PARENT),),),
    # A datagram socket can send to any address, a stream or packet socket only to its peer.
    "socketpair": ((Is(0, (_AF_UNIX,)), Is(1, (_SOCK_STREAM, _SOCK_SEQPACKET), bits=_TYPE)),),
    "sendto": (_null_pointer(4),),
    "ioctl": (
        (
            Is(
                1,
                (
                    _TIOCSTI,
                    _TIOCLINUX,
                    _FIOSETOWN,
                    _SIOCSPGRP,
                    _FS_IOC_SETFLAGS,
                    _FS_IOC_FSSETXATTR,
                ),
                negated=True,
            ),
        ),
    ),
    # 0xffffffff queries the current value.
    "personality": ((Is(0, (0xFFFFFFFF,)),),),
    **dict.fromkeys(
        (
            # act on other processes
            "kcmp",
            "migrate_pages",
            "pidfd_getfd",
            "pidfd_send_signal",
            "process_madvise",
            "process_mrelease",
            "process_vm_readv",
            "process_vm_writev",
            "ptrace",
            "rt_sigqueueinfo",
            "rt_tgsigqueueinfo",
            # create or use sockets
            "bind",
            "connect",
            "listen",
            "socket",
            # create objects that outlive a process, or files that Landlock does not cover
            "mq_open",
            "mq_unlink",
            "msgctl",
            "msgget",
            "msgrcv",
            "msgsnd",
            "semctl",
            "semget",
            "semop",
            "semtimedop",
            "shmat",
            "shmctl",
            "shmget",
            # access files in other ways
            "io_uring_enter",
            "io_uring_register",
            "io_uring_setup",
            "open_by_handle_at",
            # change the system
            "acct",
            "add_key",
            "adjtimex",
            "bpf",
            "chroot",
            "clock_adjtime",
            "clock_settime",
            "delete_module",
            "fanotify_init",
            "finit_module",
            "fsconfig",
            "fsmount",
            "fsopen",
            "fspick",
            "init_module",
            "ioperm",
            "iopl",
            "kexec_file_load",
            "kexec_load",
            "keyctl",
            "lookup_dcookie",
            "modify_ldt",
            "mount",
            "mount_setattr",
            "move_mount",
            "open_tree",
            "open_tree_attr",
            "perf_event_open",
            "pivot_root",
            "quotactl",
            "quotactl_fd",
            "reboot",
            "request_key",
            "setdomainname",
            "sethostname",
            "setns",
            "settimeofday",
            "swapoff",
            "swapon",
            "syslog",
            "umount2",
            "unshare",
            "uselib",
            "userfaultfd",
            "vhangup",
        ),
        _NEVER,
    ),
}

_NETWORK: dict[str, Rule] = {
    # Other sockets reach local services that can act on behalf of the process.
    "socket": (
        (
            Is(0, (_AF_INET, _AF_INET6)),
            Is(1, (_SOCK_STREAM, _SOCK_DGRAM), bits=_TYPE),
        ),
    ),
}
_NETWORK_FREE = ("bind", "connect", "listen", "sendto")
"""System calls that are allowed if network sockets are allowed. Otherwise sockets exist only as
connected pairs."""

_PROGRAMS = ("execve", "execveat")

_IN_MEMORY = ("memfd_create", "memfd_secret")
"""System calls that allocate memory which does not count against the limits of a process."""

_METADATA = (
    "chmod",
    "chown",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchown",
    "fchownat",
    "file_setattr",
    "fremovexattr",
    "fsetxattr",
    "futimesat",
    "lchown",
    "lremovexattr",
    "lsetxattr",
    "removexattr",
    "removexattrat",
    "setxattr",
    "setxattrat",
    "utime",
    "utimensat",
    "utimes",
)
"""System calls that change the mode, owner or times of files. Landlock does not restrict them; a
read-only file system does."""


def restrict_calls(*, programs: bool, metadata: bool, network: bool = False) -> str:
    """Deny system calls that traced code does not need, in this process and its forks; this cannot
    be undone.

    Return the reason for a failure, or an empty string. ``programs``: programs may be started.
    ``metadata``: the metadata of files may be changed. ``network``: TCP and UDP are allowed.
    """
    if not sys.platform.startswith("linux"):
        return "only Linux has seccomp"
    machine = os.uname().machine
    if machine not in _MACHINES or struct.calcsize("P") != 8:
        return f"there is no table of system calls for {machine}"
    libc = ctypes.CDLL(None, use_errno=True)
    code = filter_program(machine, programs=programs, metadata=metadata, network=network)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return "this kernel does not support no_new_privs"
    flags = _ALL_THREADS | _SPEC_ALLOW
    if libc.syscall(_SECCOMP_CALL[machine], _SET_MODE_FILTER, flags, header) != 0:
        return (
            "the kernel refuses the system call filter "
            f"({errno.errorcode.get(ctypes.get_errno(), 'error')})"
        )
    return ""


@functools.cache  # cached, because forked processes use the filter too
def filter_program(machine: str, *, programs: bool, metadata: bool, network: bool = False) -> bytes:
    """Return the BPF program that allows or denies system calls, for a machine such as "x86_64".

    ``programs``: programs may be started. ``metadata``: the metadata of files may be changed.
    ``network``: TCP and UDP are allowed.
    """
    architecture, numbers = _MACHINES[machine]
    rules = dict(_RULES)
    if not programs:
        rules |= dict.fromkeys((*_PROGRAMS, *_IN_MEMORY), _NEVER)
    if not metadata:
        rules |= dict.fromkeys(_METADATA, _NEVER)
    if network:
        rules |= _NETWORK
        for name in _NETWORK_FREE:
            del rules[name]
    refused = _ERROR | errno.EPERM
    absent = _ERROR | errno.ENOSYS
    code = [
        _encode_instruction(_LOAD, _ARCHITECTURE),
        _encode_instruction(_IF_EQUAL, architecture, 1, 0),
        _encode_instruction(_RETURN, _KILL),
        _encode_instruction(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        code += [
            _encode_instruction(_IF_ABOVE, _X32 - 1, 0, 1),
            _encode_instruction(_RETURN, _KILL),
        ]
    # Newer system calls are unknown. glibc falls back from clone3 to clone, whose flags are
    # visible.
    code += [
        _encode_instruction(_IF_ABOVE, system_calls.LAST, 0, 1),
        _encode_instruction(_RETURN, absent),
    ]
    code += _encode_call(numbers["clone3"], [_encode_instruction(_RETURN, absent)])
    for name, rule in rules.items():
        if name in numbers:
            code += _encode_call(
                numbers[name], [*_encode_rule(rule), _encode_instruction(_RETURN, refused)]
            )
    code.append(_encode_instruction(_RETURN, _ALLOW))
    return b"".join(code)


def _encode_instruction(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    """Encode one BPF instruction.

    A comparison skips ``if_so`` instructions if it is true, and ``if_not`` if it is false.
    """
    return struct.pack("HBBI", code, if_so, if_not, value)


def _encode_call(number: int, body: list[bytes]) -> list[bytes]:
    """Encode a rule's instructions ``body`` so that they apply only to system call ``number``.

    The call's number stays in the register for later rules.
    """
    return [_encode_instruction(_IF_EQUAL, number, 0, len(body)), *body]


def _encode_rule(rule: Rule) -> list[bytes]:
    """Encode a rule as BPF instructions that allow the system call if one of its alternatives is
    met.

    Otherwise execution continues after them.
    """
    code: list[bytes] = []
    for tests in rule:
        # Encode backwards, because each jump needs the distance to the end.
        rest = [_encode_instruction(_RETURN, _ALLOW)]
        for test in reversed(tests):
            rest = [*_encode_test(test, len(rest)), *rest]
        code += rest
    return code


def _encode_test(test: Is, behind: int) -> list[bytes]:
    """Encode a test of a system call's argument as BPF instructions.

    If the test fails, execution skips the ``behind`` instructions after it.
    """
    offset = _ARGUMENTS + 8 * test.argument + (4 if test.upper else 0)
    code = [_encode_instruction(_LOAD, offset)]
    if test.bits != _ALL_BITS:
        code.append(_encode_instruction(_AND, test.bits))
    for left in range(len(test.values), 0, -1):
        value = test.values[-left]
        if test.negated:
            code.append(_encode_instruction(_IF_EQUAL, value, left - 1 + behind, 0))
        else:
            code.append(_encode_instruction(_IF_EQUAL, value, left - 1, 0 if left > 1 else behind))
    return code
