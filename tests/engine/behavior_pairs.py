"""Rewrites and whether they behave as the original: those that only look right, and right ones.

``OUTCOME NAME (ASPECT): `` begins a pair; behind ``----`` is the changed text. Both have the same
beginning, and a target that is called ``f`` or ``Net``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BEGINNING = "import logging\nimport random\nimport warnings\nimport torch\nfrom torch import nn\n\n"


@dataclass(frozen=True)
class Pair:
    """``aspect`` is one in which the texts differ, empty if they do not."""

    name: str
    outcome: str
    aspect: str
    original: str
    changed: str

    @property
    def target(self) -> str:
        return "Net" if "class Net" in self.original else "f"


def pairs_of(text: str) -> list[Pair]:
    """The pairs of a text like those below."""
    found = []
    for part in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        match = re.fullmatch(r"(\w+) ([^()]+?)(?: \(([\w-]+)\))?", heading)
        assert match is not None, heading
        outcome, name, aspect = match.groups()
        original, changed = body.split("----\n")
        found.append(Pair(name, outcome, aspect or "", BEGINNING + original, BEGINNING + changed))
    return found


REFUSED = pairs_of(
    """
== differs a clock that is asked less often (state)
import time
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.took = 0.0
    def forward(self, x):
        start = time.perf_counter()
        y = x * 2
        self.took = time.perf_counter() - start
        return y
----
import time
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.took = 0.0
    def forward(self, x):
        y = x * 2
        self.took = 0.0
        return y
== differs the other side of chance (result)
def f(x):  # fullgraph: x=f32[4]
    if random.random() < 0.5:
        return x * 2
    return x + 1
----
def f(x):  # fullgraph: x=f32[4]
    return torch.where(torch.tensor(random.uniform(0.0, 1.0) > 0.5), x * 2, x + 1)
== differs the last result of a loop in place of the first (result)
def f(x):  # fullgraph: x=f32[4]
    for scale in (1.0, 2.0, 4.0):
        y = x * scale
        if y.sum() > 1.0:
            return y
    return x
----
def f(x):  # fullgraph: x=f32[4]
    returned = []
    for scale in (1.0, 2.0, 4.0):
        y = x * scale
        returned.append((y.sum() > 1.0, y))
    result = x
    for condition, value in returned:
        result = torch.where(condition, value, result)
    return result
== differs a dictionary with one entry of the other side (result)
def f(x):  # fullgraph: x=f32[4]
    if x.sum() > 0:
        return {"y": x * 2, "z": x + 1}
    return {"y": x - 1, "z": x}
----
def f(x):  # fullgraph: x=f32[4]
    condition = x.sum() > 0
    return {"y": torch.where(condition, x * 2, x - 1), "z": torch.where(condition, x, x + 1)}
== differs what is kept has a gradient in one case (gradient)
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.last = None
    def forward(self, x):
        y = self.linear(x)
        if x.sum() > 0:
            self.last = y.detach()
        else:
            self.last = torch.zeros_like(x)
        return y * 2
----
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.last = None
    def forward(self, x):
        y = self.linear(x)
        self.last = torch.where(x.sum() > 0, y, torch.zeros_like(x).detach())
        return y * 2
== differs one input alone is what it raises for (outcome)
def f(x, mask):  # fullgraph: x=f32[4], mask=i64[4]
    if x.sum() == 0:
        raise ValueError("nothing")
    if mask.sum() == 0:
        raise ValueError("no mask")
    return x * mask
----
def f(x, mask):  # fullgraph: x=f32[4], mask=i64[4]
    if x.sum() == 0:
        raise ValueError("nothing")
    return x * mask
== differs gradients that raise in place of none (gradient)
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("no gradient")
def f(x):  # fullgraph: x=f32[4]
    return x.detach() * 2
----
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("no gradient")
def f(x):  # fullgraph: x=f32[4]
    return Twice.apply(x)
