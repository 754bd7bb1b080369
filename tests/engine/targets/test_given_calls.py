"""What a call is made with: the same digest where a trace would be the same, and else another."""

from __future__ import annotations

import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fullgraph_engine.protocol import GivenCall
from fullgraph_engine.targets import given_calls, rng
from fullgraph_engine.targets.enclosing import EnclosingSnapshot
from fullgraph_engine.targets.probes import Call

FILE = """\
    import functools, threading, torch
    from torch import nn

    LIMIT = 3
    TABLE = {}
    anonymous = lambda x: x

    class Options:
        scale = 2

        def __init__(self, size=4):
            self.size = size

    class Slotted:
        __slots__ = ("__hidden", "size")

        def __init__(self, size, hidden=0):
            self.size = size
            self.__hidden = hidden

    def act(x):
        return x

    def twice(f):
        def inner(x):
            return f(f(x))
        return inner

    class Inner(nn.Module):
        def forward(self, x):
            return x

    class Net(nn.Module):
        def __init__(self, size=4, inner=None, act=act, options=None):
            super().__init__()
            self.linear = nn.Linear(size, size)
            self.inner, self.act, self.options = inner, act, options
            self.names, self.seen = {"a", "b"}, []

        def forward(self, x):
            return x
"""
"""As a namespace in which calls are written."""


@pytest.fixture
def namespace() -> dict[str, Any]:
    module = types.ModuleType("given_file")
    module.__file__ = "/given/file.py"
    exec(compile(textwrap.dedent(FILE), "/given/file.py", "exec"), module.__dict__)
    return module.__dict__


@pytest.fixture(autouse=True)
def same_numbers() -> Iterator[None]:
    before = rng.generator_states()
    yield
    rng.restore_generators(before)


def given(namespace: dict[str, Any], call: str, change: str = "pass") -> GivenCall | None:
    """Of ``call``, as ``(function, args…)``, after a statement."""
    rng.seed_generators()
    exec(change, namespace)
    function, *args = eval(call, namespace)
    made = Call(function, tuple(args), {})
    target: Any = None
    # Of real tensors: a fake run has an oracle.
    snapshot = EnclosingSnapshot(target, 0, made, rng.generator_states(), None)
    return given_calls.digest_snapshot(snapshot, namespace)


def digest(namespace: dict[str, Any], call: str, change: str = "pass") -> str:
    found = given(namespace, call, change)
    assert found is not None
    return found.digest


SAME = (
    "(Net(), torch.ones(2, 4))",
    "(Net(inner=Inner(), options=Options()), torch.ones(2, 4), 1, 'a', None, [1.5, (2,)])",
    "(Net(act=functools.partial(act, 1)), torch.ones(2, 4), torch.float32, torch.device('cpu'))",
    "(Net(act=twice(act)), {'x': torch.ones(2)})",
    "(Net(act=torch.relu), Slotted(4), nn.ModuleList([Inner(), Inner()]))",
    "(act, torch.ones(2).T, torch.ops.aten.add, torch.nn.functional.gelu)",
    "(lambda: (x := Net(), x))()",
)


