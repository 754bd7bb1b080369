"""What a preamble works out between edits, so that runs need not, and that nothing of it shows."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.hosts import Engine, Result, children_of

from fullgraph_engine.protocol import Event, Timings
from fullgraph_engine.torch_internals import fake_cache
from fullgraph_engine.torch_internals.fake_tensors import FakeTensorMode
from fullgraph_engine.tracing import drive, operator_calls

# -- in one process -----------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Nothing is known of operators that other tests have called."""
    drive.install_hooks()
    fake_cache.cache_entries().clear()
    yield
    fake_cache.cache_entries().clear()
    operator_calls.drop_all_entries()


def _noted() -> tuple[str, dict[Any, Any]]:
    """The calls of a small program, packed, and what torch has kept of them."""
    operator_calls.begin_recording()
    with FakeTensorMode():
        x = torch.randn(2, 3, 8, 8)
        y = torch.nn.functional.conv2d(x, torch.randn(4, 3, 3, 3), padding=1)
        z = y[:, 1:].transpose(1, 2).reshape(2, -1).softmax(-1, dtype=torch.float64)
        torch.cat([z, z.abs_()], dim=1).to(torch.float16).view(4, -1)
    # Of some it is only kept that the result cannot be.
    entries = fake_cache.cache_entries()
    kept = {key: one for key, one in entries.items() if hasattr(one, "output_infos")}
    fake_cache.cache_entries().clear()
    return operator_calls.pack_calls(), kept


def _repeat(packed: str) -> int:
    return sum(1 for _ in operator_calls.repeat_calls(packed))


def test_the_same_is_kept_as_where_the_calls_were_made() -> None:
    packed, kept = _noted()
    assert _repeat(packed) == len(json.loads(packed)[1]) > 10
    assert fake_cache.cache_entries() == kept


def test_nothing_is_kept_that_comes_out_different() -> None:
    packed, kept = _noted()
    settings, calls = json.loads(packed)
    changed = next(call for call in calls if call[1] == "aten.cat.default")
    changed[-1] = "0" * len(changed[-1])
    _repeat(json.dumps([settings, calls]))
    assert len(fake_cache.cache_entries()) == len(kept) - 1


def test_calls_are_made_once() -> None:
    packed, _ = _noted()
    assert _repeat(packed) > 0
    assert _repeat(packed) == 0


@pytest.mark.parametrize(
    "packed",
    [
        "",
        "[",
        "[[null], 3]",
        '[[null], [[0, "aten.from_file.default", ["/etc/passwd"], {}, "x"]]]',
        '[[null], [[0, "aten.no_such.default", [], {}, "x"]]]',
        '[[null], [[5, "aten.add.Tensor", [], {}, "x"]]]',
        '[[null], [[0, "os.system.x", ["true"], {}, "x"]]]',
        '[[{"no": 1}], [[0, "aten.add.Tensor", [], {}, "x"]]]',
        '[[null], [[0, "aten.add.Tensor", [{"torch": "no"}, {}], {}, "x"]]]',
    ],
)
def test_what_user_code_has_written_does_no_harm(packed: str) -> None:
    _repeat(packed)
    assert fake_cache.cache_entries() == {}


def test_random_numbers_are_not_used_up() -> None:
    packed, _ = _noted()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    _repeat(packed)
    assert torch.equal(torch.rand(3), expected)


def test_it_is_forgotten_when_a_rule_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    packed, kept = _noted()
    _repeat(packed)
    operator_calls.drop_outdated_entries()
    assert len(fake_cache.cache_entries()) == len(kept)
    monkeypatch.setattr("torch._prims_common.is_contiguous", lambda *_args, **_options: True)
    operator_calls.drop_outdated_entries()
    assert fake_cache.cache_entries() == {}


def test_it_is_forgotten_when_an_operator_of_torch_is_registered_anew() -> None:
    packed, _ = _noted()
    _repeat(packed)
    other = torch.library.Library("fullgraph_other", "DEF")
    other.define("own(Tensor x) -> Tensor")
    other.impl("own", lambda x: x, "Meta")
    operator_calls.drop_outdated_entries()
    assert fake_cache.cache_entries()
    own = torch.library.Library("aten", "IMPL")
    own.impl("cosh", lambda x: x.new_empty(3), "Meta")
    try:
        operator_calls.drop_outdated_entries()
    finally:
        own._destroy()
        other._destroy()
    assert fake_cache.cache_entries() == {}


def test_it_is_forgotten_when_a_flag_changes() -> None:
    packed, _ = _noted()
    _repeat(packed)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(not before)
    try:
        operator_calls.drop_outdated_entries()
    finally:
        torch.use_deterministic_algorithms(before)
    assert fake_cache.cache_entries() == {}