== differs a buffer of its own (state-aliasing)
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.register_buffer("plain", torch.ones(3))
        self.register_buffer("used", torch.ones(3))
    def forward(self, x):
        self.used = self.plain
        return x * self.used
----
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.register_buffer("plain", torch.ones(3))
        self.register_buffer("used", torch.ones(3))
    def forward(self, x):
        self.used = self.plain.clone()
        return x * self.used
== differs returns the input itself (aliasing)
def f(x):  # fullgraph: x=f32[4]
    return x.clone()
----
def f(x):  # fullgraph: x=f32[4]
    return x
== differs returns a view (aliasing)
def f(x):  # fullgraph: x=f32[4, 3]
    return x.reshape(-1).clone()
----
def f(x):  # fullgraph: x=f32[4, 3]
    return x.reshape(-1)
== differs two outputs share memory (aliasing)
def f(x):  # fullgraph: x=f32[4]
    y = x + 1
    return y, y.clone()
----
def f(x):  # fullgraph: x=f32[4]
    y = x + 1
    return y, y
== differs returns the buffer itself (aliasing)
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(3))
    def forward(self, x):
        return self.scale.clone(), x
----
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(3))
    def forward(self, x):
        return self.scale, x
== differs in place after the branch (input)
def f(x):  # fullgraph: x=f32[4]
    if x.sum() > 0:
        y = x + 1
    else:
        y = x.clone()
    y.mul_(2)
    return y
----
def f(x):  # fullgraph: x=f32[4]
    y = x + 1 if x.sum() > 0 else x
    y.mul_(2)
    return y
== differs in place in place of out of place (input)
def f(x):  # fullgraph: x=f32[4]
    x = x + 1
    return x * 2
----
def f(x):  # fullgraph: x=f32[4]
    x += 1
    return x * 2
== differs the mutation is lost (input)
def f(x, y):  # fullgraph: x=f32[4], y=f32[4]
    if y.sum() > 0:
        x.add_(1)
    return x * 2
----
def f(x, y):  # fullgraph: x=f32[4], y=f32[4]
    x = torch.where(y.sum() > 0, x + 1, x)
    return x * 2
== differs NaN takes the other side (result)
def f(x):  # fullgraph: x=f32[4]
    if x.max() > 0:
        return x * 2
    return x * 3
----
def f(x):  # fullgraph: x=f32[4]
    return torch.where(x.max() <= 0, x * 3, x * 2)
== differs clamp keeps NaN and max does not (result)
def f(x):  # fullgraph: x=f32[]
    return x if x > 0.0 else torch.zeros(())
----
def f(x):  # fullgraph: x=f32[]
    return torch.clamp(x, min=0.0)
== differs empty tensors (outcome)
def f(x):  # fullgraph: x=f32[b=4, 3]
    if x.shape[0] == 0:
        return torch.zeros(3)
    return x.max(dim=0).values
----
def f(x):  # fullgraph: x=f32[b=4, 3]
    return x.max(dim=0).values
== differs an error for empty tensors is lost (outcome)
def f(x):  # fullgraph: x=f32[b=4, 3]
    if x.numel() == 0:
        raise ValueError("nothing to do")
    return x.sum(0)
----
def f(x):  # fullgraph: x=f32[b=4, 3]
    return x.sum(0)
== differs an int becomes a float (result)
def f(x):  # fullgraph: x=i64[4]
    return x * x.sum().item()
----
def f(x):  # fullgraph: x=i64[4]
    return x * x.sum().float()
== differs a zero-dimensional tensor does not promote as a number (result)
def f(x, s):  # fullgraph: x=i64[4], s=f64[1]
    return (x + s[0].item()).dtype, x + s[0].item()
----
def f(x, s):  # fullgraph: x=i64[4], s=f64[1]
    return (x + s[0]).dtype, x + s[0]
== differs half precision accumulates (result)
def f(x):  # fullgraph: x=f16[64]
    return x * x.float().sum().item()
