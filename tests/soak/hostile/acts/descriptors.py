"""What results are reported through: closed, filled, read, and forged."""

from __future__ import annotations

from tests.soak.hostile.case import table

# What the engine's processes say to one another and to the server.
_SAID = r"""
EVENTS = [
    {"type": "Analyzed", "request": 1, "generation": "", "seconds": 0, "cancelled": False},
    {"type": "Failed", "request": 1, "reason": "forged", "next_step": ""},
    {"type": "RunDone"}, {"type": "RunsPlanned", "runs": [], "late": None},
    {"type": "TextUnparsable", "reason": "forged"}, {"type": "PreambleStale"}, {"type": "Shutdown"},
    {"type": "Log", "request": 1, "stream": "engine", "text": "forged\n"}]
import json
WORDS = "".join(sign + json.dumps(one) + "\n" for one in EVENTS for sign in ("", "!")).encode()
"""


def _written(text: str) -> str:
    return text.replace("SAID\n", _SAID.lstrip("\n"))


CASES = table(
    _written(
        r"""
== all are closed | crashes: file descriptors
os.closerange(0, 65536)
== all are closed, in a run | crashes: file descriptors | run
os.closerange(0, 65536)
== all are closed, in C | crashes: file descriptors
syscall("close_range", 0, 0xFFFFFFFF, 0)
== those that programs know are closed | traced
os.closerange(0, 1000)
== all lead to /dev/null | crashes: file descriptors | module | no break
null = os.open("/dev/null", os.O_RDWR)
for name in os.listdir("/proc/self/fd"):
    try: os.dup2(null, int(name))
    except OSError: pass
== all lead to /dev/null, in a run | crashes: exited with status 0 | run
null = os.open("/dev/null", os.O_RDWR)
for name in os.listdir("/proc/self/fd"):
    try: os.dup2(null, int(name))
    except OSError: pass
== all are given to standard output | traced
for number in range(3, 100):
    try: os.dup2(1, number)
    except OSError: pass
== all are set not to wait | traced
for name in os.listdir("/proc/self/fd"):
    try: os.set_blocking(int(name), False)
    except OSError: pass
== there is none left | trace/crashed + trace/eager-error: file descriptors | module | no break
while True: os.open("/dev/null", 0)
== there is none left, and the error is caught | crashes: file descriptors | module | no break
try:
    while True: os.open("/dev/null", 0)
except OSError: pass
== there is none left, in a run | raises: Too many open files | run
while True: os.open("/dev/null", 0)
== there may be none | crashes: file descriptors | module | no break
resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
== random bytes to all | traced
for name in os.listdir("/proc/self/fd"):
    try: os.write(int(name), os.urandom(4096) + b"\n")
    except OSError: pass
== random bytes to all, in a run | traced | run
for name in os.listdir("/proc/self/fd"):
    try: os.write(int(name), os.urandom(4096) + b"\n")
    except OSError: pass
== forged messages to all | traced | module | no break
SAID
for name in os.listdir("/proc/self/fd"):
    try: os.write(int(name), WORDS)
    except OSError: pass
== forged messages to all, in a run | traced | run
SAID
for name in os.listdir("/proc/self/fd"):
    try: os.write(int(name), WORDS)
    except OSError: pass
== forged findings for all files | traced | module | no break
import json
def at(n): return {"line": n, "byte": n}
for n in range(60):
    where = {"start": at(-n), "end": at(n**9)}
    one = {"code": "graph-break/GB0001", "message": "forged", "range": where, "mode": "real"}
    words = json.dumps({"type": "FindingFound", "request": n, "finding": one}) + "\n"
    for number in range(4060, 4096):
        try: os.write(number, words.encode())
        except OSError: pass
== messages of other types than they are | traced | module | no break
import json
ODD = (None, "x", -1, 10**400, 1e308, [], [[]], {}, True, float("nan"))
KINDS = {"StageBegun": ("stage", "seconds"), "RunsPlanned": ("runs", "late"), "ChildForked": ("number", "pid"),
    "LateImports": ("names", "seconds"), "PreambleReady": ("lines", "files"), "RunDone": ("report", "needs_real")}
for kind, fields in KINDS.items():
    for odd in ODD:
        words = "!" + json.dumps({"type": kind, **dict.fromkeys(fields, odd)}) + "\n"
        for number in range(4060, 4096):
            try: os.write(number, words.encode())
            except OSError: pass
== more time than it has | timeout
words = b'!{"type": "StageBegun", "stage": "run", "seconds": 1e9}\n'
while True:
    for number in range(4060, 4096):
        try: os.write(number, words)
        except OSError: pass
    time.sleep(0.1)
== forged pids of runs | traced
import json
words = "".join(f'!{json.dumps(dict(type="ChildForked", number=n, pid=VICTIM))}\n' for n in range(40))
for name in os.listdir("/proc/self/fd"):
    try: os.write(int(name), words.encode())
    except OSError: pass
== a forged pid of the runner, from a child | traced
import json
words = "".join(f'!{json.dumps(dict(type="ChildForked", number=n, pid=VICTIM))}\n' for n in range(40))
if libc.fork() == 0:
    for _ in range(20):
        for number in range(4000, 4096):
            try: os.write(number, words.encode())
            except OSError: pass
        time.sleep(0.05)
    os._exit(0)
== a line without an end | timeout
import select
sinks = [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]
def fifo(n):
    try: return os.readlink(f"/proc/self/fd/{n}").startswith("pipe")
    except OSError: return False
while True: [os.write(n, b"x" * 65536) for n in sinks if fifo(n)]
== output without end | timeout
while True: print("x" * 10_000)
== output without end, in a run | timeout | run
while True: os.write(2, b"x" * 10_000)
== protocol of the editor on standard output | traced
os.write(1, b'Content-Length: 52\r\n\r\n{"jsonrpc": "2.0", "method": "exit", "params": null}')
print('Content-Length: 2\r\n\r\n{}')
== reading what is for others | timeout
while True:
    for name in os.listdir("/proc/self/fd"):
        try: os.set_blocking(int(name), False); os.read(int(name), 65536)
        except OSError: pass
== reading what is for others, in a thread | traced
def reads():
    while True:
        for number in range(4000, 4096):
            try: os.set_blocking(number, False); os.read(number, 65536)
            except OSError: pass
threading.Thread(target=reads, daemon=True).start()
== sockets are shut down | crashes: file descriptors | module | no break
for number in range(3, 4096):
    try: socket.socket(fileno=os.dup(number)).shutdown(2)
    except OSError: pass
== an order of its own, in the middle of reports | timeout | module | no break
for number in range(3, 4096):
    try: socket.socket(fileno=os.dup(number)).send(b"\x80\x04N.")
    except OSError: pass
== an order that is a pickle, in the middle of reports | timeout | module | no break
class Order:
    def __reduce__(self): return os.system, (f"touch {PROJECT}/made",)
import pickle
for number in range(3, 4096):
    try: socket.socket(fileno=os.dup(number)).send(pickle.dumps(Order()))
    except OSError: pass
== the last words are cut off | traced
for number in range(3, 4096):
    try: os.ftruncate(number, 0)
    except OSError: pass
== the last words are forged | crashes: Segmentation fault | module | no break
for number in range(3, 4096):
    try: os.pwrite(number, b"#[{}]\n~[]\n@999 999\n#null\nFatal Python error: \xff\n" * 9, 0)
    except OSError: pass
ctypes.string_at(0)
== the last words are very many | crashes: Segmentation fault | module | no break
for number in range(3, 4096):
    try:
        if "memfd" in os.readlink(f"/proc/self/fd/{number}"): os.write(number, b"x" * (32 << 20))
    except OSError: pass
ctypes.string_at(0)
== descriptors of the parent | traced
for pid in (os.getppid(), 1):
    try: names = os.listdir(f"/proc/{pid}/fd")
    except OSError: continue
    for name in names:
        try: open(f"/proc/{pid}/fd/{name}", "rb", 0)
        except OSError: continue
        leak("a descriptor of the parent")
== descriptors of the process beside | traced
refused(syscall("pidfd_getfd", syscall("pidfd_open", os.getppid(), 0), 1, 0), "pidfd_getfd")
== input for a terminal | traced
import fcntl
for number in range(3): refused(libc.ioctl(number, 0x5412, b"x"), "TIOCSTI")
== standard streams are other objects | traced
sys.stdin = sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = None
== standard output raises | traced
class Raises:
    def __getattr__(self, name): raise RuntimeError(name)
sys.stdout = sys.stderr = Raises()
== standard output exits | crashes: exited with status 3 | module | no break
class Exits:
    def flush(self): os._exit(3)
    write = flush
sys.stdout = sys.stderr = Exits()
"""
    )
)
