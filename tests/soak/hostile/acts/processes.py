"""Processes and threads that are started, left behind, or made to wait."""

from __future__ import annotations

from tests.soak.hostile.case import table

CASES = table(
    r"""
== fork | refused: does not let this code start processes
os.fork()
== fork, in a run | refused: does not let this code start processes | run
os.fork()
== subprocess | refused: does not let this code start processes
subprocess.run(["touch", PROJECT + "/made"])
== a shell | refused: does not let this code start processes
os.system(f"touch {PROJECT}/made")
== a shell, in a run | refused: does not let this code start processes | run
os.system(f"touch {PROJECT}/made")
== posix_spawn | refused: does not let this code start processes
os.posix_spawn("/bin/touch", ["touch", PROJECT + "/made"], {})
== exec in place of Python | refused: does not let this code start processes
os.execv("/bin/touch", ["touch", PROJECT + "/made"])
== a terminal of its own | refused: does not let this code start processes
import pty
pty.spawn("/bin/sh")
== multiprocessing by fork | refused: does not let this code start processes
import multiprocessing
multiprocessing.get_context("fork").Process(target=print).start()
== multiprocessing by spawn | refused: does not let this code start processes
import multiprocessing
multiprocessing.get_context("spawn").Process(target=print).start()
== a pool | refused: does not let this code start processes
from concurrent.futures import ProcessPoolExecutor
ProcessPoolExecutor(1).submit(print).result()
== asyncio | refused: does not let this code start processes
import asyncio
asyncio.run(asyncio.create_subprocess_exec("touch", PROJECT + "/made"))
== workers of a data loader | refused: does not let this code start processes
from torch.utils.data import DataLoader
for _ in DataLoader([1, 2, 3], num_workers=2): pass
== a shell of C | traced
libc.system(f"touch {PROJECT}/made".encode())
== popen of C | traced
libc.popen(f"touch {PROJECT}/made".encode(), b"r")
== posix_spawn of C | traced
given = (ctypes.c_char_p * 3)(b"touch", f"{PROJECT}/made".encode(), None)
libc.posix_spawn(ctypes.byref(ctypes.c_int()), b"/bin/touch", None, None, given, None)
== exec of C | traced
given = (ctypes.c_char_p * 3)(b"touch", f"{PROJECT}/made".encode(), None)
refused(libc.execv(b"/bin/touch", given), "execv")
== a daemon | traced
fork_daemon()
== a daemon, in a run | traced | run
fork_daemon()
== a daemon, then a crash | crashes: exited with status 3
fork_daemon()
os._exit(3)
== a daemon, then a loop | timeout
fork_daemon()
while True: pass
== daemons with a strange name | timeout
for number in range(40): fork_daemon(TAG + ") R 1 (")
time.sleep(60)
== a thousand forks | crashes: more than 32 processes
libc.prctl(15, DAEMON.encode(), 0, 0, 0)
for _ in range(1000):
    if libc.fork() == 0: time.sleep(600)
time.sleep(60)
== forks of forks | crashes: more than 32 processes
libc.prctl(15, DAEMON.encode(), 0, 0, 0)
for _ in range(6): libc.fork()
time.sleep(600)
== forks that hand on, so that no parent is left | timeout
libc.prctl(15, DAEMON.encode(), 0, 0, 0)
if libc.fork() == 0:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if libc.fork(): os._exit(0)
time.sleep(600)
== fork by its number | traced
if syscall("clone", 17, 0, 0, 0, 0) == 0:
    libc.prctl(15, DAEMON.encode(), 0, 0, 0)
    while True: time.sleep(600)
== a child of the parent | traced
refused(syscall("clone", 0x8000 | 17, 0, 0, 0, 0), "clone")
== clone3 | traced
refused(syscall("clone3", bytes(88), 88), "clone3")
== a child that writes to all that it has inherited | traced
if libc.fork() == 0:
    for name in os.listdir("/proc/self/fd"):
        try: os.write(int(name), b"{\n" * 100)
        except OSError: pass
    os._exit(0)
os.wait()
== a child that goes on as if it were the parent | traced
libc.fork()
== a session of its own | traced
if libc.fork() == 0:
    libc.prctl(15, DAEMON.encode(), 0, 0, 0)
    os.setsid()
    while True: time.sleep(600)
== not ending with its parent | traced
refused(libc.prctl(1, 0, 0, 0, 0), "PR_SET_PDEATHSIG")
== taking in orphans | traced
libc.prctl(36, 1, 0, 0, 0)
fork_daemon()
== a process that is traced by its parent | traced
refused(libc.ptrace(0, 0, None, None), "PTRACE_TRACEME")
== a thousand threads | traced
threading.stack_size(1 << 16)
for _ in range(1000): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
== a thousand threads, in a run | traced | run
threading.stack_size(1 << 16)
for _ in range(1000): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
== threads that spin | timeout | no break
def spin():
    while True: pass
for _ in range(60): threading.Thread(target=spin, daemon=True).start()
== a thread that ends the process | crashes: exited with status 5
threading.Thread(target=lambda: os._exit(5)).start()
time.sleep(60)
== a thread that ends the process when a run has begun | crashes: the process that executed the file ended | module | no break
def ends():
    while not open(f"/proc/self/task/{os.getpid()}/children").read(): time.sleep(0.01)
    os._exit(5)
threading.Thread(target=ends).start()
== hooks of fork that loop | timeout | no break
def loops():
    while True: time.sleep(1)
os.register_at_fork(before=loops)
== hooks of fork that loop in the child | timeout | no break
def loops():
    while True: time.sleep(1)
os.register_at_fork(after_in_child=loops)
== hooks of fork that raise | traced
def fails(): raise RuntimeError("no")
os.register_at_fork(before=fails, after_in_child=fails, after_in_parent=fails)
== hooks of fork that end the process | crashes: exited with status 9 | no break
os.register_at_fork(after_in_child=lambda: os._exit(9))
== no process may be started any more | raises: not allowed to raise maximum limit
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
== before everybody else | refused: Operation not permitted
os.nice(-20)
== real time | refused: Operation not permitted
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
== on one processor alone | traced
os.sched_setaffinity(0, {0})
"""
)