----
def f(x):  # fullgraph: x=f16[64]
    return x * x.float().sum()[None]
== differs floor in place of truncation (result)
def f(x):  # fullgraph: x=f32[4]
    return x.div(2.0, rounding_mode="trunc")
----
def f(x):  # fullgraph: x=f32[4]
    return x // 2.0
== differs a Python division is exact (result)
def f(x):  # fullgraph: x=i64[4]
    return x.sum() / 2
----
def f(x):  # fullgraph: x=i64[4]
    return x.sum() // 2
== differs random numbers are drawn on both sides (random)
def f(x):  # fullgraph: x=f32[4]
    if x.sum() > 0:
        return x + torch.rand(4)
    return x
----
def f(x):  # fullgraph: x=f32[4]
    return torch.where(x.sum() > 0, x + torch.rand(4), x)
== differs Python draws no number any more (random)
def f(x):  # fullgraph: x=f32[4]
    random.random()
    return x + 1
----
def f(x):  # fullgraph: x=f32[4]
    return x + 1
== differs an exception is lost (outcome)
def f(x):  # fullgraph: x=f32[4]
    if (x < 0).all():
        raise ValueError("all negative")
    return x.sqrt()
----
def f(x):  # fullgraph: x=f32[4]
    return x.sqrt()
== differs another type of exception (outcome)
def f(x):  # fullgraph: x=f32[4]
    if (x < 0).all():
        raise ValueError("all negative")
    return x.sqrt()
----
def f(x):  # fullgraph: x=f32[4]
    assert not (x < 0).all(), "all negative"
    return x.sqrt()
== differs another message (outcome)
def f(x):  # fullgraph: x=f32[4]
    if (x < 0).all():
        raise ValueError("all negative")
    return x.sqrt()
----
def f(x):  # fullgraph: x=f32[4]
    if (x < 0).all():
        raise ValueError("negative")
    return x.sqrt()
== differs NaN passes a check (outcome)
def f(x):  # fullgraph: x=f32[4]
    if not (x > -100.0).all():
        raise ValueError("out of range")
    return x + 1
----
def f(x):  # fullgraph: x=f32[4]
    if (x <= -100.0).any():
        raise ValueError("out of range")
    return x + 1
== differs an index out of range is clamped (outcome)
def f(i):  # fullgraph: i=i64[3]
    table = torch.arange(2.0)
    return table[i]
----
def f(i):  # fullgraph: i=i64[3]
    table = torch.arange(2.0)
    return table[i.clamp(max=1)]
== differs a counter of the untaken side (state)
class Net(nn.Module):  # fullgraph: forward(f32[4])
    def __init__(self):
        super().__init__()
        self.count = 0
    def forward(self, x):
        if x.sum() > 0:
            self.count += 1
            return x + 1
        return x - 1
----
class Net(nn.Module):  # fullgraph: forward(f32[4])
    def __init__(self):
        super().__init__()
        self.count = 0
    def forward(self, x):
        self.count += 1
        return torch.where(x.sum() > 0, x + 1, x - 1)
== differs a counter of the module (state)
COUNT = 0
def f(x):  # fullgraph: x=f32[4]
    global COUNT
    COUNT += 1
    return x + 1
----
COUNT = 0
def f(x):  # fullgraph: x=f32[4]
    return x + 1
== differs a counter of the class (state)
class Net(nn.Module):  # fullgraph: forward(f32[4])
    calls = 0
    def forward(self, x):
        Net.calls += 1
        return x + 1
----
class Net(nn.Module):  # fullgraph: forward(f32[4])
    calls = 0
    def forward(self, x):
        return x + 1
== differs a list of the module (state)
SEEN = []
def f(x):  # fullgraph: x=f32[4]
    if x.sum() > 0:
        SEEN.append(x.shape[0])
    return x + 1
----
SEEN = []
def f(x):  # fullgraph: x=f32[4]
    SEEN.append(x.shape[0])
    return x + 1
