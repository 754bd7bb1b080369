"""Values as source: a program that is made of one value has an equal value."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import io
import itertools
import math
import pathlib
import random
import threading
import types
import warnings
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from fullgraph_engine.repro.emit.displays import literal_text
from fullgraph_engine.repro.emit.program import ProgramDraft
from fullgraph_engine.repro.emit.tensors import contents
from fullgraph_engine.repro.emit.tensors.layouts import Layout, layout_of
from fullgraph_engine.repro.emit.unwritable import UnwritableValue


def program(*values: Any, first: Any = None) -> str:
    draft = ProgramDraft()
    if first is not None:
        draft.refer_to(first)
    return draft.text([f"result = [{', '.join(draft.expressions(values))}]"])


def again(*values: Any) -> Any:
    namespace: dict[str, Any] = {}
    exec(program(*values), namespace)
    result = namespace["result"]
    return result[0] if len(values) == 1 else result


class Color(enum.Enum):
    RED = 1
    BLUE = "b"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: float = 0.5


@dataclasses.dataclass
class Config:
    width: int = 8
    names: list[str] = dataclasses.field(default_factory=list)
    inner: Point | None = None


@dataclasses.dataclass(frozen=True)
class Fixed:
    width: int = 8


CONSTANTS = [
    *(None, True, 0, -3, 10**40, 1 << 20_000, "a'\n\"", b"\x00", ..., NotImplemented),
    *(0.1, -0.0, 1e300, float("inf"), -float("inf"), 1j, -1j, 2 + 3j, complex(-0.0, -0.0)),
]


@pytest.mark.parametrize("value", CONSTANTS, ids=range(len(CONSTANTS)))
def test_constants(value: Any) -> None:
    text = literal_text(value)
    assert text is not None
    other = eval(text)
    assert type(other) is type(value) and other == value
    if isinstance(value, (float, complex)):
        assert repr(other) == repr(value)


def test_not_a_number() -> None:
    assert math.isnan(again(float("nan")))
    assert math.isnan(again(complex(0, float("nan"))).imag)


VALUES = [
    *([], [1, [2]], (), (1,), (1, 2), {}, {"a": 1, (1, 2): [3]}, set(), {3, 1}, frozenset({1})),
    *(range(3), range(1, 9, 2), slice(None), slice(1, None), slice(1, 2, 3), bytearray(b"x")),
    *(collections.OrderedDict(b=1, a=2), collections.Counter("aab"), collections.deque([1], 4)),
    *(collections.defaultdict(list, {1: [2]}), [0] * 100, list(range(50)), [[1]] * 3),
    *(Color.RED, Color.BLUE, Access.READ | Access.WRITE, Point(1), Point(1, 2.0), Config()),
    *(Config(3, ["a"], Point(2)), Fixed(9), types.SimpleNamespace(a=[1])),
    *(Decimal("1.5"), pathlib.PurePosixPath("a/b")),
    *(torch.float16, torch.channels_last, torch.strided, torch.Size([2, 3]), torch.Size([])),
    *(torch.device("cuda", 1), torch.device("cpu"), torch.per_tensor_affine),
    *(torch.finfo(torch.float16), torch.iinfo(torch.int8)),
    *(len, math.sqrt, torch.relu, torch.nn.functional.relu, torch.Tensor.add, int, Color, math),
    *(torch.ops.aten.add.Tensor, torch.ops.aten.add, torch.nn.Linear, list[int]),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value).partition(" at 0x")[0][:30])
def test_values(value: Any) -> None:
    other = again(value)
    if value is Color:
        assert [one.name for one in other] == [one.name for one in value]
    elif type(value).__module__ == __name__:  # its class is another one now
        assert repr(other) == repr(value)
    else:
        assert type(other) is type(value)
        assert other == value


def test_what_operators_take_and_return() -> None:
    assert again(torch.Generator().manual_seed(3)).initial_seed() == 3
    largest = again(torch.tensor([1, 3]).max(0))
    assert (largest.values, largest.indices) == (3, 1)
    fake = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.ones(5), static_shapes=False)
    assert again([fake.size(0), fake.size(0) > 3]) == [5, True]
    assert again(cached)(2) == 3


@functools.lru_cache
def cached(x: int) -> int:
    return x + 1


def test_defaults_are_not_written() -> None:
    assert program(Config()).endswith("result = [Config()]\n")
    assert program(Config(width=9)).endswith("result = [Config(width=9)]\n")


def test_long_lists_are_short() -> None:
    assert program([0] * 500).endswith("result = [[0] * 500]\n")
    assert program(list(range(500))).endswith("result = [list(range(500))]\n")


def double(x: int, y: int) -> int:
    return x * y


class Scale:
    factor = 3

    def __init__(self, offset: int, unused: int) -> None:
        self.offset = offset
        self.unused = unused
        self.__own = 1

    @property
    def both(self) -> int:
        return self.factor + self.__own

    def apply(self, x: int) -> int:
        return x * self.both + self.offset

    def other(self) -> int:
        return self.unused


def use_scale(scale: Scale) -> int:
    return scale.apply(2)


def test_partial_objects_and_bound_methods() -> None:
    assert again(functools.partial(double, 3, y=2))() == 6
    assert again([1, 2].count)(1) == 1
    assert again(Scale(5, 6).apply)(2) == 13
    assert again(functools.partial(double, 3)).func.__name__ == "double"


def test_objects_are_reduced_to_what_the_program_reaches() -> None:
    text = program(Scale(5, 6), use_scale, first=use_scale)
    assert "unused" not in text and "def other" not in text
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    scale, use = namespace["result"]
    assert use(scale) == 13


def test_objects_are_whole_where_nothing_is_known() -> None:
    assert again(Scale(5, 6)).other() == 6


class Slotted:
    __slots__ = ("x", "y")

    def __init__(self) -> None:
        self.x = [1]


class Names(dict):  # type: ignore[type-arg]
    def first(self) -> Any:
        return next(iter(self))


def test_other_kinds_of_objects() -> None:
    slotted = again(Slotted())
    assert slotted.x == [1] and not hasattr(slotted, "y")
    assert again(Names(a=1)).first() == "a"


class Node:
    def __init__(self, up: Node | None = None) -> None:
        self.up = up
        self.below: list[Node] = []

    def grow(self) -> Node:
        self.below.append(Node(self))
        return self


def test_iterators_begin_where_they_are() -> None:
    begun = iter([1, 2, 3])
    next(begun)
    assert list(again(begun)) == [2, 3]
    assert list(again(zip([1, 2], (3, 4)))) == [(1, 3), (2, 4)]  # noqa: B905
    assert list(again(map(abs, [-1, 2]))) == [1, 2]
    assert list(again(enumerate("ab"))) == [(0, "a"), (1, "b")]


def test_locks_are_new_and_free() -> None:
    held = threading.Lock()
    with held:
        other = again(held)
    assert type(other) is type(held) and not other.locked()
    with again(threading.RLock()):
        assert not again(threading.Event()).is_set()


def test_cycles() -> None:
    root = again(Node().grow().grow())
    assert len(root.below) == 2 and all(one.up is root for one in root.below)
    loop: list[Any] = [1]
    loop.append(loop)
    other = again(loop)
    assert other[1] is other


def test_one_object_in_two_places() -> None:
    node = Node()
    one, other = again([node, node])
    assert one is other
    tensor = torch.randn(2)
    first, second = again(tensor, tensor)
    assert first is second
    inner, outer = again([tensor], tensor)
    assert inner[0] is outer


def test_what_cannot_be_written() -> None:
    values: list[tuple[Any, str]] = [
        (io.TextIOWrapper(io.BytesIO()), "TextIO"),
        ((one for one in [1]), "generator"),
        (torch.jit.script(torch.nn.Linear(1, 1)), "TorchScript"),
        (torch.fx.symbolic_trace(torch.nn.ReLU()), "GraphModule"),
    ]
    for value, said in values:
        with pytest.raises(UnwritableValue, match=said):
            program(value)


def test_deep_nesting_is_unwritable() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(UnwritableValue, match="deep"):
        program(deep)


def test_sets_do_not_depend_on_the_process() -> None:
    assert '{"a", "b", "c"}' in program({"c", "a", "b"})


def test_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    values = [
        *(numpy.float32(1.5), numpy.int64(3), numpy.bool_(True), numpy.dtype("float32")),
        *(numpy.arange(6).reshape(2, 3), numpy.zeros((0, 2)), numpy.array(2.5)),
    ]
    for value in values:
        other = again(value)
        assert type(other) is type(value) and numpy.array_equal(other, value)
    for kind in ("float32", "int8", "bool", "complex64"):
        value = numpy.ones((40, 3), kind)
        other = again(value)
        assert (other.dtype, other.shape) == (value.dtype, value.shape)


# -- tensors ----------------------------------------------------------------------------------


def assert_alike(one: torch.Tensor, other: torch.Tensor) -> None:
    assert one.dtype == other.dtype and one.device == other.device
    assert (one.shape, one.stride()) == (other.shape, other.stride())
    assert one.storage_offset() == other.storage_offset()
    assert (one.requires_grad, one.is_leaf) == (other.requires_grad, other.is_leaf)


X = torch.arange(120.0).reshape(2, 3, 4, 5)
WRITTEN = [
    (torch.randn(2, 16), "torch.randn(2, 16)"),
    (torch.randn(()), None),
    (torch.tensor(0.25), "torch.tensor(0.25)"),
    (torch.tensor(3), "torch.tensor(3)"),
    (torch.randn(0, 3), "torch.empty(0, 3)"),
    (torch.zeros(4, 4), "torch.zeros(4, 4)"),
    (torch.ones(4, 4, dtype=torch.float16), "torch.ones(4, 4, dtype=torch.float16)"),
    (torch.rand(4, 4), "torch.rand(4, 4)"),
    (torch.randn(3, dtype=torch.complex64), "torch.randn(3, dtype=torch.complex64)"),
    (torch.randn(3).to(torch.float8_e5m2), "torch.randn(3).to(torch.float8_e5m2)"),
    (torch.tensor([3, 1, 2]), "torch.tensor([3, 1, 2])"),
    (torch.arange(40), "torch.arange(40)"),
    (torch.arange(40).expand(3, 40), None),
    (torch.tensor([5, 9] * 20), "torch.randint(5, 10, (40,))"),
    (torch.tensor([True, False]), "torch.tensor([True, False])"),
    (torch.ones(30, dtype=torch.bool), "torch.ones(30, dtype=torch.bool)"),
    (torch.ones(5, 5).tril().bool(), "torch.ones(5, 5, dtype=torch.bool).tril()"),
    (torch.full((4, 4), -math.inf).triu(1), 'torch.full((4, 4), float("-inf")).triu(1)'),
    (torch.eye(9), "torch.eye(9)"),
    (torch.randn(2, 3, requires_grad=True), "torch.randn(2, 3, requires_grad=True)"),
    (torch.randn(2, requires_grad=True) * 2, "torch.randn(2, requires_grad=True).clone()"),
    (torch.randn(2, 3).t(), "torch.randn(2, 3).t()"),
    (torch.randn(2, 3).t().clone(), "torch.randn(2, 3).t().clone()"),
    (torch.randn(2, 3, 4).permute(2, 0, 1), "torch.randn(2, 3, 4).permute(2, 0, 1)"),
    (torch.randn(1, 5).expand(3, 5), "torch.randn(1, 5).expand(3, 5)"),
    (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), None),
    (torch.randn(8, 10)[2:6, 1:4], None),
    (torch.randn(20)[::3], None),
    (X[0, :, 1], None),
    (X[:, :, ::2, 1:], None),
    (torch.randn(9).as_strided((3, 3), (2, 1)), None),
    (torch.randn(9).as_strided((3, 3), (1, 1), 2), None),
    (torch.randn(2, 3).t().requires_grad_(), "torch.randn(2, 3).t().requires_grad_()"),
    (torch.randn(2, 3, requires_grad=True).t(), "torch.randn(2, 3, requires_grad=True).t()"),
    (torch.randn(2, 3, device="meta"), 'torch.randn(2, 3, device="meta")'),
    (torch.nn.Parameter(torch.randn(3)), "torch.nn.Parameter(torch.randn(3))"),
    (torch.nn.Parameter(torch.ones(3), False), None),
]


@pytest.mark.parametrize(("value", "text"), WRITTEN, ids=lambda value: str(value)[:1])
def test_tensors(value: torch.Tensor, text: str | None) -> None:
    written = program(value)
    if text is not None:
        assert written == f"import torch\n\nresult = [{text}]\n"
    assert_alike(value, again(value))


@pytest.mark.parametrize("seed", range(60))
def test_any_strides(seed: int) -> None:
    chance = random.Random(seed)
    rank = chance.randrange(5)
    size = [chance.choice([0, 1, 2, 3, 5]) for _ in range(rank)]
    stride = [chance.choice([0, 1, 1, 2, 3, 4, 12]) for _ in range(rank)]
    dtype = chance.choice([torch.float32, torch.int64, torch.bool, torch.complex64, torch.uint16])
    value = torch.ones(400, dtype=dtype).as_strided(size, stride, chance.choice([0, 0, 3]))
    if dtype.is_floating_point and chance.random() < 0.5:
        value.requires_grad_()
    assert_alike(value, again(value))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_contents_of_permuted_tensors_stay_where_they_are(order: tuple[int, ...]) -> None:
    value = torch.arange(8).reshape(2, 2, 2).permute(order)
    assert again(value).equal(value)
    own = value.clone()
    assert_alike(own, again(own))
    assert again(own).equal(own)


def test_tensors_that_share_a_storage() -> None:
    base = torch.randn(4, 6)
    whole, row, part = again(base, base[1], base[:, 1:3])
    assert row.data_ptr() == whole[1].data_ptr() and part.data_ptr() == whole[0, 1:].data_ptr()
    assert "x[1]" in program(base, base[1])
    first, second = again(base[0], base[1])
    assert second.data_ptr() - first.data_ptr() == 24
    leaf = torch.randn(3, requires_grad=True)
    same = again(leaf, leaf.detach())
    assert [one.requires_grad for one in same] == [True, False]
    assert same[0].data_ptr() == same[1].data_ptr()


def test_large_sparse_tensors_are_never_dense() -> None:
    value = torch.sparse_coo_tensor(torch.zeros(2, 5), torch.rand(5, 3), (9_000, 9_000, 3))
    for one in (value, value.coalesce()):
        other = again(one)
        assert (other.shape, other.sparse_dim(), other.dtype) == (one.shape, 2, one.dtype)
        assert other.is_coalesced() == one.is_coalesced()
        assert "to_sparse" not in program(one)


def test_layouts_that_are_not_strided() -> None:
    eye = torch.eye(3)
    for value in (eye.to_sparse(), eye.to_sparse_csr(), eye.to_sparse_csc()):
        other = again(value)
        assert (other.layout, other.shape) == (value.layout, value.shape)
    nested = torch.nested.nested_tensor([torch.randn(2), torch.randn(3)], layout=torch.jagged)
    assert [one.shape for one in again(nested).unbind()] == [(2,), (3,)]
    conj = torch.randn(3, dtype=torch.complex64).conj()
    assert again(conj).is_conj()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns once in a process that it is deprecated
        quantized = torch.quantize_per_tensor(torch.randn(4), 0.1, 3, torch.quint8)
    other = again(quantized)
    assert (other.dtype, other.q_scale(), other.q_zero_point()) == (torch.quint8, 0.1, 3)


def test_fake_tensors() -> None:
    with FakeTensorMode():
        values = [
            torch.randn(2, 3, dtype=torch.float16).t(),
            torch.arange(4),
            torch.zeros(2, dtype=torch.bool),
            torch.empty(2, device="cuda"),
            torch.nn.Parameter(torch.zeros(2)),
        ]
        text = program(*values)
    with FakeTensorMode():
        namespace: dict[str, Any] = {}
        exec(text, namespace)
    for one, other in zip(values, namespace["result"], strict=True):
        assert_alike(one, other)
    assert isinstance(namespace["result"][4], torch.nn.Parameter)


def test_writing_leaves_no_trace() -> None:
    torch.manual_seed(1)
    value = torch.randn(3, requires_grad=True)
    state = torch.get_rng_state()
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LSTM(3, 3))
    torch.set_rng_state(state)
    program(value, torch.ones(4, 4).tril(), model)
    assert torch.get_rng_state().equal(state)


def test_masks_stay_masks() -> None:
    mask = torch.zeros(6, 6)
    mask[2, 1:4] = mask[0, 5] = -math.inf
    other = again(mask)
    assert set(other.flatten().tolist()) == {0, -math.inf}
    assert (other == 0).any(dim=-1).all()


def test_layout() -> None:
    assert layout_of(torch.randn(3, 4)[:, 1:]) == Layout((3, 3), (4, 1), 1)
    assert Layout((3, 3), (4, 1), 1).extent == 12
    assert Layout((0, 3), (4, 1)).extent == 0


@pytest.mark.parametrize(
    ("values", "bounds"),
    [([3, 9], (3, 9)), ([1 << 63, (1 << 64) - 1], (0, 1)), ([1, 1 << 63], (0, 1))],
)
def test_the_range_of_unsigned_integers(values: list[int], bounds: tuple[int, int]) -> None:
    assert contents.range_of(torch.tensor(values, dtype=torch.uint64)) == bounds
