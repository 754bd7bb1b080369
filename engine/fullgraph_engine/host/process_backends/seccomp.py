"""Linux seccomp: system calls that code which is only traced has no use for are refused.

The filter sees the number of a call and its arguments, but not what a pointer points to: paths and
addresses are for Landlock and the mount namespace. A refused call fails with EPERM; one of another
machine (32 bit, x32) ends the process.
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
"""Flags of the filter: for every thread; without the slow-down of speculation on older kernels."""

# linux/audit.h
_MACHINES = {
    "x86_64": (0xC000003E, system_calls.X86_64),
    "aarch64": (0xC00000B7, system_calls.AARCH64),
}
_X32 = 0x40000000

# linux/bpf_common.h, linux/seccomp.h
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_ABOVE = 0x15, 0x25
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALL_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class Is:
    """The low 32 bits of an argument, of which ``bits`` count, are one of ``values``, or are none
    of them (``negated``). ``upper``: the high 32 bits of a pointer instead."""

    argument: int
    values: tuple[int, ...]
    bits: int = _ALL_BITS
    negated: bool = False
    upper: bool = False


Rule = tuple[tuple[Is, ...], ...]
"""When a call is allowed: if all of one of these hold. Never, if there are none."""

_NEVER: Rule = ()


def _null(argument: int) -> tuple[Is, ...]:
    return Is(argument, (0,)), Is(argument, (0,), upper=True)


_ITSELF: Rule = ((Is(0, (0,)),),)
"""The first argument is a process: the caller."""
_RLIMIT_NPROC = 6
_NAMESPACES = 0x7E020000
"""CLONE_NEW…, as far as clone(2) has them."""
_CLONE_PARENT = 0x8000
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET, _TYPE = 1, 2, 5, 0xF
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_MM, _PR_SET_PTRACER = 1, 4, 35, 0x59616D61
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETLEASE = 8, 10, 15, 1024
_TIOCSTI, _TIOCLINUX, _FIOSETOWN, _SIOCSPGRP = 0x5412, 0x541C, 0x8901, 0x8902
_FS_IOC_SETFLAGS, _FS_IOC_FSSETXATTR = 0x40086602, 0x401C5820

_RULES: dict[str, Rule] = {
    # Other processes. Which pid is the caller's own, or its child's, a filter cannot know: what is
    # left of kill(2) is for Landlock and the pid namespace.
    "kill": ((Is(0, (0xFFFFFFFF,), negated=True),),),
    # Without a process to be forked, the next run could not begin.
    "prlimit64": ((*_ITSELF[0], Is(1, (_RLIMIT_NPROC,), negated=True)), _null(2)),
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
    # It must not learn to outlive the process that it was forked from, nor hide what it has open.
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
    # A packet socket can be sent to any address, those of these types only to the other end.
    "socketpair": ((Is(0, (_AF_UNIX,)), Is(1, (_SOCK_STREAM, _SOCK_SEQPACKET), bits=_TYPE)),),
    "sendto": (_null(4),),
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
    # 0xffffffff asks which it is.
    "personality": ((Is(0, (0xFFFFFFFF,)),),),
    **dict.fromkeys(
        (
            # other processes
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
            # sockets
            "bind",
            "connect",
            "listen",
            "socket",
            # what outlives a process, or is no file that Landlock knows
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
            # files by another way
            "io_uring_enter",
            "io_uring_register",
            "io_uring_setup",
            "open_by_handle_at",
            # the system
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
    # To services of this machine there are other sockets, which do more than to send.
    "socket": (
        (
            Is(0, (_AF_INET, _AF_INET6)),
            Is(1, (_SOCK_STREAM, _SOCK_DGRAM), bits=_TYPE),
        ),
    ),
}
_NETWORK_FREE = ("bind", "connect", "listen", "sendto")
"""What may be done with such sockets; others there are only as connected pairs."""

_PROGRAMS = ("execve", "execveat")

_IN_MEMORY = ("memfd_create", "memfd_secret")
"""Memory that counts for no limit of a process."""

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
"""Landlock lets everybody change modes, owners and times; a read-only file system does not."""


def restrict(*, programs: bool, metadata: bool, network: bool = False) -> str:
    """Restrict this process and all that it forks, for good; why that is impossible, or nothing.

    ``programs`` may be started, if that is so; the metadata of files may be changed, if
    ``metadata``; TCP and UDP may be used, if ``network``.
    """
    if not sys.platform.startswith("linux"):
        return "only Linux has it"
    machine = os.uname().machine
    if machine not in _MACHINES or struct.calcsize("P") != 8:
        return f"there is no table of system calls for {machine}"
    libc = ctypes.CDLL(None, use_errno=True)
    code = program(machine, programs=programs, metadata=metadata, network=network)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return "this kernel has no no_new_privs"
    flags = _ALL_THREADS | _SPEC_ALLOW
    if libc.syscall(_SECCOMP_CALL[machine], _SET_MODE_FILTER, flags, header) != 0:
        return f"the kernel refuses it ({errno.errorcode.get(ctypes.get_errno(), 'error')})"
    return ""


@functools.cache  # for whatever is forked
def program(machine: str, *, programs: bool, metadata: bool, network: bool = False) -> bytes:
    """The filter for a machine, as the kernel reads it; the rest is as ``restrict`` has it."""
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
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_IF_EQUAL, architecture, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        code += [_instruction(_IF_ABOVE, _X32 - 1, 0, 1), _instruction(_RETURN, _KILL)]
    # What it does is not known. For clone3, glibc has clone, whose flags can be seen.
    code += [_instruction(_IF_ABOVE, system_calls.LAST, 0, 1), _instruction(_RETURN, absent)]
    code += _call(numbers["clone3"], [_instruction(_RETURN, absent)])
    for name, rule in rules.items():
        if name in numbers:
            code += _call(numbers[name], [*_allowed(rule), _instruction(_RETURN, refused)])
    code.append(_instruction(_RETURN, _ALLOW))
    return b"".join(code)


def _instruction(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    """Of a comparison, how many instructions to pass over if it holds, and if it does not."""
    return struct.pack("HBBI", code, if_so, if_not, value)


def _call(number: int, body: list[bytes]) -> list[bytes]:
    """What is done for one call; the number is there before and after it."""
    return [_instruction(_IF_EQUAL, number, 0, len(body)), *body]


def _allowed(rule: Rule) -> list[bytes]:
    """Allow a call, or go on behind this."""
    code: list[bytes] = []
    for tests in rule:
        # From the end, as each has to know how far it is to there.
        rest = [_instruction(_RETURN, _ALLOW)]
        for test in reversed(tests):
            rest = [*_test(test, len(rest)), *rest]
        code += rest
    return code


def _test(test: Is, behind: int) -> list[bytes]:
    """Go on if a test holds, else pass over the ``behind`` instructions that follow it."""
    offset = _ARGUMENTS + 8 * test.argument + (4 if test.upper else 0)
    code = [_instruction(_LOAD, offset)]
    if test.bits != _ALL_BITS:
        code.append(_instruction(_AND, test.bits))
    for left in range(len(test.values), 0, -1):
        value = test.values[-left]
        if test.negated:
            code.append(_instruction(_IF_EQUAL, value, left - 1 + behind, 0))
        else:
            code.append(_instruction(_IF_EQUAL, value, left - 1, 0 if left > 1 else behind))
    return code