== differs a default list (state)
def f(x, seen=[]):  # fullgraph: x=f32[4]
    seen.append(1)
    return x + len(seen) * 0
----
def f(x, seen=[]):  # fullgraph: x=f32[4]
    return x + 0
== differs a list that is passed (input)
def f(x, into):  # fullgraph: x=f32[4], into=[1, 2]
    into.append(x.shape[0])
    return x + 1
----
def f(x, into):  # fullgraph: x=f32[4], into=[1, 2]
    return x + 1
== differs a dictionary that is passed (input)
def f(x, into):  # fullgraph: x=f32[4], into={"a": 1}
    into["a"] = 2
    return x + 1
----
def f(x, into):  # fullgraph: x=f32[4], into={"a": 1}
    into["b"] = 2
    return x + 1
== differs a buffer is updated on both sides (state)
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
    def forward(self, x):
        if x.sum() > 0:
            self.total += x
        return x * 2
----
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
    def forward(self, x):
        self.total += torch.where(x.sum() >= 0, x, torch.ones_like(x))
        return x * 2
== differs an attribute is not set (state)
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def forward(self, x):
        self.last = x.shape[0]
        return x * 2
----
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def forward(self, x):
        return x * 2
== differs an attribute keeps the input and no copy (state-aliasing)
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def forward(self, x):
        self.last = x.detach().clone()
        return x * 2
----
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def forward(self, x):
        self.last = x.detach()
        return x * 2
== differs a print is removed (stdout)
def f(x):  # fullgraph: x=f32[4]
    print("shape", x.shape)
    return x + 1
----
def f(x):  # fullgraph: x=f32[4]
    return x + 1
== differs a print of one side (stdout)
def f(x):  # fullgraph: x=f32[4]
    if x.sum() < 0:
        print("negative")
    return x + 1
----
def f(x):  # fullgraph: x=f32[4]
    return x + 1
== differs a log record is lost (log)
LOG = logging.getLogger("model")
def f(x):  # fullgraph: x=f32[4]
    LOG.info("called with %s", tuple(x.shape))
    return x + 1
----
LOG = logging.getLogger("model")
def f(x):  # fullgraph: x=f32[4]
    return x + 1
== differs a warning is lost (warning)
def f(x):  # fullgraph: x=f32[4]
    if x.isnan().any():
        warnings.warn("there is NaN")
    return x + 1
----
def f(x):  # fullgraph: x=f32[4]
    return x + 1
== differs NaN gradients of the untaken side (gradient)
def f(x):  # fullgraph: x=f32[4]
    if (x > 0).all():
        return x.sqrt()
    return x * 0.5
----
def f(x):  # fullgraph: x=f32[4]
    return torch.where((x > 0).all(), x.sqrt(), x * 0.5)
== differs a detach is lost (gradient)
def f(x):  # fullgraph: x=f32[4]
    return x * x.detach().sum()
----
def f(x):  # fullgraph: x=f32[4]
    return x * x.sum()
== differs a number has no gradient (gradient)
def f(x):  # fullgraph: x=f32[4]
    scale = x.max().item()
    return x * scale
----
def f(x):  # fullgraph: x=f32[4]
    scale = x.max()
    return x * scale
== differs gradients of a parameter (gradient)
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
    def forward(self, x):
        return x * self.scale * self.scale.detach()
----
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
    def forward(self, x):
        return x * self.scale * self.scale
== differs a result does not require gradients any more (result)
def f(x):  # fullgraph: x=f32[4]
    return x * 2
----
@torch.no_grad()
def f(x):  # fullgraph: x=f32[4]
    return x * 2
== differs the order of mutations (input)
def f(x):  # fullgraph: x=f32[4]
    x.add_(1)
    x.mul_(2)
    return x.sum()
----
def f(x):  # fullgraph: x=f32[4]
    x.mul_(2)
    x.add_(1)
    return x.sum()
