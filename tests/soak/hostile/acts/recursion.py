"""Calls that go too deep, in Python, in C and in the parser."""

from __future__ import annotations

from tests.soak.hostile.case import table

CASES = table(
    r"""
== a function | raises: RecursionError
def deep(): deep()
deep()
== a function, in a run | raises: RecursionError | run
def deep(): deep()
deep()
== without a limit | crashes: Segmentation fault
sys.setrecursionlimit(10**9)
class Deep:
    def __getattr__(self, name): return getattr(self, name + "x")
Deep().x
== without a limit, in a run | crashes: Segmentation fault | run
sys.setrecursionlimit(10**9)
class Deep:
    def __eq__(self, other): return [self] == [other]
Deep() == Deep()
== functions that call each other | raises: RecursionError
def even(n): return odd(n - 1)
def odd(n): return even(n - 1)
even(1)
== a limit that is lower than the stack | raises: recursion limit
sys.setrecursionlimit(1)
== hardly any stack left for anyone | trace/compile-error: RecursionError | no break
sys.setrecursionlimit(60)
== the representation of an error | raises: Deep
class Deep(Exception):
    def __str__(self): return str(self)
raise Deep
== an attribute | raises: RecursionError
class Deep:
    def __getattr__(self, name): return self.x
Deep().x
== a hash | raises: RecursionError
class Deep:
    def __hash__(self): return hash((self,))
{Deep(): 1}
== a list in a list | raises: RecursionError
held = []
for _ in range(200_000): held = [held]
repr(held)
== parentheses in eval | raises: too many nested parentheses
eval("(" * 10_000 + ")" * 10_000)
== a long sum in compile | raises: RecursionError
compile("+".join("x" * 200_000), "sum", "eval")
== JSON | raises: RecursionError
import json
json.loads("[" * 200_000)
== pickle | raises: RecursionError
import pickle
held = None
for _ in range(200_000): held = (held,)
pickle.dumps(held)
== copying | raises: RecursionError
import copy
held = []
for _ in range(20_000): held = [held]
copy.deepcopy(held)
== a regular expression | raises: RecursionError
import re
re.compile("(" * 20_000 + ")" * 20_000)
== generators in generators | raises: RecursionError
def deep(): yield from deep()
next(deep())
== subclasses of subclasses | raises: RecursionError
class Deep:
    def __init_subclass__(cls): type("Deeper", (cls,), {})
class Deeper(Deep): pass
== a module that holds itself | raises: RecursionError
net = nn.Sequential()
net.child = net
net.apply(lambda one: one)
== a tensor that asks itself | raises: RecursionError
class Deep(torch.Tensor):
    @classmethod
    def __torch_function__(cls, call, types, given=(), named=None): return call(*given)
Deep([1.0]).add(1)
== a callback of C, whose error is only printed | traced
kind = ctypes.CFUNCTYPE(ctypes.c_int)
def deep(): return call()
call = kind(deep)
call()
== a stack that is used up in C | crashes: Segmentation fault
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex("4881ec00001000 c7042400000000 ebf0"))
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
== a function that Dynamo inlines into itself | raises: RecursionError | file | no break
import torch


def deep(x):
    return deep(x + 1)


# fullgraph: f32[4]
def hostile(x):
    return deep(x)
== a module whose forward calls itself | raises: RecursionError | file | no break
import torch
from torch import nn


class Deep(nn.Module):
    def forward(self, x: "f32[2]"):
        return self(x + 1)
"""
)
