"""One hostile file: what it does, and what a user is to be told of it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from typing import Literal

Place = Literal["module", "run", "file"]


@dataclass(frozen=True)
class Expected:
    """The codes of all findings of the families ``trace`` and ``probe``, and words of one."""

    codes: frozenset[str]
    words: str = ""


_CODES = {
    "traced": "",
    "timeout": "trace/timeout",
    "refused": "trace/sandboxed",
    "raises": "trace/eager-error",
    "crashes": "trace/crashed",
}


@dataclass(frozen=True)
class Case:
    """``text`` is the body of a function that the module calls, or a target in a run, or is a
    whole file."""

    name: str
    text: str
    expected: Expected
    place: Place = "module"
    breaks: bool = True
    """Whether the graph break of the file's own class is found, in spite of it all."""

    def with_text(self, text: str) -> Case:
        return replace(self, text=text)

    def source(self, beginning: str) -> str:
        """The file. ``beginning`` binds the names that ``text`` uses."""
        if self.place == "file":
            return self.text
        body = textwrap.indent(self.text.strip("\n"), "    ")
        return f"{BEGINNING}{beginning}\n\n{_ENDS[self.place].format(body=body)}{_NET}"


def table(text: str) -> tuple[Case, ...]:
    """Cases from lines ``== name | expected: words | place | no break``, each before its text.

    The last two may be left out. ``expected`` is of ``_CODES``, or whole codes, ``one + other``.
    """
    found = []
    for part in ("\n" + text).split("\n== ")[1:]:
        head, _, body = part.partition("\n")
        name, told, *options = head.split(" | ")
        kinds, _, words = told.partition(": ")
        codes = {_CODES.get(kind, kind) for kind in kinds.split(" + ")} - {""}
        expected = Expected(frozenset(codes), words)
        place: Place = "run" if "run" in options else "file" if "file" in options else "module"
        found.append(Case(name, body, expected, place, "no break" not in options))
    return tuple(found)


BEGINNING = """\
import ctypes, gc, itertools, mmap, os, resource, signal, socket, subprocess, sys, tempfile
import threading, time
import torch
from torch import nn

libc = ctypes.CDLL(None, use_errno=True)


def leak(what):
    raise RuntimeError("LEAK: " + what)


def refused(result, what="it"):
    if result is not None and result >= 0:
        leak(f"{what} gave {result}")


def fork_daemon(name=None):
    \"""A process that has left its session and its parent; returns once it is there.\"""
    come, go = os.pipe()
    if libc.fork() == 0:
        os.setsid()
        if libc.fork() == 0:
            os.setsid()
            libc.prctl(1, 0, 0, 0, 0)
            libc.prctl(15, (name or DAEMON).encode(), 0, 0, 0)
            signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))
            os.write(go, b"!")
            os.closerange(0, 65536)
            while True:
                time.sleep(600)
        os._exit(0)
    os.close(go)
    os.read(come, 1)


def syscall(name, *arguments):
    \"""What a system call returns, past libc.\"""
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return libc.syscall(ctypes.c_long(NUMBERS[name]), *given)


"""

_ENDS = {
    "module": "def act():\n{body}\n\n\nact()\n\n\n",
    "run": (
        "@torch.compiler.disable\ndef act():\n{body}\n\n\n"
        "# fullgraph: f32[4]\ndef hostile(x):\n    act()\n    return x + 1\n\n\n"
    ),
}

_NET = """\
class Net(nn.Module):
    def forward(self, x: "f32[2, 3]"):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1
"""
NET_BREAK = "graph-break/GB0025"