== differs one tensor passed twice (result)
def f(x, y):  # fullgraph: x=f32[4], y=f32[4]
    total = y.sum()
    x.add_(1)
    return total + y.sum() * 0
----
def f(x, y):  # fullgraph: x=f32[4], y=f32[4]
    x.add_(1)
    total = y.sum()
    return total + y.sum() * 0
== differs a list for a tuple (result)
def f(x):  # fullgraph: x=f32[4]
    return x + 1, x + 2
----
def f(x):  # fullgraph: x=f32[4]
    return [x + 1, x + 2]
== differs the order of keys (result)
def f(x):  # fullgraph: x=f32[4]
    return {"a": x + 1, "b": x + 2}
----
def f(x):  # fullgraph: x=f32[4]
    return {"b": x + 2, "a": x + 1}
== differs a tensor for a number (result)
def f(x):  # fullgraph: x=f32[4]
    return x.sum().item()
----
def f(x):  # fullgraph: x=f32[4]
    return x.sum()
== differs a bool for an int (result)
def f(x):  # fullgraph: x=f32[4]
    return int(x.shape[0] > 2), x + 1
----
def f(x):  # fullgraph: x=f32[4]
    return x.shape[0] > 2, x + 1
== differs only in training (result)
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def forward(self, x):
        if self.training:
            return x * 2
        return x * 3
----
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def forward(self, x):
        return x * 2
== differs only in evaluation (random)
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, self.training)
----
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, True)
== differs with a flag (result)
def f(x, double=False):  # fullgraph: x=f32[4]
    if double:
        return x * 2
    return x + 0
----
def f(x, double=False):  # fullgraph: x=f32[4]
    return x + 0
== differs without an optional argument (result)
def f(x, mask=None):  # fullgraph: x=f32[4], mask=b8[4]
    if mask is None:
        return x + 0
    return x * mask
----
def f(x, mask=None):  # fullgraph: x=f32[4], mask=b8[4]
    return x * (mask if mask is not None else 0)
== differs beyond a constant (result)
def f(x):  # fullgraph: x=f32[4]
    if x.mean() > 41.0:
        return x - 41.0
    return x + 0
----
def f(x):  # fullgraph: x=f32[4]
    return x + 0
== differs for another size (result)
def f(x):  # fullgraph: x=f32[4, 3]
    if x.shape[0] > 9:
        return x[:9] + 0
    return x + 0
----
def f(x):  # fullgraph: x=f32[4, 3]
    return x + 0
== differs by broadcasting (result)
def f(x, y):  # fullgraph: x=f32[4, 3], y=f32[1, 3]
    if x.sum() > 0:
        return x + 1
    return y + 1
----
def f(x, y):  # fullgraph: x=f32[4, 3], y=f32[1, 3]
    return torch.where(x.sum() > 0, x + 1, y + 1)
== differs by the dtype of a side (result)
def f(x):  # fullgraph: x=f32[4]
    if x.sum() > 0:
        return x > 0
    return x + 0
----
def f(x):  # fullgraph: x=f32[4]
    return torch.where(x.sum() > 0, x > 0, x + 0)
== differs in the sign of zero (result)
def f(x):  # fullgraph: x=f32[4]
    return 1 / torch.where(x > 0, x, torch.zeros_like(x))
----
def f(x):  # fullgraph: x=f32[4]
    return 1 / (x * (x > 0))
== differs infinity times zero (result)
def f(x):  # fullgraph: x=f32[4]
    if x.sum() > 1.0:
        return x * 2
    return x * 0.5
----
def f(x):  # fullgraph: x=f32[4]
    taken = (x.sum() > 1.0).float()
    return taken * (x * 2) + (1 - taken) * (x * 0.5)
== differs by a little more than rounding (result)
def f(x):  # fullgraph: x=f32[64]
    return x.softmax(0) * 1.0
----
def f(x):  # fullgraph: x=f32[64]
    return x.softmax(0) * 1.00001