# -- in an engine -------------------------------------------------------------------------------

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"
NETS = {
    "convolutions": """
# fullgraph: forward(f32[2, 3, 16, 16])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())

    def forward(self, x):
        y = self.layers(x)
        print("break")
        return y.flatten(1).mean(-1)
""",
    "attention": """
# fullgraph: forward(f32[b=4, 6, 8])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        y, w = self.mix(x, x, x)
        if y.sum() > 0:
            y = y + 1
        return torch.einsum("bij,bjk->bik", w, y), F.scaled_dot_product_attention(x, y, x)
""",
    "lstm": """
# fullgraph: forward(f32[5, 2, 8])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = nn.Embedding(10, 8)
        self.steps = nn.LSTM(8, 4, 2)

    def forward(self, x):
        y, (h, c) = self.steps(x + self.names.weight[0])
        h.add_(1).mul_(y.new_ones(()))
        return y[..., ::2], h.chunk(2)[0], c.int()
""",
}
BEFORE = {
    "nothing": "",
    "another dtype": "torch.set_default_dtype(torch.float64)\n",
    "deterministic": "torch.use_deterministic_algorithms(True)\n",
    "another attention": "torch.backends.cuda.enable_flash_sdp(False)\n",
    "an operator of torch registered anew": """
own = torch.library.Library("aten", "IMPL")
own.impl("relu", lambda x: x.new_empty(x.shape).squeeze(), "Meta")
own.impl("mean.dim", lambda x, *_, **__: x.new_empty(3), "Meta")
own.impl("mul_.Tensor", lambda x, y: x, "Meta")
""",
    "a function of torch replaced": """
import torch._meta_registrations, torch._refs
for name in ("mean", "add", "softmax"):
    setattr(torch._refs, name, lambda *_args, **_options: torch.empty(7, device="meta"))
""",
}


def _still(engine: Engine) -> None:
    """Wait until the preambles have nothing to do: one that has, never sleeps."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(OSError):  # one of them has just ended
            kept = children_of(engine.process.pid)
            states = [Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] for pid in kept]
            if set(states) <= {"S"} and not any(children_of(pid) for pid in kept):
                return
        time.sleep(0.01)
    pytest.fail("a preamble goes on and on")


def _plain(event: Event) -> str:
    words = re.sub(r"request=\d+", "", repr(event))
    # Where objects are, and how long something took.
    return re.sub(r"0x[0-9a-f]+|\b\d{10,}\b|seconds=[\d.e-]+", "", words)


def _told(result: Result) -> list[str]:
    """Everything that is told, in any order, but for what depends on the time."""
    left = ("Analyzed", "TargetStarted", "Importing", "Log")
    return sorted(_plain(one) for one in result.events if type(one).__name__ not in left)


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
def test_findings_are_those_of_a_new_process(net: str, tmp_path: Path) -> None:
    engine = Engine(pipeline="")
    try:
        edited, parts = str(tmp_path / "edited.py"), ("first", "second")

        def analyze(text: str, path: str) -> Result:
            return engine.until_end(engine.begin(text, path=path, parts=parts))

        for number in range(2):
            analyze(f"{HEAD}x = {number}\n{NETS[net]}", edited)
            _still(engine)
        for name, before in BEFORE.items():
            text, folder = HEAD + before + NETS[net], tmp_path / name
            folder.mkdir(exist_ok=True)
            fresh = _told(analyze(text, str(folder / "edited.py")))
            again = _told(analyze(text, edited))
            _still(engine)
            assert [one.replace(f"{folder}/", f"{tmp_path}/") for one in fresh] == again, name
            assert any(one.startswith("TargetDone") for one in again)
    finally:
        engine.process.kill()


@pytest.mark.slow
def test_an_edited_text_is_traced_with_less_work(tmp_path: Path) -> None:
    engine = Engine(pipeline="")
    try:
        path, text = str(tmp_path / "net.py"), HEAD + NETS["convolutions"]
        misses: list[int | None] = []
        # How soon depends on how busy the machine is.
        while 0 not in misses and len(misses) < 20:
            number = len(misses)
            begun = engine.begin(f"{text}# {number}\n", path=path, timings=True, parts=("first",))
            (traced,) = [
                event
                for event in engine.until_end(begun).events
                if isinstance(event, Timings) and event.run is not None
            ]
            misses.append(traced.cache_misses)
            _still(engine)
        # The first text has no preamble; the runs of the second one say what they have worked out.
        assert misses[0] == misses[1] != 0
        assert misses[-1] == 0
    finally:
        engine.process.kill()
