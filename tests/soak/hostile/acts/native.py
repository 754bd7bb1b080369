"""Native code: ctypes, machine code, and the insides of the interpreter."""

from __future__ import annotations

from tests.soak.hostile.case import table

_MACHINE = r"""
def machine(text):
    room = mmap.mmap(-1, 4096, prot=7)
    room.write(bytes.fromhex(text))
    machine.kept = room
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(room)))()
"""


def _with_machine(text: str) -> str:
    return text.replace("MACHINE\n", _MACHINE.lstrip("\n"))


CASES = table(
    _with_machine(
        r"""
== reading where nothing is | crashes: Segmentation fault
ctypes.string_at(0)
== reading where nothing is, in a run | crashes: Segmentation fault | run
ctypes.string_at(0)
== writing where nothing is | crashes: Segmentation fault
ctypes.memset(1 << 46, 1, 8)
== jumping where nothing is, in a run | crashes: Segmentation fault | run
ctypes.CFUNCTYPE(None)(16)()
== a loop of machine code | timeout
MACHINE
machine("ebfe")
== a loop of machine code, in a run | timeout | run
MACHINE
machine("ebfe")
== an instruction that there is not | crashes: Illegal instruction
MACHINE
machine("0f0b")
== an instruction of the system | crashes: Segmentation fault
MACHINE
machine("f4")
== a breakpoint | crashes: Trace/breakpoint trap
MACHINE
machine("cc")
== a division by zero | crashes: Floating point exception
MACHINE
machine("31c931c0f7f1c3")
== a system call of 32 bit | crashes: Bad system call
MACHINE
machine("b81400000 0cd80c3".replace(" ", ""))
== a system call of x32 | crashes: Bad system call
MACHINE
machine("b8270000400f05c3")
== a system call without a function | traced
MACHINE
room = ctypes.create_string_buffer((PROJECT + "/weights.pt").encode())
address = ctypes.addressof(room).to_bytes(8, "little").hex()
refused(machine("48bf" + address + "b8570000000f05c3"), "unlink")
== opening for writing | traced
refused(syscall("openat", -100, (PROJECT + "/weights.pt").encode(), 0o1001, 0), "openat")
== opening for writing, in a run | traced | run
refused(syscall("openat", -100, (PROJECT + "/weights.pt").encode(), 0o1001, 0), "openat")
== opening with rules of its own | traced
refused(syscall("openat2", -100, (PROJECT + "/weights.pt").encode(), (0o1001).to_bytes(24, "little"), 24), "openat2")
== making a file | traced
refused(syscall("openat", -100, (PROJECT + "/made").encode(), 0o101, 0o600), "openat")
== removing | traced
refused(syscall("unlinkat", -100, (HOME + "/weights.pt").encode(), 0), "unlinkat")
== removing, in a run | traced | run
refused(syscall("unlinkat", -100, (HOME + "/weights.pt").encode(), 0), "unlinkat")
== renaming | traced
refused(syscall("renameat2", -100, (TMP + "/weights.pt").encode(), -100, (TMP + "/gone").encode(), 0))
== exchanging two files | traced
own = tempfile.mkstemp()[1].encode()
refused(syscall("renameat2", -100, own, -100, (TMP + "/weights.pt").encode(), 2), "renameat2")
== a link | traced
refused(syscall("linkat", -100, (TMP + "/weights.pt").encode(), -100, (TMP + "/made").encode(), 0))
== a symbolic link | traced
refused(syscall("symlinkat", b"/", -100, (TMP + "/made").encode()), "symlinkat")
== a folder | traced
refused(syscall("mkdirat", -100, (HOME + "/made").encode(), 0o700), "mkdirat")
== a local socket that stays | traced
refused(syscall("mknodat", -100, (HOME + "/made").encode(), 0o140600, 0), "mknodat")
== cutting off | traced
refused(syscall("truncate", (HOME + "/weights.pt").encode(), 0), "truncate")
== modes, by a new version of a call | traced
refused(syscall("fchmodat2", -100, (HOME + "/weights.pt").encode(), 0o777, 0), "fchmodat2")
== attributes, by a new version of a call | traced
refused(syscall("setxattrat", -100, (HOME + "/notes.txt").encode(), 0, b"user.kept", bytes(16), 16))
== a call that there will be one day | traced
for number in range(470, 480): refused(libc.syscall(number, 0, 0, 0, 0, 0, 0), f"call {number}")
== memory that is only to be read, through /proc | refused: does not let this code change files
with open("/proc/self/mem", "r+b", 0) as memory: memory.seek(id(0)); memory.write(bytes(64))
== references that are given back too often | crashes: Segmentation fault
for _ in range(100_000): ctypes.pythonapi.Py_DecRef(ctypes.py_object(type))
for _ in range(3): gc.collect()
held = [type("x", (), {}) for _ in range(1000)]
== an error without an exception | raises: SystemError
ctypes.pythonapi.PyErr_SetString.argtypes = [ctypes.py_object, ctypes.c_char_p]
ctypes.pythonapi.PyErr_SetNone.restype = ctypes.py_object
ctypes.pythonapi.PyErr_SetNone(ctypes.py_object(SystemError))
== a fatal error of the interpreter | crashes: Aborted
ctypes.pythonapi.Py_FatalError(b"hostile")
== the interpreter is shut down | crashes
ctypes.pythonapi.Py_FinalizeEx()
== the interpreter exits | crashes: exited with status 3
ctypes.pythonapi.Py_Exit(3)
== the lock of the interpreter | crashes
ctypes.pythonapi.PyEval_SaveThread.restype = ctypes.c_void_p
ctypes.pythonapi.PyEval_SaveThread()
== the lock of the interpreter is held | timeout
ctypes.PyDLL(None).pause()
== the lock of the interpreter is held, in a run | timeout | run
while True: ctypes.PyDLL(None).sleep(600)
== hooks of audit are taken out | traced
place = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
import builtins
words = (ctypes.c_long * 400).from_address(place)
def clear(): libc.unlink((PROJECT + "/weights.pt").encode())
clear()
== objects are overwritten | crashes: Segmentation fault
ctypes.memset(id(object), 0xFF, 400)
object()
== the heap is overwritten | crashes | module | no break
libc.malloc.restype = ctypes.c_void_p
place = libc.malloc(64)
ctypes.memset(place - 64, 0xFF, 4096)
for size in range(16, 4096, 16): libc.free(ctypes.c_void_p(libc.malloc(size)))
== freed twice | crashes: Aborted
libc.malloc.restype = ctypes.c_void_p
place = ctypes.c_void_p(libc.malloc(64))
for _ in range(9): libc.free(place)
== the stack is taken away | crashes: Segmentation fault
room = ctypes.create_string_buffer(8)
for line in open("/proc/self/maps"):
    if "[stack]" in line:
        start, stop = (int(one, 16) for one in line.split()[0].split("-"))
        libc.munmap(ctypes.c_void_p(start), ctypes.c_size_t(stop - start))
== the C library is taken away | crashes: Segmentation fault
for line in open("/proc/self/maps").readlines():
    if "libc.so" in line and "r-xp" in line:
        start, stop = (int(one, 16) for one in line.split()[0].split("-"))
        libc.munmap(ctypes.c_void_p(start), ctypes.c_size_t(stop - start))
== handlers of signals, in C | timeout
for number in range(1, 65): libc.signal(number, ctypes.c_void_p(1))
while True: pass
== faults are ignored, in C | crashes: Segmentation fault
for number in range(1, 65): libc.signal(number, ctypes.c_void_p(1))
ctypes.string_at(0)
== a name that looks like the state of a process | timeout
libc.prctl(15, b") Z 1 1 1 (", 0, 0, 0)
while True: pass
== not to be looked into | timeout
libc.prctl(4, 0, 0, 0, 0)
while True: pass
== hardly any system calls | traced
refused(libc.prctl(22, 1, 0, 0, 0), "strict mode")
== no time stamps | crashes: Segmentation fault
libc.prctl(26, 2, 0, 0, 0)
time.monotonic()
== its own description in the kernel | traced
refused(libc.prctl(35, 8, ADDRESS, 0, 0), "PR_SET_MM")
== a library that there is not | raises: cannot open shared object
ctypes.CDLL("/nowhere/hostile.so")
== a library of operators that is none | raises
torch.ops.load_library(PROJECT + "/weights.pt")
== a library of its own making | traced
name = tempfile.gettempdir() + "/made.so"
open(name, "wb").write(b"\x7fELF\2\1\1" + bytes(57))
try: ctypes.CDLL(name)
except OSError: pass
== threads of C | traced
kind = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
held = ctypes.c_ulong()
libc.pthread_create(ctypes.byref(held), None, ctypes.cast(libc.pause, ctypes.c_void_p), None)
== vfork | traced
MACHINE
machine("b83a0000000f0585c07407c3" "bf00000000 b8e70000000f05".replace(" ", ""))
"""
    )
)