== differs one element of many (result)
def f(x):  # fullgraph: x=f32[32, 32]
    return x @ x.T
----
def f(x):  # fullgraph: x=f32[32, 32]
    y = x @ x.T
    return torch.cat([y[:31], y[31:] * (1 + 1e-4)])
== differs in the second call (result)
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.before = None
    def forward(self, x):
        before, self.before = self.before, x.detach().clone()
        return x if before is None else x + before
----
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.before = None
    def forward(self, x):
        self.before = x.detach().clone()
        return x
== differs a generator is consumed (input)
def f(x, items):  # fullgraph: x=f32[4], items=[3, 2, 1]
    return x + sorted(items)[0]
----
def f(x, items):  # fullgraph: x=f32[4], items=[3, 2, 1]
    items.sort()
    return x + items[0]
== unverified a function that does something else when it is called
def f(x):  # fullgraph: x=f32[4]
    return x * 2, lambda y: y + 1
----
def f(x):  # fullgraph: x=f32[4]
    return x + x, lambda y: y + 2
== unverified a function that calls another one of the file
def helper(x):
    return x * 2
def f(x):  # fullgraph: x=f32[4]
    return helper(x), lambda y: helper(y)
----
def helper(x):
    return x + x
def f(x):  # fullgraph: x=f32[4]
    return helper(x), lambda y: helper(y)
== differs a function that keeps another number (result)
def f(x):  # fullgraph: x=f32[4]
    n = 2
    return lambda y: y * n
----
def f(x):  # fullgraph: x=f32[4]
    n = 3
    return lambda y: y * n
== differs a method of an object that has other values (result)
class Scale:
    def __init__(self, by):
        self.by = by
    def apply(self, y):
        return y * self.by
def f(x):  # fullgraph: x=f32[4]
    return Scale(x.sum()).apply
----
class Scale:
    def __init__(self, by):
        self.by = by
    def apply(self, y):
        return y * self.by
def f(x):  # fullgraph: x=f32[4]
    return Scale(x.mean()).apply
== differs an iterator that is gone after the first loop (result)
def f(pairs):
    first = sum(a * b for a, b in pairs)
    return first + sum(a + b for a, b in pairs)
f(zip([torch.rand(4), torch.rand(4)], [torch.rand(4), torch.rand(4)]))
torch.compile(f)(zip([torch.ones(4), torch.ones(4)], [torch.ones(4), torch.ones(4)]))
----
def f(pairs):
    first = sum(a * b for a, b in pairs)
    return first + sum(a + b for a, b in pairs)
f(zip([torch.rand(4), torch.rand(4)], [torch.rand(4), torch.rand(4)]))
torch.compile(f)(tuple(zip([torch.ones(4), torch.ones(4)], [torch.ones(4), torch.ones(4)])))
== differs the next of a tuple (outcome)
def f(x, values):
    return x * next(values)
torch.compile(f)(torch.ones(4), map(abs, [-2.0, 3.0]))
----
def f(x, values):
    return x * next(values)
torch.compile(f)(torch.ones(4), tuple(map(abs, [-2.0, 3.0])))
== unverified a tuple of other values
def f(x, values):
    return sum((x * value for value in values), x)
torch.compile(f)(torch.ones(4), {"a": 2.0, "b": 3.0}.values())
----
def f(x, values):
    return sum((x * value for value in values), x)
torch.compile(f)(torch.ones(4), tuple({"a": 3.0, "b": 2.0}.values()))
== differs a type that is asked for (result)
import types
def f(x, values):
    factor = 2 if isinstance(values, types.GeneratorType) else 3
    return x * factor
torch.compile(f)(torch.ones(4), (n for n in range(3)))
----
import types
def f(x, values):
    factor = 2 if isinstance(values, types.GeneratorType) else 3
    return x * factor
