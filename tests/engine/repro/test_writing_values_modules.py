"""Modules as source: constructors of torch's classes, and classes made from live state."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import OrderedDict
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from fullgraph_engine.repro.emit.program import ProgramDraft


def program(value: Any, draft: ProgramDraft | None = None) -> str:
    draft = draft or ProgramDraft()
    expression = draft.expression(value)
    return draft.text([f"result = {expression}"])


def again(value: Any) -> Any:
    namespace: dict[str, Any] = {}
    exec(program(value), namespace)
    return namespace["result"]


def act(value: Any) -> str:
    """The expression alone."""
    return program(value).rpartition("result = ")[2].strip()


def assert_alike(one: nn.Module, other: nn.Module) -> None:
    """The same state: names, shapes, dtypes, gradness, persistence, training."""

    def state(module: nn.Module) -> list[Any]:
        tensors = [*module.named_parameters(), *module.named_buffers()]
        return [
            *((name, one.shape, one.dtype, one.requires_grad) for name, one in tensors),
            *((name, part.training) for name, part in module.named_modules()),
            list(module.state_dict()),
        ]

    assert state(one) == state(other)


SCALE = 0.5


def named_list() -> nn.ModuleList:
    layers = nn.ModuleList()
    layers.add_module("first-layer", nn.Linear(2, 2))
    return layers


LAYERS = [
    (nn.Linear(3, 4), "torch.nn.Linear(3, 4)"),
    (nn.Linear(3, 4, bias=False), "torch.nn.Linear(3, 4, bias=False)"),
    (nn.Linear(3, 4, dtype=torch.float64), "torch.nn.Linear(3, 4).to(torch.float64)"),
    (nn.Linear(3, 4).eval(), "torch.nn.Linear(3, 4).eval()"),
    (nn.Linear(3, 4).requires_grad_(False), "torch.nn.Linear(3, 4).requires_grad_(False)"),
    (nn.Conv2d(3, 8, 3, padding=1), "torch.nn.Conv2d(3, 8, 3, padding=1)"),
    (nn.Conv2d(4, 8, (3, 5), stride=2, groups=2, padding_mode="circular"), None),
    (nn.Conv1d(3, 8, 3, padding="same"), None),
    (nn.ConvTranspose2d(3, 8, 3, output_padding=1, stride=2, bias=False), None),
    (nn.BatchNorm2d(8), "torch.nn.BatchNorm2d(8)"),
    (nn.BatchNorm1d(8, eps=0.1, affine=False, track_running_stats=False), None),
    (nn.LayerNorm(8), "torch.nn.LayerNorm(8)"),
    (nn.LayerNorm((8, 4), elementwise_affine=False), None),
    (nn.GroupNorm(2, 8), "torch.nn.GroupNorm(2, 8)"),
    (nn.RMSNorm(8), None),
    (nn.Embedding(10, 4, padding_idx=0), "torch.nn.Embedding(10, 4, padding_idx=0)"),
    (nn.EmbeddingBag(10, 4, mode="sum"), None),
    (nn.Dropout(), "torch.nn.Dropout()"),
    (nn.ReLU(inplace=True), "torch.nn.ReLU(inplace=True)"),
    (nn.GELU("tanh"), None),
    (nn.LeakyReLU(0.2), None),
    (nn.PReLU(3), None),
    (nn.Softmax(-1), None),
    (nn.MaxPool2d(2), "torch.nn.MaxPool2d(2)"),
    (nn.AdaptiveAvgPool2d((1, None)), None),
    (nn.Upsample(scale_factor=2, mode="bilinear"), None),
    (nn.Flatten(), "torch.nn.Flatten()"),
    (nn.Identity(), "torch.nn.Identity()"),
    (nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), None),
    (nn.LSTM(3, 4, proj_size=2), None),
    (nn.GRU(3, 4), "torch.nn.GRU(3, 4)"),
    (nn.RNN(3, 4, nonlinearity="relu"), None),
    (nn.LSTMCell(3, 4), None),
    (nn.RNNCell(3, 4, nonlinearity="relu"), None),
    (nn.Bilinear(2, 3, 4), None),
    (nn.MultiheadAttention(8, 2, batch_first=True), None),
    (nn.MultiheadAttention(8, 2, kdim=4, vdim=6, add_bias_kv=True, bias=False), None),
    (nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", norm_first=True), None),
    (nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True), None),
    (nn.Transformer(8, 2, 1, 1, 16), None),
    (nn.CrossEntropyLoss(weight=torch.ones(3), label_smoothing=0.1), None),
    (nn.BCEWithLogitsLoss(pos_weight=torch.ones(3)), None),
    (nn.PixelShuffle(2), None),
    (nn.LazyLinear(3), "torch.nn.LazyLinear(3)"),
    (nn.ZeroPad2d(1), None),
    (nn.Unfold(3, padding=1), None),
    (nn.Sequential(nn.ReLU(), nn.Tanh()), "torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())"),
    (nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh())), None),
    (nn.Sequential(), "torch.nn.Sequential()"),
    (
        nn.ModuleList([nn.Linear(2, 2) for _ in range(6)]),
        "torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(6)])",
    ),
    (
        nn.Sequential(*[nn.Linear(2, 2) for _ in range(6)]),
        "torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(6)])",
    ),
    (nn.ModuleDict({"a": nn.ReLU(), "b c": nn.Tanh()}), None),
    (named_list(), None),
    (nn.ParameterList([torch.randn(2), torch.randn(3)]), None),
    (nn.ParameterDict({"a": torch.randn(2)}), None),
    (nn.Sequential(nn.Dropout().eval(), nn.ReLU()), None),
    (nn.Sequential(nn.Linear(2, 2).half(), nn.Linear(2, 2)), None),
    (nn.Sequential(nn.Linear(2, 2).requires_grad_(False), nn.Linear(2, 2)), None),
    (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).bfloat16(), None),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("module", "text"), LAYERS, ids=[type(module).__name__ for module, _ in LAYERS]
)
def test_layers(module: nn.Module, text: str | None) -> None:
    if text is not None:
        assert act(module) == text
    other = again(module)
    assert type(other) is type(module)
    if not isinstance(module, nn.LazyLinear):
        assert_alike(module, other)
    assert repr(other) == repr(module)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_encoders() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 3, norm=nn.LayerNorm(8))
    assert_alike(encoder, again(encoder))
    assert "range" not in act(encoder) and act(encoder).count("TransformerEncoderLayer") == 1


def test_what_differs_from_the_constructor_is_assigned() -> None:
    layer = nn.Linear(3, 4)
    layer.weight.requires_grad_(False)
    layer.bias = None  # type: ignore[assignment]
    assert_alike(layer, again(layer))
    extended = nn.Sequential(nn.Conv2d(1, 2, 1))
    extended[0].register_buffer("mask", torch.ones(3), persistent=False)
    extended[0].training = False
    extended[0].scale = nn.Parameter(torch.ones(3))
    extended[0].inner = nn.Linear(2, 2)
    assert_alike(extended, again(extended))


# -- the user's classes -----------------------------------------------------------------------


class Norm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.register_buffer("steps", torch.arange(size), persistent=False)
        self.register_buffer("nothing", None)
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.nothing is not None:
            return x
        return x * self.weight + self.steps


@dataclasses.dataclass
class Config:
    width: int = 8
    depth: int = 2


class Block(nn.Module):
    RATE = 3

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.norm = Norm(config.width)
        self.linear = nn.Linear(config.width, config.width)
        self.unused = nn.Linear(100, 100)

    @property
    def scale(self) -> float:
        return self.RATE * SCALE

    @staticmethod
    def activate(x: torch.Tensor) -> torch.Tensor:
        return F.relu(x)

    def unreached(self) -> None:
        print(self.unused)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activate(self.linear(self.norm(x))) * self.scale + self.config.depth


class Net(nn.Module):
    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        config = Config()
        self.embed = nn.Embedding(10, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(depth))
        self.head = nn.Linear(config.width, 10, bias=False)
        self.head.weight = self.embed.weight
        self.root = [self]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert self.root[0] is self
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_a_class_is_made_from_state() -> None:
    text = program(Net())
    assert "unused" not in text and "unreached" not in text and "size" not in text
    assert text.count("class Block") == 1
    assert "class Block(torch.nn.Module):" in text and "def __init__(self):" in text
    net = again(Net())
    assert net.head.weight is net.embed.weight
    assert net(torch.zeros(2, 3, dtype=torch.long)).shape == (2, 3, 10)


def test_the_same_numbers_come_out() -> None:
    net = Net(1)
    other = again(net)
    other.load_state_dict(net.state_dict(), strict=False)
    x = torch.arange(6).view(2, 3)
    assert net(x).equal(other(x))


def test_different_instances_are_different_classes() -> None:
    pair = nn.ModuleList([Norm(3), Norm(4), Norm(3)])
    text = program(pair)
    assert text.count("class Norm") == 2
    assert_alike(pair, again(pair))


def test_state_of_the_whole_is_said_once() -> None:
    net = Net().eval().to(torch.bfloat16)
    assert act(net) == "Net().eval().to(torch.bfloat16)"
    other = again(net)
    assert not other.training and not other.blocks[0].norm.training
    assert other.blocks[0].norm.weight.dtype == torch.bfloat16
    assert other.blocks[0].norm.steps.dtype == torch.int64


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2).half()
        self.second = nn.Linear(2, 2)
        self.drop = nn.Dropout().eval()
        self.frozen = nn.Parameter(torch.zeros(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x.half()).float()) + self.drop(x) + self.frozen.sum()


def test_state_of_parts_is_said_where_it_is() -> None:
    assert_alike(Mixed(), again(Mixed()))


class Base(nn.Module):
    offset: int

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.offset

    def helper(self) -> int:
        return 1


class Derived(Base):
    def __init__(self) -> None:
        super().__init__()
        self.offset = 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * 2 + self.helper()


class Inherited(Base):
    def __init__(self) -> None:
        super().__init__()
        self.offset = 4


class Gain(nn.Linear):
    def __init__(self) -> None:
        super().__init__(3, 4)
        self.gain = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * self.gain


class Sampled(nn.Linear):
    def __init__(self) -> None:
        super().__init__(3, 4)
        self.samples = {"weight": self.weight}
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(F.linear(x, self.samples["weight"]))


class Chain(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(3, 3), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return out + 1


def test_bases() -> None:
    x = torch.ones(2, 3)
    assert again(Derived())(x).equal(Derived()(x))
    assert again(Inherited())(x).equal(x + 4)
    assert "class Base" not in program(Inherited())
    sampled = again(Sampled())
    assert sampled(x).shape == (2, 4) and sampled.samples["weight"] is sampled.weight
    gain = again(Gain())
    assert gain(x).shape == (2, 4) and isinstance(gain, nn.Linear)
    assert_alike(Chain(), again(Chain()))
    assert again(Chain())(x).shape == (2, 3)


class ByName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer0 = nn.Linear(3, 3)
        self.layer1 = nn.Linear(3, 3)
        self.other = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index in range(2):
            x = getattr(self, f"layer{index}")(x)
            name = "layer{}".format(index)  # noqa: UP032
            x = getattr(self, name)(x)
        return x


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * sum(one.numel() for one in self.parameters())


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Uses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.__secret = 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder.encode(x) * self.__secret


class Vocabulary:
    def __init__(self) -> None:
        self.scale = 2

    def look(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


class Looks(nn.Module):
    def forward(self, x: torch.Tensor, words: Vocabulary) -> torch.Tensor:
        return words.look(x)


class Passes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.looks = Looks()
        self.words = Vocabulary()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.looks(x, self.words)


def test_what_one_object_calls_of_another() -> None:
    assert again(Passes())(torch.ones(1)).item() == 2
    draft = ProgramDraft()
    model, words = draft.expressions([Looks(), Vocabulary()])
    namespace: dict[str, Any] = {}
    exec(draft.text([f"result = {model}(torch.ones(1), {words})"]), namespace)
    assert namespace["result"].item() == 2


def test_statements_say_what_is_reached() -> None:
    draft = ProgramDraft()
    draft.add("def f(encoder, x):\n    return encoder.encode(x)")
    encoder = draft.expression(Encoder())
    namespace: dict[str, Any] = {}
    exec(draft.text([f"result = f({encoder}, torch.ones(2, 3))"]), namespace)
    assert namespace["result"].shape == (2, 3)


def test_what_is_reached() -> None:
    x = torch.ones(2, 3)
    text = program(ByName())
    assert "layer1" in text and "other" not in text
    assert again(Counts())(x).equal(x * 12)
    assert again(Uses())(x).shape == (2, 3)


class Odd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stream = (one for one in [1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.stream else -x


def test_what_cannot_be_written_is_left_out_and_said() -> None:
    draft = ProgramDraft()
    assert "self.stream" not in program(Odd(), draft).partition("def forward")[0]
    assert any("Odd.stream" in note for note in draft.notes)


def double(module: nn.Module, args: Any) -> Any:
    return tuple(2 * one for one in args)


def test_hooks() -> None:
    layer = nn.Identity()
    layer.register_forward_pre_hook(double)
    assert again(layer)(torch.ones(1)).item() == 2
    block = Norm(1)
    block.register_forward_pre_hook(double)
    assert again(block)(torch.ones(1)).item() == 2


class Doubled:
    def __init__(self) -> None:
        self.outputs: dict[str, torch.Tensor] = {}

    def collect(self, name: str, module: nn.Module, args: Any, output: torch.Tensor) -> Any:
        self.outputs[name] = output
        return 2 * output


def test_methods_that_are_hooks_of_layers() -> None:
    layer = nn.Sequential(Norm(1), nn.Identity())
    layer[1].register_forward_hook(functools.partial(Doubled().collect, "last"))
    outer = nn.Sequential(layer)
    assert again(outer)(torch.ones(1)).equal(outer(torch.ones(1)))


def test_one_module_in_two_places() -> None:
    shared = nn.Linear(2, 2)
    other = again(nn.Sequential(shared, nn.ReLU(), shared))
    assert other[0] is other[2]


def test_compiled_modules_are_written_as_they_were() -> None:
    assert act(torch.compile(nn.Linear(2, 2))) == "torch.nn.Linear(2, 2)"


def test_large_modules_are_not_copied() -> None:
    with FakeTensorMode():
        huge = nn.TransformerEncoderLayer(1 << 14, 128, 1 << 16)
        text = act(huge)
    assert text.startswith("torch.nn.TransformerEncoderLayer(16384, 128")


def test_classes_of_functions() -> None:
    limit = 3

    class Inner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.clamp(max=limit) * math.pi

    assert again(Inner())(torch.tensor(9.0)).item() == pytest.approx(3 * math.pi)


def test_optimizers() -> None:
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5, momentum=0.9)
    _, step = again([layer, optimizer])
    assert step.defaults["lr"] == 0.5 and step.defaults["momentum"] == 0.9
    assert [one.shape for one in step.param_groups[0]["params"]] == [(2, 2), (2,)]
