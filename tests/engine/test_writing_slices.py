"""Slices of files: what some names need."""

from __future__ import annotations

import pytest

from fullgraph_engine.repro.emit.slices import slice_of

FILE = '''
"""A file."""
from __future__ import annotations

import math, torch
from torch import nn, Tensor
import unused

torch._dynamo.config.recompile_limit = 2
SIZE = 3
OTHER = SIZE + 1

def helper(x):
    return x * SIZE + later(x)

def apart(x):
    return OTHER * x

if torch.cuda.is_available():
    device = "cuda"
else:
    device = "cpu"

class Net(nn.Module):
    def forward(self, x: Tensor):
        OTHER = 1
        return helper(x).to(device)

Net.extra = 4
apart.extra = 5

def later(x):
    return math.sqrt(x)

print(apart(1))

if __name__ == "__main__":
    Net()
'''


def test_what_a_class_needs() -> None:
    assert slice_of(FILE, {"Net"}).splitlines()[:4] == [
        "from __future__ import annotations",
        "import math, torch",
        "from torch import nn, Tensor",
        "torch._dynamo.config.recompile_limit = 2",
    ]
    text = slice_of(FILE, {"Net"})
    for there in ("class Net", "def helper", "def later", "SIZE = 3", "else:", "Net.extra"):
        assert there in text
    for gone in ("apart", "unused", "OTHER = SIZE", "__main__", "A file"):
        assert gone not in text


def test_it_keeps_the_order_of_the_file() -> None:
    text = slice_of(FILE, {"Net"})
    places = [text.index(part) for part in ("SIZE", "def helper", "class Net", "def later")]
    assert places == sorted(places)


def test_names_that_the_file_lacks_give_nothing() -> None:
    assert "def " not in slice_of(FILE, {"nowhere"})


def test_a_name_that_is_changed_later_keeps_all_its_statements() -> None:
    text = slice_of("x = [1]\nx.append(2)\nx += [3]\ny = 0\ny += 1\n", {"x"})
    assert text == "x = [1]\nx.append(2)\nx += [3]\n"


@pytest.mark.parametrize("names", [{"a"}, {"b"}])
def test_star_imports_stay(names: set[str]) -> None:
    assert "from other import *" in slice_of("from other import *\na = 1\nb = f(a)\n", names)