torch.compile(f)(torch.ones(4), tuple(n for n in range(3)))
== differs the objects that are sorted are others (aliasing)
def f(x, y):  # fullgraph: x=f32[], y=f32[]
    return sorted([x, y])
----
def f(x, y):  # fullgraph: x=f32[], y=f32[]
    return list(torch.stack([x, y]).sort().values)
"""
)

RIGHT = pairs_of(
    """
== exact a clock that is asked as often
import time
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.took = 0.0
    def forward(self, x):
        start = time.perf_counter()
        y = x * 2
        self.took = time.perf_counter() - start
        print("took", time.time() - start)
        return y
----
import time
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.took = 0.0
    def forward(self, x):
        if not torch.compiler.is_compiling():
            start = time.perf_counter()
        y = x * 2
        if not torch.compiler.is_compiling():
            self.took = time.perf_counter() - start
            print("took", time.time() - start)
        return y
== exact chance as a tensor
def f(x):  # fullgraph: x=f32[4]
    if random.random() < 0.5:
        return x * 2
    return x + 1
----
def f(x):  # fullgraph: x=f32[4]
    return torch.where(torch.tensor(random.uniform(0.0, 1.0) < 0.5), x * 2, x + 1)
== exact the first result of a loop
def f(x):  # fullgraph: x=f32[4]
    for scale in (1.0, 2.0, 4.0):
        y = x * scale
        if y.sum() > 1.0:
            return y
    return x * 0.5
----
def f(x):  # fullgraph: x=f32[4]
    returned = []
    for scale in (1.0, 2.0, 4.0):
        y = x * scale
        returned.append((y.sum() > 1.0, y))
    result = x * 0.5
    for condition, value in reversed(returned):
        result = torch.where(condition, value, result)
    return result
== same what is kept requires a gradient of zeros
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.last = None
    def forward(self, x):
        y = self.linear(x)
        if x.sum() > 0:
            self.last = y
        else:
            self.last = torch.zeros_like(x).detach()
        return y * 2
----
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.last = None
    def forward(self, x):
        y = self.linear(x)
        self.last = torch.where(x.sum() > 0, y, torch.zeros_like(x).detach())
        return y * 2
== same no gradient of an empty tensor, or an empty one
def f(x, y):  # fullgraph: x=f32[4], y=f32[4]
    if x.sum() > 0:
        x = x + y.sum()
    return x * 1
----
def f(x, y):  # fullgraph: x=f32[4], y=f32[4]
    return torch.where(x.sum() > 0, x + y.sum(), x) * 1
== exact where for if
def f(x):  # fullgraph: x=f32[4]
    if x.sum() > 0:
        return x + 1
    return x - 1
----
def f(x):  # fullgraph: x=f32[4]
    return torch.where(x.sum() > 0, x + 1, x - 1)
== exact clamp for a bound on both sides
def f(x, low=-1.0, high=1.0):  # fullgraph: x=f32[4, 3]
    return torch.max(torch.min(x, torch.tensor(high)), torch.tensor(low))
----
def f(x, low=-1.0, high=1.0):  # fullgraph: x=f32[4, 3]
    return torch.minimum(x, torch.tensor(high)).maximum(torch.tensor(low))
== exact conditions turned around
class Net(nn.Module):  # fullgraph: forward(f32[2, 3])
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
    def forward(self, x):
        if self.training:
            x = nn.functional.dropout(x)
        return self.linear(x)
----
class Net(nn.Module):  # fullgraph: forward(f32[2, 3])
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
    def forward(self, x):
        return self.linear(nn.functional.dropout(x, training=self.training))
== exact masked for a loop
def f(x):  # fullgraph: x=f32[4]
    out = x.clone()
    for i in range(x.shape[0]):
        if x[i] < 0:
            out[i] = 0.0
    return out
----
def f(x):  # fullgraph: x=f32[4]
    return x.masked_fill(x < 0, 0.0)
== exact a counter in a tensor stays
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
    def forward(self, x):
        if x.sum() > 0:
            self.count += 1
        return x * 2