@pytest.mark.parametrize("call", SAME)
def test_the_same_call_has_the_same_digest(call: str, namespace: dict[str, Any]) -> None:
    first, second = given(namespace, call), given(namespace, call)
    assert first is not None
    assert first == second
    assert first.real


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("(Net(), torch.ones(2, 4))", "(Net(), torch.ones(3, 4))"),
        ("(Net(), torch.ones(2, 4))", "(Net(), torch.zeros(2, 4))"),
        ("(Net(), torch.ones(2, 4))", "(Net(), torch.ones(2, 4).double())"),
        ("(Net(), torch.ones(4, 2))", "(Net(), torch.ones(2, 4).T)"),
        ("(Net(), torch.ones(2))", "(Net(), torch.ones(2, requires_grad=True))"),
        ("(Net(), torch.ones(2))", "(Net(), torch.ones(3)[:2])"),
        ("(Net(),)", "(Net().eval(),)"),
        ("(Net(4),)", "(Net(5),)"),
        ("(Net(),)", "(Net(inner=Inner()),)"),
        ("(Net(options=Options()),)", "(Net(options=Options(5)),)"),
        ("(Net(options=Slotted(4)),)", "(Net(options=Slotted(5)),)"),
        ("(Net(options=Slotted(4)),)", "(Net(options=Slotted(4, 1)),)"),
        ("(Net(act=act),)", "(Net(act=torch.relu),)"),
        ("(Net(act=act),)", "(Net(act=twice(act)),)"),
        ("(Net(act=twice(act)),)", "(Net(act=twice(torch.relu)),)"),
        ("(act, 1)", "(act, True)"),
        ("(act, 1)", "(act, 1.0)"),
        ("(act, [1, 2])", "(act, (1, 2))"),
        ("(act, [1, [2]])", "(act, [1, 2])"),
        ("(act, {'a': 1, 'b': 2})", "(act, {'b': 2, 'a': 1})"),
        # The same tensor twice is not two that look like it.
        ("(lambda x: (act, x, x))(torch.ones(2))", "(act, torch.ones(2), torch.ones(2))"),
        ("(lambda x: (act, x, x[:]))(torch.ones(2))", "(act, torch.ones(2), torch.ones(2))"),
        ("(lambda m: (Net(inner=m), m))(Inner())", "(Net(inner=Inner()), Inner())"),
    ],
)
def test_another_call_has_another_digest(one: str, other: str, namespace: dict[str, Any]) -> None:
    assert digest(namespace, one) != digest(namespace, other)


@pytest.mark.parametrize(
    "change",
    [
        "LIMIT = 4",
        "TABLE['a'] = 1",
        "Options.scale = 3",
        "torch.rand(1)",
        "__import__('random').random()",
        "net = Net()",
    ],
)
def test_what_a_call_may_depend_on_is_part_of_it(change: str, namespace: dict[str, Any]) -> None:
    call = "(Net(options=Options()),)"
    assert digest(namespace, call) != digest(namespace, call, change)


@pytest.mark.parametrize(
    "argument",
    [
        "threading.Lock()",
        "iter([1])",
        "(x for x in [1])",
        "torch.Generator()",
        "anonymous",
        "torch.ones(2).to_sparse()",
        "torch.zeros(9 << 20)",
        "{act}",
    ],
)
def test_what_cannot_be_read_has_no_digest(argument: str, namespace: dict[str, Any]) -> None:
    assert given(namespace, f"(act, {argument})") is None


def test_it_names_the_definitions_that_the_inputs_lead_to(namespace: dict[str, Any]) -> None:
    found = given(namespace, "(Net(inner=Inner(), act=twice(act)), Options(), torch.relu)")
    assert found is not None
    assert found.definitions == ("Inner", "Net", "Options", "act", "twice")


def test_fake_tensors_have_no_contents(namespace: dict[str, Any]) -> None:
    oracle = types.SimpleNamespace(
        choice_count=0, bool_choices=(), generator_state=torch.zeros(2, dtype=torch.uint8)
    )

    def of(make: Callable[[], torch.Tensor]) -> GivenCall | None:
        rng.seed_generators()
        with FakeTensorMode():
            call = Call(namespace["act"], (make(),), {})
        target: Any = None
        answered: Any = oracle
        snapshot = EnclosingSnapshot(target, 0, call, rng.generator_states(), answered)
        return given_calls.digest_snapshot(snapshot, namespace)

    of(lambda: torch.ones(1))  # it may import numpy, whose random numbers count from then on
    ones, zeros, more = (
        of(lambda: torch.ones(3)),
        of(lambda: torch.zeros(3)),
        of(lambda: torch.ones(4)),
    )
    assert ones is not None
    assert more is not None
    assert ones == zeros
    assert not ones.real
    assert ones.digest != more.digest
