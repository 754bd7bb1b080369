"""Objects that are not what they seem, and texts that are hard to read."""

from __future__ import annotations

from tests.soak.hostile.case import table

CASES = table(
    r"""
== a representation that raises | raises: Evil
class Evil(Exception):
    def __str__(self): raise RuntimeError("no words")
    __repr__ = __str__
raise Evil
== a representation that loops | timeout
class Evil(Exception):
    def __str__(self):
        while True: pass
raise Evil
== a representation that ends the process | crashes: exited with status 3
class Evil(Exception):
    def __str__(self): os._exit(3)
raise Evil
== a representation that ends the process, in a run | crashes: exited with status 3 | run
class Evil(Exception):
    def __str__(self): os._exit(3)
raise Evil
== a representation that is no text | raises: Evil
class Evil(Exception):
    def __str__(self): return 3
raise Evil
== a class that lies | raises: Evil
class Evil(Exception):
    __class__ = property(lambda self: KeyboardInterrupt)
raise Evil("lies")
== a name that is no name | raises: a
raise type("a\nb\0c" + "d" * 10_000, (Exception,), {})
== escapes of terminals | raises: before
raise ValueError("before \x1b[2J\x1b]0;title\x07 \r\n\n\t \u202e \ud800 after")
== words of a refusal | refused: does not let this code change files
raise ValueError("fullgraph's sandbox does not let this code change files")
== a cause that is its own cause | raises: first
first, second = ValueError("first"), ValueError("second")
first.__cause__, second.__cause__ = second, first
raise first
== a traceback without an end | raises: again
def again(n):
    if n: return again(n - 1)
    raise ValueError("again")
again(900)
== a group of errors | raises: many
raise ExceptionGroup("many", [ValueError(str(n)) for n in range(1000)])
== values of the module that raise | traced
class Evil:
    def __getattribute__(self, name): raise RuntimeError(name)
    def __eq__(self, other): raise RuntimeError("eq")
    def __bool__(self): raise RuntimeError("bool")
globals().update({f"evil{n}": Evil() for n in range(20)})
== a metaclass that raises | traced
class Meta(type):
    def __instancecheck__(self, other): raise RuntimeError("instance")
    def __subclasscheck__(self, other): raise RuntimeError("subclass")
    def __getattr__(self, name): raise RuntimeError(name)
global Evil
class Evil(metaclass=Meta): pass
== names that are no names | traced
globals().update({"a b": 1, "": 2, "\ud800": 3, "\0": 4, 5: 6, None: 7})
== a module that answers to every name | traced
global __getattr__
def __getattr__(name): raise RuntimeError(name)
== the name and the file of the module | trace/compile-error: startswith | module | no break
global __name__, __file__, __spec__, __loader__
__name__ = __file__ = __spec__ = __loader__ = object()
== a file of another name | traced
global __file__
__file__ = PROJECT + "/notes.txt"
== an annotation that is executed | traced
class Evil(nn.Module):
    def forward(self, x: leak): return x
Evil.forward.__annotations__["x"] = "__import__('os').system('touch ' + PROJECT + '/made')"
globals()["Evil"] = Evil
== a pickle | refused: does not let this code start processes
import pickle
class Evil:
    def __reduce__(self): return os.system, (f"touch {PROJECT}/made",)
pickle.loads(pickle.dumps(Evil()))
== a checkpoint | refused: does not let this code start processes
class Evil:
    def __reduce__(self): return os.system, (f"touch {PROJECT}/made",)
import io
held = io.BytesIO(); torch.save(Evil(), held); held.seek(0)
torch.load(held, weights_only=False)
== code out of nothing | crashes: Segmentation fault
import types
code = (lambda: 0).__code__.replace(co_code=b"\xff\x00" * 99, co_stacksize=1)
types.FunctionType(code, {})()
== a constant that is changed in place | traced
ctypes.c_long.from_address(id(7) + 24).value = 7
held = (1, 2, 3); ctypes.c_long.from_address(id(held) + 16).value = 3
== a probe that is no notation | probe/invalid | file | no break
import torch


# fullgraph: __import__("os").system("touch /tmp/made")
def hostile(x):
    return x
== a probe of a terabyte | raises: Storage size calculation overflowed | file | no break
# fullgraph: f32[1099511627776, 1099511627776]
def hostile(x):
    return x + 1
== a probe of a great many parentheses | probe/invalid | file | no break
import torch


# fullgraph: ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((f32[1]
def hostile(x):
    return x + 1
== a block for the main program | traced | file | no break
import shutil

import torch


def hostile(x):
    return x + 1


if __name__ == "__main__":
    shutil.rmtree("kept", ignore_errors=True)
    open("made", "w")
    hostile(torch.ones(3))
== an example in a docstring | traced | file | no break
import torch


class Hostile(torch.nn.Module):
    '''Hostile.

    >>> import os, shutil
    >>> shutil.rmtree(os.getcwd(), ignore_errors=True)
    >>> Hostile()(torch.ones(3))
    '''

    def forward(self, x):
        return x + 1
== a decorator that replaces the target | raises: SystemExit: 3 | file | no break
import sys

import torch


def replaced(f):
    return lambda *a: sys.exit(3)


# fullgraph: f32[4]
@replaced
def hostile(x):
    return x + 1
== a tensor of its own kind | raises: evil | file | no break
import torch


class Evil(torch.Tensor):
    @classmethod
    def __torch_function__(cls, call, types, given=(), named=None):
        raise RuntimeError("evil")


# fullgraph: f32[4]
def hostile(x):
    return torch.add(Evil([1.0]), x)
== a result without an end | trace/incomplete: RecursionError | file | no break
# fullgraph: f32[4]
def hostile(x):
    out = [x]
    out.append(out)
    return out
"""
)

CASES += tuple(
    table(f"== {name} | {expected} | file | no break\n")[0].with_text(text)
    for name, expected, text in (
        ("no text", "traced", ""),
        ("a zero byte", "traced", "x = 1\0\nimport os\n"),
        ("a mark of the byte order", "trace/syntax-error", "\ufeffimport torch\n"),
        ("another encoding than it says", "traced", "# -*- coding: utf-16 -*-\nx = 1\n"),
        ("an encoding that there is not", "traced", "# coding: nonsense\nx = 1\n"),
        ("a surrogate", "traced", "x = '\ud800'\n"),
        ("carriage returns alone", "traced", "import torch\rx = 1\r\r\n\f\nx = 2\n"),
        ("a line of a megabyte", "traced", "x = '" + "x" * (1 << 20) + "'\n"),
        ("a million lines", "trace/too-long", "import torch\n" + "x = 1\n" * 1_000_000),
        ("a thousand functions", "traced", "def f(x): return x\n" * 1000),
        ("parentheses without end", "traced", "x = " + "(" * 5000 + "\n"),
        ("a number of a million digits", "traced", "x = " + "9" * 1_000_000 + "\n"),
        (
            "indented without end",
            "traced",
            "".join(" " * n + "if 1:\n" for n in range(200)),
        ),
        ("letters that look the same", "traced", "def ｏpen(x): return x\nоs = open\n"),
        ("directions of writing", "traced", "x = '\u202e' # \u2066 \u2069\nY = 1\n"),
        ("a text in a text in a text", "traced", "x = f'{f\"{1}\"}'\n" * 99),
    )
)
