"""Processes that end, or are to be ended, when nobody expects it."""

from __future__ import annotations

from tests.soak.hostile.case import table

CASES = table(
    r"""
== sys.exit | raises: The file exits here
sys.exit(3)
== sys.exit, in a run | raises: SystemExit | run
sys.exit(3)
== exit with a text | raises: The file exits here
exit("bye")
== os._exit | crashes: exited with status 3
os._exit(3)
== os._exit, in a run | crashes: exited with status 3 | run
os._exit(3)
== os._exit that looks like success | crashes: exited with status 0
os._exit(0)
== os._exit that looks like success, in a run | crashes: exited with status 0 | run
os._exit(0)
== exit of C | crashes: exited with status 4
libc.exit(4)
== exit by its number | crashes: exited with status 4
syscall("exit_group", 4)
== exit by its number, in a run | crashes: exited with status 97 | run
syscall("exit_group", 97)
== quick_exit | crashes: exited with status 6
libc.quick_exit(6)
== abort | crashes: Aborted
os.abort()
== abort, in a run | crashes: Aborted | run
os.abort()
== a handler of exit that ends the process | traced
import atexit
atexit.register(os._exit, 7)
== a handler of exit that loops | traced
import atexit
@atexit.register
def loops():
    while True: pass
== the process kills itself | crashes: Killed
os.kill(os.getpid(), signal.SIGKILL)
== the process kills itself, in a run | crashes: Killed | run
os.kill(os.getpid(), signal.SIGKILL)
== SIGTERM | crashes: Terminated
os.kill(os.getpid(), signal.SIGTERM)
== SIGSEGV | crashes: Segmentation fault
os.kill(os.getpid(), signal.SIGSEGV)
== an illegal instruction, in a run | crashes: Illegal instruction | run
signal.raise_signal(signal.SIGILL)
== the process stops itself | crashes: stopped by a signal
os.kill(os.getpid(), signal.SIGSTOP)
== the process stops itself, in a run | crashes: stopped by a signal | run
os.kill(os.getpid(), signal.SIGSTOP)
== a crash without a handler of faults | crashes: Segmentation fault
import faulthandler
faulthandler.disable()
ctypes.string_at(0)
== an alarm | crashes: Alarm clock
signal.setitimer(signal.ITIMER_REAL, 0.01)
time.sleep(60)
== an alarm for later | traced
signal.setitimer(signal.ITIMER_REAL, 0.3)
== a timer of processor time | crashes: Profiling timer
signal.setitimer(signal.ITIMER_PROF, 0.05)
while True: pass
== the group of processes | crashes: Terminated
os.killpg(os.getpgrp(), signal.SIGTERM)
== the group of processes, by 0 | refused: does not let this code signal other processes
os.kill(0, signal.SIGKILL)
== the group of processes, in C | crashes: Killed
libc.kill(0, 9)
== everybody | refused: does not let this code signal other processes
os.kill(-1, signal.SIGWINCH)
== everybody, in C | traced
refused(libc.kill(-1, signal.SIGWINCH), "kill")
== the parent | refused: does not let this code signal other processes
os.kill(os.getppid(), signal.SIGKILL)
== the parent, in a run | refused: does not let this code signal other processes | run
os.kill(os.getppid(), signal.SIGKILL)
== the parent, in C | traced
for pid in {os.getppid(), 1, 2} - {os.getpid()}: libc.kill(pid, signal.SIGSTOP)
== the parent, in C and in a run | traced | run
for pid in {os.getppid(), 1, 2} - {os.getpid()}: libc.kill(pid, signal.SIGSTOP)
== all processes up to the ten thousandth, in C | traced
own = [int(name) for name in os.listdir("/proc/self/task")]
for pid in range(1, 10_000):
    if pid not in own: libc.kill(pid, signal.SIGUSR2)
== the process beside | refused: does not let this code signal other processes
os.kill(VICTIM, signal.SIGTERM)
== the process beside, in C | traced
refused(libc.kill(VICTIM, signal.SIGKILL), "kill")
== the process beside, by its thread | traced
refused(syscall("tkill", VICTIM, signal.SIGKILL), "tkill")
== the process beside, through a descriptor | traced
handle = syscall("pidfd_open", VICTIM, 0)
if handle >= 0: refused(syscall("pidfd_send_signal", handle, 9, 0, 0), "pidfd_send_signal")
== the process beside, with a value | traced
refused(libc.sigqueue(VICTIM, 10, None), "sigqueue")
== the process beside, when a pipe is ready | traced
import fcntl
come, go = os.pipe()
for command in (8, 10): refused(libc.fcntl(come, command, VICTIM), "F_SETOWN")
libc.fcntl(come, 4, 0o20000); os.write(go, b"x")
== the runner | refused: does not let this code signal other processes
os.kill(RUNNER, signal.SIGWINCH)
== an interrupt from the keyboard | raises: KeyboardInterrupt
raise KeyboardInterrupt
== an interrupt from a thread | raises: KeyboardInterrupt
import _thread
threading.Thread(target=_thread.interrupt_main).start()
time.sleep(2)
== an exception of its own family | raises: Odd
class Odd(BaseException): pass
raise Odd("of no family")
== an exception of its own family, in a run | raises: Odd | run
class Odd(BaseException): pass
raise Odd("of no family")
== an exit from a finalizer | crashes: exited with status 8
class Ends:
    def __del__(self): os._exit(8)
Ends()
== the main thread ends alone | timeout
threading.Thread(target=time.sleep, args=(600,)).start()
libc.pthread_exit(None)
== signals in great numbers | traced
signal.signal(signal.SIGUSR1, lambda *a: None)
for _ in range(20_000): signal.raise_signal(signal.SIGUSR1)
"""
)
