"""The guards that are recorded are those that a plain run prints under ``TORCH_LOGS=guards``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[3] / "engine"

MODELS = {
    "nested_modules": """
        class Block(torch.nn.Module):
            def __init__(self, heads):
                super().__init__()
                self.linear = torch.nn.Linear(4, 4)
                self.norm = torch.nn.LayerNorm(4)
                self.heads = heads

            def forward(self, x):
                return self.norm(self.linear(x)) * self.heads

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = torch.nn.ModuleList(Block(n) for n in range(3))
                self.by_name = torch.nn.ModuleDict({"a": torch.nn.ReLU()})

            def forward(self, x):
                for block in self.blocks:
                    x = block(x) if self.training else x
                return self.by_name["a"](x)

        function, args = Net(), (torch.ones(2, 4),)
    """,
    "globals": """
        LEVEL, CONFIG, NAMES = 3, {"width": 4, "kind": "wide"}, ["a", "b"]
        BIAS = torch.ones(4)

        class Options:
            scale = 2.0
            eps = None

        OPTIONS = Options()

        def function(x):
            if CONFIG["kind"] == "wide" and OPTIONS.eps is None:
                x = x * LEVEL + BIAS * OPTIONS.scale
            return x + len(NAMES)

        args = (torch.ones(4),)
    """,
    "closures": """
        def made(factor, weight, inner):
            def function(x):
                return inner(x @ weight) * factor
            return function

        function = made(2.5, torch.ones(4, 4), torch.nn.functional.relu)
        args = (torch.ones(2, 4),)
    """,
    "containers": """
        def function(inputs, sizes, names, table, pair=(1, True)):
            total = inputs[0] + inputs[1] * sizes[0]
            for name in names:
                total = total + table[name]
            return total if pair[1] else total * pair[0]

        args = (
            [torch.ones(4), torch.ones(4)],
            (3, 4),
            ["b", "a"],
            {"a": torch.ones(4), "b": 2},
        )
    """,
    "values": """
        class Kind(enum.Enum):
            ONE = 1
            TWO = 2

        def function(x, n, rate, kind, word, flag, nothing, dtype):
            if flag and nothing is None and kind is Kind.ONE:
                x = x.to(dtype) * n * rate
            return x + len(word) if word.startswith("w") else x

        args = (torch.ones(4), 7, 0.5, Kind.ONE, "word", True, None, torch.float64)
    """,
    "dynamic_shapes": """
        def function(x, y):
            if x.shape[0] > 3 and x.shape[0] != 9:
                x = x + y
            return x.view(x.shape[0] * 2, -1) if y.shape[1] % 2 == 0 else x

        x, y = torch.ones(6, 4), torch.ones(6, 4)
        for dim in (0, 1):
            torch._dynamo.maybe_mark_dynamic(x, dim)
            torch._dynamo.maybe_mark_dynamic(y, dim)
        args = (x, y)
    """,
    "breaks_and_resume_functions": """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(4, 4)
                self.step = 0

            def helper(self, x, n):
                x = self.linear(x) * n
                print(end="")
                return x + n

            def forward(self, x, n):
                self.step += 1
                for number in range(3):
                    x = self.helper(x, number)
                torch._dynamo.graph_break()
                return x.sum() * n

        function, args = Net(), (torch.ones(2, 4), 3)
    """,
    "aliases": """
        def function(x, y, views):
            x.add_(1)
            return x * y + views[0] + views[1]

        base = torch.ones(8)
        x = torch.ones(4)
        args = (x, x, [base[:4], base[4:]])
    """,
    "library_modules": """
        function = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3, padding=1),
            torch.nn.BatchNorm2d(4),
            torch.nn.MultiheadAttention(4, 2) if False else torch.nn.GELU(),
            torch.nn.Dropout(0.1),
            torch.nn.Flatten(),
        )
        function.register_forward_hook(lambda module, args, result: result + 1)
        args = (torch.ones(2, 3, 4, 4),)
    """,
    "parameters": """
        TABLE = torch.nn.Parameter(torch.ones(7, 4))
        torch._dynamo.maybe_mark_dynamic(TABLE, 0)

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = torch.nn.Parameter(torch.ones(4))
                self.shifts = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(4))])
                self.register_buffer("mean", torch.zeros(4))
                self.linear = torch.nn.Linear(4, 4)

            def forward(self, x, y, given):
                y = self.linear(y) * TABLE.sum() + given
                return (x - self.mean) * self.scale + self.shifts[0] + y

        given = torch.nn.Parameter(torch.ones(4))
        function, args = Net(), (torch.ones(2, 4), torch.ones(2, 4), given)
    """,
    "recompiled": """
        def layer(x, name):
            print(end="")
            return x * len(name)

        def function(x):
            for name in ("a", "bb", "ccc"):
                x = layer(x, name)
            return x

        args = (torch.ones(4),)
    """,
}

PLAIN = """
from contextlib import nullcontext as tensor_mode

