"""Files and the environment: writing, removing, renaming, and reading what is secret."""

from __future__ import annotations

from tests.soak.hostile.case import table

CASES = table(
    r"""
== writing in the project | refused: does not let this code change files
open(PROJECT + "/weights.pt", "w")
== writing in the project, in a run | refused: does not let this code change files | run
open(PROJECT + "/weights.pt", "w")
== appending in the home folder | refused: does not let this code change files
open(os.path.expanduser("~/.bashrc"), "a")
== a key for ssh | refused: does not let this code change files
import pathlib
pathlib.Path.home().joinpath(".ssh/authorized_keys").write_text("key")
== its own text | refused: does not let this code change files
open(__file__, "w")
== the engine's own text | refused: does not let this code change files
import fullgraph_engine
open(fullgraph_engine.__file__, "a")
== emptying without opening for writing | refused: does not let this code change files
os.open(PROJECT + "/weights.pt", os.O_RDONLY | os.O_TRUNC)
== removing | refused: does not let this code change files
os.remove(PROJECT + "/weights.pt")
== removing a tree | refused: does not let this code change files
import shutil
shutil.rmtree(HOME)
== removing a tree, whatever is said, in a run | traced | run
import shutil
shutil.rmtree(PROJECT, ignore_errors=True)
== removing all that there is, in C | traced
for place in (PROJECT, HOME, TMP, SHM):
    for folder, _, names in os.walk(place, topdown=False):
        for name in names: libc.unlink(f"{folder}/{name}".encode())
        libc.rmdir(folder.encode())
== a new folder | refused: does not let this code change files
os.makedirs(TMP + "/made/deep")
== a new folder where folders of all users are | refused: does not let this code change files
os.mkdir("/var/tmp/" + TAG)
== renaming | refused: does not let this code change files
os.rename(PROJECT + "/weights.pt", PROJECT + "/gone.pt")
== renaming into the scratch folder | refused: does not let this code change files
os.replace(PROJECT + "/weights.pt", tempfile.gettempdir() + "/weights.pt")
== renaming into the scratch folder, in C | traced
refused(libc.rename((PROJECT + "/weights.pt").encode(), (tempfile.gettempdir() + "/w").encode()))
== a link into the scratch folder | refused: does not let this code change files
os.link(PROJECT + "/weights.pt", tempfile.gettempdir() + "/linked")
== a link into the scratch folder, in C | traced
refused(libc.link((PROJECT + "/weights.pt").encode(), (tempfile.gettempdir() + "/l").encode()))
== through a symbolic link | refused: does not let this code change files
os.symlink(PROJECT + "/weights.pt", tempfile.gettempdir() + "/symbolic")
open(tempfile.gettempdir() + "/symbolic", "w")
== through a symbolic link that is changed in between | traced
name = tempfile.gettempdir() + "/changing"
def changes():
    while True:
        for place in (tempfile.gettempdir() + "/own", PROJECT + "/weights.pt"):
            try: os.unlink(name); os.symlink(place, name)
            except OSError: pass
threading.Thread(target=changes, daemon=True).start()
os.symlink(PROJECT, name)
for _ in range(3000):
    try: open(name, "w").close()
    except OSError: pass
== a path of its own kind | refused: does not let this code change files
class Path(str):
    def __hash__(self): return hash("/dev/null")
    def __eq__(self, other): return True
open(Path(PROJECT + "/weights.pt"), "w")
== a path that is another one when asked again | refused: does not let this code change files
class Path:
    names = [tempfile.gettempdir() + "/x", PROJECT + "/weights.pt"] * 9
    def __fspath__(self): return self.names.pop()
open(Path(), "w")
== relative to a folder | refused: does not let this code change files
os.unlink("weights.pt", dir_fd=os.open(PROJECT, os.O_RDONLY))
== opening relative to a folder | refused: does not let this code change files
folder = os.open(PROJECT, os.O_RDONLY)
os.close(os.open("weights.pt", os.O_WRONLY, dir_fd=folder))
== relative to the folder it works in | refused: does not let this code change files
os.chdir(PROJECT)
open("weights.pt", "w")
== a file without a name | refused: does not let this code change files
os.open(PROJECT, os.O_TMPFILE | os.O_RDWR)
== a fifo | refused: Read-only file system
os.mkfifo(PROJECT + "/fifo")
== a device | refused: Read-only file system
os.mknod(PROJECT + "/disk", 0o60600, os.makedev(254, 0))
== the disk | refused: does not let this code change files
for name in os.listdir("/dev"):
    if name.startswith(("vd", "sd", "nvme", "loop")): open("/dev/" + name, "r+b", 0)
open("/dev/sda", "r+b", 0)
== the memory of the machine | refused: does not let this code change files
open("/dev/mem", "r+b", 0)
== a terminal | refused: does not let this code change files
open("/dev/tty", "w")
== modes | refused: does not let this code change files
os.chmod(PROJECT + "/weights.pt", 0o777)
== modes through a descriptor | refused: does not let this code change files
os.fchmod(os.open(PROJECT + "/weights.pt", os.O_RDONLY), 0o777)
== modes, in C | traced
refused(libc.chmod((PROJECT + "/weights.pt").encode(), 0o777), "chmod")
== modes through /proc, in C | traced
handle = os.open(PROJECT + "/weights.pt", os.O_RDONLY)
refused(libc.chmod(f"/proc/self/fd/{handle}".encode(), 0o777), "chmod")
== owners | refused: does not let this code change files
os.chown(PROJECT + "/weights.pt", 65534, 65534)
== owners, in C | traced
refused(libc.chown((PROJECT + "/weights.pt").encode(), os.getuid(), os.getgid()), "chown")
== times | refused: does not let this code change files
os.utime(PROJECT + "/weights.pt")
== times, in C | traced
refused(libc.utimes((PROJECT + "/weights.pt").encode(), None), "utimes")
== times of a folder, by a new version of a call | traced
refused(syscall("utimensat", -100, PROJECT.encode(), 0, 0), "utimensat")
== attributes | refused: does not let this code change files
os.setxattr(PROJECT + "/notes.txt", "user.kept", b"changed")
== attributes, in C | traced
refused(libc.setxattr((PROJECT + "/notes.txt").encode(), b"user.kept", b"x", 1, 0), "setxattr")
== attributes are removed, in C | traced
refused(libc.removexattr((PROJECT + "/notes.txt").encode(), b"user.kept"), "removexattr")
== flags of a file | traced
handle = os.open(PROJECT + "/weights.pt", os.O_RDONLY)
refused(libc.ioctl(handle, 0x40086602, ctypes.byref(ctypes.c_long(0x80))), "FS_IOC_SETFLAGS")
== shared memory of others | raises: No such file
open("/dev/shm/" + TAG + "-canary/weights.pt", "r+")
== what is left in shared memory | traced
open("/dev/shm/" + TAG + "-left", "w").write("left")
== torch.save | refused: does not let this code change files
torch.save({}, PROJECT + "/weights.pt")
== torch.save, in a run | refused: does not let this code change files | run
torch.save({}, PROJECT + "/weights.pt")
== torch.jit.save | refused
torch.jit.save(torch.jit.script(nn.Linear(1, 1)), PROJECT + "/weights.pt")
== a profile | traced
with torch.profiler.profile() as seen: torch.ones(1)
seen.export_chrome_trace(PROJECT + "/weights.pt")
== storage of a tensor in a file | refused
torch.from_file(PROJECT + "/weights.pt", shared=True, size=64).fill_(1)
== a database | raises: unable to open database
import sqlite3
sqlite3.connect(PROJECT + "/made.db").execute("create table made (x)")
== logging to a file | refused: does not let this code change files
import logging
logging.basicConfig(filename=PROJECT + "/made.log")
== compiled files beside a module | traced
sys.dont_write_bytecode = False
sys.path.insert(0, PROJECT + "/deep"); sys.pycache_prefix = None
import module
== compiled files by request | refused: does not let this code change files
import py_compile
py_compile.compile(PROJECT + "/deep/module.py", doraise=True)
== NumPy | refused: does not let this code change files
import numpy
numpy.memmap(PROJECT + "/weights.pt", mode="r+")[:] = 0
== mapped for writing after reading | raises: Permission denied
handle = os.open(PROJECT + "/weights.pt", os.O_RDONLY)
mmap.mmap(handle, 0, mmap.MAP_SHARED, mmap.PROT_WRITE)[0] = 1
== opened again through /proc for writing | refused: does not let this code change files
handle = os.open(PROJECT + "/weights.pt", os.O_RDONLY)
os.open(f"/proc/self/fd/{handle}", os.O_WRONLY)
== through the root of another process | traced
for pid in (os.getppid(), 1):
    refused(libc.open(f"/proc/{pid}/root{PROJECT}/weights.pt".encode(), 1), "another root")
== settings of the kernel | refused: does not let this code change files
open("/proc/sys/kernel/core_pattern", "r+").write("core")
== settings of the kernel, in C | traced
refused(libc.open(b"/proc/sys/kernel/core_pattern", 1), "core_pattern")
== settings of devices, in C | traced
refused(libc.open(b"/sys/power/state", 1), "/sys/power/state")
== who is ended when memory runs out | refused: does not let this code change files
open("/proc/self/oom_score_adj", "w").write("1000")
== a group of processes of its own | traced
for place in ("/sys/fs/cgroup", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified"):
    refused(libc.mkdir(f"{place}/{TAG}".encode(), 0o755), "a control group")
== secrets of the environment | traced
for name in ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL"):
    if os.environ.get(name): leak(name)
== secrets of the environment, in a run | traced | run
if "".join(SECRET) in str(dict(os.environ)): leak("a secret")
== secrets of the environment, from /proc | traced
for place in os.listdir("/proc"):
    try: seen = open(f"/proc/{place}/environ", "rb").read()
    except OSError: continue
    if "".join(SECRET).encode() in seen: leak(f"a secret of {place}")
== secrets of command lines | traced
for place in os.listdir("/proc"):
    try: seen = open(f"/proc/{place}/cmdline", "rb").read()
    except OSError: continue
    if "".join(SECRET).encode() in seen: leak(f"a secret of {place}")
== secrets in its own memory | traced
import re
wanted = re.compile(SECRET[0].encode() + b"(?=" + SECRET[1].encode() + b")")
for place, mode, *_ in [line.split() for line in open("/proc/self/maps")]:
    start, stop = (int(one, 16) for one in place.split("-"))
    if mode[:2] == "rw" and stop - start < 1 << 29:
        if found := wanted.search(ctypes.string_at(start, stop - start)): leak(f"a secret in {place}")
== secrets in objects of Python | traced
gc.unfreeze()
wanted = "".join(SECRET)
for held in gc.get_objects():
    if type(held) is dict and held is not locals():
        for name, value in list(held.items()):
            if type(value) in (str, bytes) and value in (wanted, wanted.encode()) and name != "wanted": leak(f"a secret: {name}")
"""
)
