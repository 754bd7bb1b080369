"""Code that never comes to an end, in Python and in C."""

from __future__ import annotations

from tests.soak.hostile.case import table

CASES = table(
    r"""
== while | timeout
while True: pass
== while, in a run | timeout | run
while True: pass
== a loop that catches all | timeout
while True:
    try:
        while True: pass
    except BaseException: pass
== a loop that catches all, in a run | timeout | run
while True:
    try:
        while True: pass
    except BaseException: pass
== finally starts over | timeout
def again():
    try: time.sleep(60)
    finally: again()
again()
== itertools in C | timeout
import collections
collections.deque(itertools.repeat(0), maxlen=0)
== sum in C, in a run | timeout | run
sum(itertools.repeat(0))
== a regular expression | timeout
import re
re.match(r'(a+)+$', 'a' * 50 + 'b')
== a power of integers | timeout
9 ** 9 ** 9
== sleep | timeout
time.sleep(600)
== sleep with all signals blocked | timeout
signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))
time.sleep(600)
== sleep with all signals blocked, in a run | timeout | run
signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))
time.sleep(600)
== a lock that is held | timeout
lock = threading.Lock()
lock.acquire()
lock.acquire()
== an empty queue | timeout | run
import queue
queue.Queue().get()
== an empty pipe | timeout
os.read(os.pipe()[0], 1)
== select on nothing | timeout
import select
select.select([], [], [])
== a fifo that nobody writes | timeout
os.mkfifo(tempfile.gettempdir() + '/fifo')
open(tempfile.gettempdir() + '/fifo')
== a file lock that the runner holds | timeout
import fcntl
fcntl.flock(open(LOCKED), fcntl.LOCK_EX)
== an event loop | timeout
import asyncio
asyncio.run(asyncio.Event().wait())
== asyncio, swallowing its end | timeout
import asyncio
async def deaf():
    while True:
        try: await asyncio.sleep(60)
        except BaseException: pass
asyncio.run(deaf())
== a generator that refuses to close | timeout
def deaf():
    while True:
        try: yield
        except GeneratorExit: pass
it = deaf(); next(it)
for _ in it: pass
== a finalizer | timeout
class Loops:
    def __del__(self):
        while True: pass
Loops()
== the body of a class | timeout
class Loops:
    while True: pass
== a metaclass | timeout
class Meta(type):
    def __prepare__(*a):
        while True: pass
class Loops(metaclass=Meta): pass
== an import hook | timeout
class Hook:
    def find_spec(*a):
        while True: pass
sys.meta_path.insert(0, Hook())
import never_there
== the profiler | timeout
def loops(*a):
    while True: pass
sys.setprofile(loops)
len('')
== a signal handler that re-arms itself | timeout
def again(*a): signal.setitimer(signal.ITIMER_REAL, 0.001)
signal.signal(signal.SIGALRM, again)
again()
while True: time.sleep(1)
== ignoring the engine's signal | timeout | run
signal.signal(signal.SIGRTMAX - 5, signal.SIG_IGN)
while True: pass
== pause in C | timeout
libc.pause()
== pause in C, again and again, in a run | timeout | run
while True: libc.pause()
== joining a thread that loops | timeout
def loops():
    while True: pass
thread = threading.Thread(target=loops)
thread.start()
thread.join()
== a loop that Dynamo unrolls | timeout | file | no break
import torch


# fullgraph: f32[4]
def hostile(x):
    while True:
        x = x + 1
    return x
== a constructor | timeout | file | no break
import torch
from torch import nn


class Loops(nn.Module):
    def __init__(self):
        super().__init__()
        while True:
            pass

    def forward(self, x: "f32[2]"):
        return x
== get_inputs | timeout | file | no break
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x


def get_inputs():
    while True:
        pass
== waiting for children | raises: ChildProcessError
os.wait()
== input | raises: EOFError
input()
"""
)
