"""More memory, files and descriptors than there are."""

from __future__ import annotations

from tests.soak.hostile.case import table

CASES = table(
    r"""
== blocks in a list | raises: emory
[bytearray(1 << 24) for _ in range(4096)]
== blocks in a list, in a run | raises: emory | run
[bytearray(1 << 24) for _ in range(4096)]
== one block of a terabyte | raises: MemoryError
bytes(1 << 40)
== a text that doubles | raises: emory
text = "x"
while len(text) < 1 << 34: text += text
== a dictionary | raises: emory
{number: [number] for number in range(1 << 27)}
== an integer | raises: emory
1 << (1 << 36)
== tensors that are kept | traced
kept = [torch.ones(1 << 22) for _ in range(1000)]
== a tensor of a terabyte | traced
torch.empty(1 << 38)
== tensors that are kept, in a run | traced | run
kept = [torch.ones(1 << 22) for _ in range(1000)]
== malloc in C | raises: LIMIT
libc.malloc.restype = ctypes.c_void_p
for _ in range(200):
    place = libc.malloc(ctypes.c_size_t(1 << 24))
    if not place: raise MemoryError("LIMIT")
    ctypes.memset(place, 1, 1 << 24)
leak("3 GiB of memory")
== sbrk in C | raises: LIMIT
libc.sbrk.restype = ctypes.c_void_p
for _ in range(200):
    if libc.sbrk(ctypes.c_ssize_t(1 << 24)) == ctypes.c_void_p(-1).value: raise MemoryError("LIMIT")
leak("3 GiB of memory")
== shared memory without a name | crashes: more than 512 MiB
room = mmap.mmap(-1, 3 << 30)
for start in range(0, 3 << 30, 4096): room[start] = 1
time.sleep(60)
== shared memory without a name, in a run | crashes: more than 512 MiB | run
room = mmap.mmap(-1, 3 << 30)
for start in range(0, 3 << 30, 4096): room[start] = 1
time.sleep(60)
== stacks of threads | raises: start new thread
threading.stack_size(256 << 20)
for _ in range(64): threading.Thread(target=time.sleep, args=(600,)).start()
leak("16 GiB of stacks")
== memory of many processes | crashes: more than 512 MiB
for _ in range(8):
    if libc.fork() == 0:
        room = b"x" * (300 << 20)
        time.sleep(60)
time.sleep(60)
== one large file | raises: File too large
with open(tempfile.mkstemp()[1], "wb") as file:
    file.seek(511 << 20)
    for _ in range(1024): file.write(bytes(1 << 20)); file.flush()
leak("a file of a gigabyte")
== one large file, in a run | raises: File too large | run
with open(tempfile.mkstemp()[1], "wb") as file:
    file.seek(511 << 20)
    for _ in range(1024): file.write(bytes(1 << 20)); file.flush()
leak("a file of a gigabyte")
== many large files | crashes: files of more than 512 MiB
for _ in range(8):
    with open(tempfile.mkstemp()[1], "wb") as file: file.write(bytes(200 << 20))
time.sleep(60)
== a file that is removed while it grows | crashes: files of more than 512 MiB
kept = []
for _ in range(6):
    kept.append(tempfile.TemporaryFile())
    kept[-1].write(bytes(200 << 20)); kept[-1].flush()
time.sleep(60)
== a sparse file | raises: File too large
os.truncate(tempfile.mkstemp()[1], 1 << 40)
== allocated in advance, in C | raises: LIMIT
handle, name = tempfile.mkstemp()
if syscall("fallocate", handle, 0, 0, 4 << 30) == -1: raise OSError("LIMIT")
leak("a file of 4 GiB")
== a limit of its own on files | raises: not allowed to raise
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))
== a limit of its own on memory | raises: not allowed to raise
resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, 1 << 40))
== the hard limit on memory | crashes: more than 512 MiB
hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
[bytearray(1 << 24) for _ in range(4096)]
== /dev/shm is filled | raises: No space left
with open("/dev/shm/" + TAG, "wb") as file:
    for _ in range(500): file.write(bytes(1 << 20))
with open("/dev/shm/" + TAG + "2", "wb") as file:
    for _ in range(500): file.write(bytes(1 << 20))
leak("a gigabyte of /dev/shm")
== a file in memory | refused: Operation not permitted
os.memfd_create("x")
== System V shared memory | traced
refused(libc.shmget(0, 1 << 30, 0o1600), "shmget")
== thousands of small files | traced
for number in range(5000): open(f"{tempfile.gettempdir()}/{number}", "w").close()
== pipes with large buffers | traced
import fcntl
kept = []
for _ in range(400):
    come, go = os.pipe()
    try: fcntl.fcntl(go, 1031, 1 << 20)
    except OSError: pass
    kept.append((come, go))
== a message of many megabytes | raises: xxxx
raise ValueError("x" * (32 << 20))
== a bomb of zlib | raises: emory
import zlib
packed = zlib.compress(bytes(1 << 28), 9)
[zlib.decompress(packed) for _ in range(16)]
== garbage that is never collected | raises: emory
gc.disable()
while True:
    held = [bytearray(1 << 22)]
    held.append(held)
== locked memory | raises: LIMIT
if libc.mlockall(3) == -1: raise OSError("LIMIT")
[bytearray(1 << 24) for _ in range(4096)]
"""
)
