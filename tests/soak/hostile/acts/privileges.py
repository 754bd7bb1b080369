"""More rights than a run has, and other processes."""

from __future__ import annotations

from tests.soak.hostile.case import table

CASES = table(
    r"""
== another user | traced
try: os.setuid(12345)
except OSError: pass
if os.getuid() == 12345: leak("another user")
== root | traced
try: os.setuid(0)
except OSError: pass
refused(libc.open((PROJECT + "/weights.pt").encode(), 1), "open")
== other groups | refused: Operation not permitted
os.setgroups([0, 1, 2])
== programs that become another user | traced
for name in ("/usr/bin/sudo", "/bin/su", "/usr/bin/newgrp", "/usr/bin/passwd"):
    refused(libc.execv(name.encode(), (ctypes.c_char_p * 2)(name.encode(), None)), name)
== capabilities | traced
words = (ctypes.c_uint32 * 6)(0xFFFFFFFF, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0)
refused(syscall("capset", (ctypes.c_uint32 * 2)(0x20080522, 0), words), "capset")
== capabilities that a run has | traced
held = [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")]
if int(held[0], 16) & ~4: leak("capabilities " + held[0])
== ambient capabilities | traced
for number in range(41): refused(libc.prctl(47, 2, number, 0, 0), f"capability {number}")
== root of another file system | refused: Operation not permitted
os.chroot(tempfile.gettempdir())
== a mount | traced
for flags in (0, 4096): refused(libc.mount(TMP.encode(), TMP.encode(), b"tmpfs", flags, None), "mount")
== mounts that may be written | traced
for place in (b"/", PROJECT.encode(), b"/tmp"):
    refused(libc.mount(b"none", place, None, 4096 | 32, None), "remount")
    refused(syscall("mount_setattr", -100, place, 0, bytes(8) + b"\1" + bytes(23), 32), "mount_setattr")
refused(libc.open((PROJECT + "/weights.pt").encode(), 1), "open")
== an unmount | traced
for place in (b"/dev/shm", b"/proc", b"/"): refused(libc.umount2(place, 2), "umount")
== the interface of mounts that is new | traced
refused(syscall("fsopen", b"tmpfs", 0), "fsopen")
refused(syscall("open_tree", -100, PROJECT.encode(), 1), "open_tree")
refused(syscall("move_mount", -100, TMP.encode(), -100, TMP.encode(), 0), "move_mount")
== the root is exchanged | traced
refused(syscall("pivot_root", TMP.encode(), TMP.encode()), "pivot_root")
== namespaces of its own | traced
for kind in (0x10000000, 0x20000, 0x40000000, 0x8000000, 0x4000000, 0x2000000):
    refused(libc.unshare(kind), f"namespace {kind:#x}")
== a process in namespaces of its own | traced
pid = syscall("clone", 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0: os._exit(0)
refused(pid, "clone")
== namespaces of the parent | traced
for pid in (os.getppid(), 1, VICTIM):
    for name in ("user", "mnt", "pid", "net", "ipc"):
        handle = libc.open(f"/proc/{pid}/ns/{name}".encode(), 0)
        if handle >= 0: refused(libc.setns(handle, 0), f"namespace {name} of {pid}")
== other rules for paths | traced
refused(libc.open(f"/proc/{os.getppid()}/cwd/notes.txt".encode(), 1), "the parent's folder")
== memory of the process beside is read | traced
room, their = ctypes.create_string_buffer(32), (ctypes.c_long * 2)(ADDRESS, 30)
own = (ctypes.c_long * 2)(ctypes.addressof(room), 30)
refused(syscall("process_vm_readv", VICTIM, own, 1, their, 1, 0), "process_vm_readv")
== memory of the process beside is written | traced
room, their = ctypes.create_string_buffer(b"x" * 32), (ctypes.c_long * 2)(ADDRESS, 30)
own = (ctypes.c_long * 2)(ctypes.addressof(room), 30)
refused(syscall("process_vm_writev", VICTIM, own, 1, their, 1, 0), "process_vm_writev")
== memory of the process beside, as a file | traced
for flags in (0, 2): refused(libc.open(f"/proc/{VICTIM}/mem".encode(), flags), "mem")
== memory of the parent | traced
for pid in (os.getppid(), 1, 2): refused(libc.open(f"/proc/{pid}/mem".encode(), 0), f"mem of {pid}")
== the process beside is traced | traced
refused(libc.ptrace(16, VICTIM, None, None), "PTRACE_ATTACH")
refused(libc.ptrace(0x4206, VICTIM, None, None), "PTRACE_SEIZE")
== the parent is traced | traced
for pid in (os.getppid(), 1): refused(libc.ptrace(16, pid, None, None), "PTRACE_ATTACH")
== being traced by anybody | traced
refused(libc.prctl(0x59616D61, -1, 0, 0, 0), "PR_SET_PTRACER")
== a descriptor of the process beside | traced
handle = syscall("pidfd_open", VICTIM, 0)
refused(syscall("pidfd_getfd", handle, 0, 0), "pidfd_getfd")
== limits of the process beside | refused: Operation not permitted
resource.prlimit(VICTIM, resource.RLIMIT_CPU, (900, 900))
== limits of the process beside are read | raises: No such process
resource.prlimit(VICTIM, resource.RLIMIT_CPU)
leak("limits of another process")
== the priority of the process beside | refused: Operation not permitted
os.setpriority(os.PRIO_PROCESS, VICTIM, 19)
== the priority of all processes of the user | refused: Operation not permitted
os.setpriority(os.PRIO_USER, 0, 19)
== the processors of the process beside | refused: Operation not permitted
os.sched_setaffinity(VICTIM, {0})
== the scheduler of the process beside | refused: Operation not permitted
os.sched_setscheduler(VICTIM, os.SCHED_IDLE, os.sched_param(0))
== the disk priority of the process beside | traced
refused(syscall("ioprio_set", 1, VICTIM, 3 << 13), "ioprio_set")
== the memory nodes of the process beside | traced
refused(syscall("migrate_pages", VICTIM, 8, bytes(8), bytes(8)), "migrate_pages")
== who of others is ended when memory runs out | traced
refused(libc.open(f"/proc/{VICTIM}/oom_score_adj".encode(), 1), "oom_score_adj")
== the group of the scheduler of the process beside | traced
refused(libc.open(f"/proc/{VICTIM}/autogroup".encode(), 1), "autogroup")
== keys of the kernel | traced
refused(syscall("keyctl", 0, -3, 0, 0, 0), "keyctl")
refused(syscall("add_key", b"user", TAG.encode(), b"x", 1, -3), "add_key")
== programs of the kernel | traced
refused(syscall("bpf", 0, bytes(72), 72), "bpf")
== counters of the processor | traced
refused(syscall("perf_event_open", bytes(112), 0, -1, -1, 0), "perf_event_open")
== faults that it handles itself | traced
refused(syscall("userfaultfd", 1), "userfaultfd")
== modules of the kernel | traced
refused(syscall("init_module", b"x", 1, b""), "init_module")
refused(syscall("finit_module", 0, b"", 0), "finit_module")
== the name of the machine | refused: Operation not permitted
socket.sethostname(socket.gethostname())
== the clock of the machine | refused: Operation not permitted
time.clock_settime(time.CLOCK_REALTIME, time.time())
== the machine is started again, with a wrong number | traced
ctypes.set_errno(0)
syscall("reboot", 0, 0, 0, 0)
if ctypes.get_errno() != 1: leak(f"reboot: {ctypes.get_errno()}")
== swapping | traced
refused(syscall("swapon", TMP.encode(), 0), "swapon")
== accounting | traced
refused(syscall("acct", (TMP + "/weights.pt").encode()), "acct")
== ports of the machine | traced
if "iopl" in NUMBERS: refused(syscall("iopl", 3), "iopl"), refused(syscall("ioperm", 0, 1, 1), "ioperm")
== files by their numbers | traced
refused(syscall("open_by_handle_at", -100, bytes(136), 0), "open_by_handle_at")
== another personality | traced
refused(libc.personality(0x0040000), "personality")
== messages of the kernel | traced
refused(libc.klogctl(3, ctypes.create_string_buffer(4096), 4096), "syslog")
== semaphores that stay | traced
refused(libc.semget(0x66676873, 1, 0o1600), "semget")
== queues that stay | traced
refused(libc.msgget(0x66676873, 0o1600), "msgget")
== queues that stay, of POSIX | traced
refused(syscall("mq_open", TAG.encode(), 0o102, 0o600, 0), "mq_open")
== shared memory that stays | traced
refused(libc.shmget(0x66676873, 4096, 0o1600), "shmget")
== what is watched for all users | traced
refused(syscall("fanotify_init", 0, 0), "fanotify_init")
== rules of its own for system calls | traced
code = (ctypes.c_uint64 * 1)(0x7FFF000000000006)
filter = (ctypes.c_uint64 * 2)(1, ctypes.addressof(code))
libc.prctl(38, 1, 0, 0, 0); syscall_number = 317
libc.syscall(syscall_number, 1, 0, filter)
refused(libc.open((PROJECT + "/weights.pt").encode(), 1), "open")
== privileges of programs | traced
refused(libc.prctl(38, 0, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")
== processes of others are seen | traced
if any(one.isdigit() and os.path.exists(f"/proc/{VICTIM}/exe") for one in [str(VICTIM)]):
    leak("another process is seen")
"""
)