def trace(function, args):
    torch.compile(function, backend="eager")(*args)
"""

OURS = """
sys.path.insert(0, {engine!r})
from fullgraph_engine import tracing

def tensor_mode():
    return tracing.tensor_mode({fake})

def trace(function, args):
    recording = tracing.trace(function, args, {{}})
    assert not recording.losses, recording.losses
    assert recording.guard_count == len(recording.guards)
    for guard in recording.guards:
        for expression in guard.expressions:
            print("GUARD", repr((guard.kind, expression)), file=sys.stderr)
"""

ALL = """
import runpy
import sys
import torch
{how}
for name in {names!r}:
    print("MODEL", name, file=sys.stderr)
    with tensor_mode():
        model = runpy.run_path(name + ".py")
        trace(model["function"], model["args"])
    torch._dynamo.reset()
"""

_LEAF = re.compile(r"\[__guards\] (?:\| )*\+- (?P<kind>[A-Z_]+): (?P<words>.*)$")
_TENSOR_CLASS = re.compile(
    r"<class '[\w.]+\.(?:FakeTensor|Tensor|Parameter)'>"
    r"|\b(?:FakeTensor|Tensor|Parameter)(?=, DispatchKeySet)"
)
_FAKE_KEY = re.compile(r", Python(?:TLSSnapshot)?\b")
_NUMBER = re.compile(r"\b\d{7,}\b|(?<=__builtins_dict___)\d+|_[0-9a-f]{8,}\b|0x[0-9a-f]+")


def test_there_are_models() -> None:
    assert len(MODELS) >= 8


Logs = tuple[dict[str, str], ...]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    """What a plain run and what ours says of each model, with real tensors and with fake ones."""
    folder = tmp_path_factory.mktemp("models")
    for name, model in MODELS.items():
        text = "import enum\nimport torch\n" + textwrap.dedent(model)
        (folder / f"{name}.py").write_text(text)
    real, fake = (OURS.format(engine=str(ENGINE), fake=fake) for fake in (False, True))
    return ran(folder, PLAIN, TORCH_LOGS="guards"), ran(folder, real), ran(folder, fake)


@pytest.mark.slow
@pytest.mark.real_engine
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MODELS)
def test_none_lost_and_none_invented(name: str, logs: Logs) -> None:
    printed = Counter(printed_guards(logs[0][name]))
    recorded = Counter(recorded_guards(logs[1][name]))
    assert sum(printed.values()) > 5
    assert recorded - printed == Counter(), "invented"
    assert printed - recorded == Counter(), "lost"


@pytest.mark.real_engine
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MODELS)
def test_fake_tensors_have_the_guards_of_real_ones(name: str, logs: Logs) -> None:
    printed = Counter(map(of_any_tensor, printed_guards(logs[0][name])))
    recorded = Counter(map(of_any_tensor, recorded_guards(logs[2][name])))
    assert "FakeTensor" in logs[2][name]
    assert recorded - printed == Counter(), "invented"
    assert printed - recorded == Counter(), "lost"


def ran(folder: Path, how: str, **environment: str) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", ALL.format(how=how, names=list(MODELS))],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    parts = re.split(r"^MODEL (\w+)$", done.stderr, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def printed_guards(log: str) -> list[tuple[str, str]]:
    """Every line of every tree that is a guard, without the source line behind it."""
    found = []
    for line in log.splitlines():
        match = _LEAF.search(line)
        if match is not None:
            found.append((match["kind"], settled(words_of(match["words"]))))
    return found


def recorded_guards(output: str) -> list[tuple[str, str]]:
    lines = [line for line in output.splitlines() if line.startswith("GUARD ")]
    return [(kind, settled(words)) for kind, words in (eval(line[6:]) for line in lines)]


def words_of(words: str) -> str:
    return words.partition("  # ")[0].partition(" (HINT: ")[0].rstrip()


def settled(words: str) -> str:
    """Without what differs between two processes."""
    return _NUMBER.sub("N", words.rstrip())


def of_any_tensor(guard: tuple[str, str]) -> tuple[str, str]:
    """Without the class of a tensor, and the keys by which operators find a fake mode."""
    kind, words = guard
    return kind, _FAKE_KEY.sub("", _TENSOR_CLASS.sub("a tensor", words))