----
class Net(nn.Module):  # fullgraph: forward(f32[3])
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
    def forward(self, x):
        self.count += (x.sum() > 0).long()
        return x * 2
== exact another name for the same
def f(x):  # fullgraph: x=f32[4]
    y = x.pow(2)
    return {"y": y, "x": x}
----
def f(x):  # fullgraph: x=f32[4]
    squared = x.pow(2)
    return dict(y=squared, x=x)
== exact an error stays
def f(x):  # fullgraph: x=f32[4]
    total = x.sum()
    if total.item() < 0:
        raise ValueError("negative")
    return x / total
----
def f(x):  # fullgraph: x=f32[4]
    total = x.sum()
    if bool(total < 0):
        raise ValueError("negative")
    return x / total
== exact a log record stays
LOG = logging.getLogger("model")
def f(x):  # fullgraph: x=f32[4]
    message = "called"
    LOG.info(message)
    return x + 1
----
LOG = logging.getLogger("model")
def f(x):  # fullgraph: x=f32[4]
    LOG.info("called")
    return x + 1
== same sums in another order
def f(x):  # fullgraph: x=f32[64, 64]
    return x.sum()
----
def f(x):  # fullgraph: x=f32[64, 64]
    return x.sum(0).sum()
== same a matrix product in two parts
def f(x, y):  # fullgraph: x=f32[16, 64], y=f32[64, 16]
    return x @ y
----
def f(x, y):  # fullgraph: x=f32[16, 64], y=f32[64, 16]
    return x[:, :32] @ y[:32] + x[:, 32:] @ y[32:]
== exact where for if with parameters
class Net(nn.Module):  # fullgraph: forward(f32[2, 3])
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
    def forward(self, x):
        y = self.linear(x)
        if y.sum() > 0:
            return y * 2
        return y * 0.5
----
class Net(nn.Module):  # fullgraph: forward(f32[2, 3])
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
    def forward(self, x):
        y = self.linear(x)
        return torch.where(y.sum() > 0, y * 2, y * 0.5)
== exact a method of an object that is made
class Scale:
    def __init__(self, by):
        self.by = by
    def apply(self, y):
        return y * self.by
def f(x):  # fullgraph: x=f32[4]
    torch._dynamo.graph_break()
    return Scale(x * 2).apply
----
class Scale:
    def __init__(self, by):
        self.by = by
    def apply(self, y):
        return y * self.by
def f(x):  # fullgraph: x=f32[4]
    return Scale(x + x).apply
== exact a module that is given compiled
class Inner(nn.Module):
    def forward(self, y):
        return y * 2
inner = Inner()
inner = torch.compiler.disable(inner)
def f(inner, x):
    return inner(x) * 2
torch.compile(f, backend="eager")(inner, torch.rand(4))
----
class Inner(nn.Module):
    def forward(self, y):
        return y * 2
inner = Inner()
def f(inner, x):
    return inner(x) + inner(x)
torch.compile(f, backend="eager")(inner, torch.rand(4))
== exact a tuple of pairs
def f(x, pairs):
    for a, b in pairs:
        x = x + a * b
    return x
torch.compile(f)(torch.ones(4), zip([torch.ones(4)], [torch.ones(4)]))
----
def f(x, pairs):
    for a, b in pairs:
        x = x + b * a
    return x
torch.compile(f)(torch.ones(4), tuple(zip([torch.ones(4)], [torch.ones(4)])))
== exact a tuple of what a dictionary has
def f(x, items):
    result = {}
    for name, value in items:
        result[name] = x * value
    return result
torch.compile(f)(torch.ones(4), {"a": torch.ones(4), "b": torch.rand(4)}.items())
----
def f(x, items):
    result = {}
    for name, value in items:
        result[name] = value * x
    return result
torch.compile(f)(torch.ones(4), tuple({"a": torch.ones(4), "b": torch.rand(4)}.items()))
"""
)
