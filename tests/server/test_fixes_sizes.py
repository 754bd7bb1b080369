"""What is tried where a line has made a constant of a size."""

from __future__ import annotations

import pytest

from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.rewrites.counters import counters
from fullgraph.fixes.rewrites.kept import recompute_cached
from fullgraph.fixes.rewrites.sizes import sizes
from fullgraph.fixes.site import Site, Text
from fullgraph_engine.protocol import Finding, Range
from fullgraph_engine.protocol.evidence import (
    Evidence,
    ForecastEvidence,
    GuardEvidence,
    SpecializationEvidence,
)

EVIDENCE = SpecializationEvidence("s0", "L['x'].size()[0]", "4")


def tried(body: str, place: str, params: str = "x", evidence: Evidence = EVIDENCE) -> list[str]:
    """The bodies that are tried for a function, for a finding at ``place`` in it."""
    head = f"import torch\ndef f({params}):\n"
    text = head + "".join(f"    {line}\n" for line in body.split("\n"))
    start = text.index(place, len(head))
    positions = TextPositions(text)
    range_ = Range(positions.position_at(start), positions.position_at(start + len(place)))
    site = Site(Text(text), Finding("guard/specialized-dimension", "", range_, evidence=evidence))
    found = []
    for candidate in sizes(site):
        assert candidate.extends == (candidate.rewrite != "diagonal-of-part")
        assert candidate.text.startswith(head)
        found.append("\n".join(one[4:] for one in candidate.text[len(head) :].rstrip().split("\n")))
    return found


@pytest.mark.parametrize(("changed", "count"), [("rate", 1), ("other", 0), ("x.shape", 0)])
def test_functions_of_a_number_that_each_call_gives(changed: str, count: int) -> None:
    evidence = ForecastEvidence((), (changed,), "0.5", ("1.0", "1.5", "2.0"))
    found = tried("return x * math.exp(-rate)", "rate", "x, rate", evidence)
    changed_text = "return x * torch.exp(torch.scalar_tensor(-rate, dtype=torch.float64))"
    assert found == [changed_text] * count


@pytest.mark.parametrize(
    ("before", "place", "after"),
    [
        ("return x.view(4, -1)  # four", "x.view(4, -1)", "return x.view(x.shape[0], -1)  # four"),
        ("return x.reshape(24)", "x.reshape(24)", "return x.reshape(6 * x.shape[0])"),
        (
            "w = torch.zeros(4, 6)\nreturn x + w",
            "x + w",
            "w = torch.zeros(x.shape[0], 6)\nreturn x + w",
        ),
        (
            "return torch.stack([row * 2 for row in x])",
            "[row * 2 for row in x]",
            "return torch.vmap(lambda row: row * 2)(x)",
        ),
        (
            "return torch.stack([r.sum() for r in x.unbind(0)], dim=0)",
            "x.unbind(0)",
            "return torch.vmap(lambda r: r.sum())(x)",
        ),
        (
            "o = []\nfor i in range(x.shape[0]):\n    o.append(x[i] * 2)\nreturn torch.stack(o)",
            "range(x.shape[0])",
            "return torch.vmap(lambda row: row * 2)(x)",
        ),
        (
            "w = [1.0] * x.shape[0]\nreturn x * torch.tensor(w).unsqueeze(1)",
            "[1.0] * x.shape[0]",
            "w = torch.full((x.shape[0],), 1.0)\nreturn x * w.unsqueeze(1)",
        ),
        (
            "a, b = x.split([2, 2])\nreturn a + b",
            "x.split([2, 2])",
            "a, b = x.chunk(2)\nreturn a + b",
        ),
        ("return x.reshape(2, 2, 6)", "x.reshape(2, 2, 6)", "return x.reshape(2, -1, 6)"),
        ("return x.unflatten(0, (2, 2))", "x.unflatten", "return x.unflatten(0, (-1, 2))"),
        (
            "return x * math.log(x.shape[0])",
            "math.log(x.shape[0])",
            "return x * torch.log(torch.scalar_tensor(x.shape[0], dtype=torch.float64))",
        ),
        (
            "t = 0\nfor i in range(x.size(0)):\n    t = t + x[i].sum()\nreturn t",
            "range(x.size(0))",
            "t = 0\nt = t + torch.vmap(lambda row: row.sum())(x).sum(0)\nreturn t",
        ),
        (
            "t = 0\nfor i, r in enumerate(x):\n    t += r * i\nreturn t",
            "enumerate(x)",
            "t = 0\nt = t + torch.vmap(lambda i, r: r * i)"
            "(torch.arange(x.shape[0], device=x.device), x).sum(0)\nreturn t",
        ),
        (
            "return torch.stack([row * 2 for row in x], dim=1)",
            "[row * 2 for row in x]",
            "return torch.vmap(lambda row: row * 2, out_dims=1)(x)",
        ),
        (
            "return torch.stack([a * b for a, b in zip(x, y)])",
            "zip(x, y)",
            "return torch.vmap(lambda a, b: a * b)(x, y)",
        ),
        (
            "return torch.cat([r[None] for r in x], dim=1)",
            "[r[None] for r in x]",
            "return torch.vmap(lambda r: r[None], out_dims=1)(x).flatten(1, 2)",
        ),
        (
            "o = []\nfor i in range(len(x)):\n    h = x[i] * 2\n    o.append(h + y[:, i])\n"
            "return torch.stack(o)",
            "range(len(x))",
            "def of_row(x_row, y_row):\n    h = x_row * 2\n    return h + y_row\n"
            "return torch.vmap(of_row, in_dims=(0, 1))(x, y)",
        ),
        (
            "n = len(x)\nfor i in range(n):\n    o[i] = x[i] / n\nreturn o",
            "range(n)",
            "n = len(x)\no[:] = torch.vmap(lambda row: row / n)(x)\nreturn o",
        ),
        (
            "for row in x:\n    t = t + t * row\nreturn t",
            "for row in x",
            "def step(t, row):\n    t = t + t * row\n    return t, t.clone()\n"
            "t, _ = torch._higher_order_ops.scan(step, t, x)\nreturn t",
        ),
        (
            "return torch.cat([x[i : i + 2] * 3 for i in range(0, len(x), 2)])",
            "range(0, len(x), 2)",
            "return x * 3",
        ),
        (
            "w = torch.tensor([y for _ in range(len(x))])\nreturn x * w",
            "range(len(x))",
            "w = torch.full((len(x),), y)\nreturn x * w",
        ),
        (
            "a, b = torch.split(x, [1, 3])\nreturn a + b",
            "torch.split",
            "a, b = torch.split(x, [1, x.shape[0] - 1])\nreturn a + b",
        ),
        (
            "return x * torch.linspace(0, 1, len(x))",
            "torch.linspace",
            "return x * (0 + torch.arange(len(x)) * ((1 - 0) / max(len(x) - 1, 1)))",
        ),
        (
            "n = len(x)\nreturn torch.diag(x @ x.T, n - 1) + (x @ x.T).diagonal(-n)",
            "torch.diag",
            "n = len(x)\nreturn torch.diag((x @ x.T)[:, n - 1 :]) + (x @ x.T)[n:].diagonal()",
        ),
        ("return x.view(n, 6)", "x.view(n, 6)", "return x.view(-1, 6)"),
    ],
)
def test_what_is_tried(before: str, place: str, after: str) -> None:
    assert after in tried(before, place)


def test_attributes_and_parameters_of_modules() -> None:
    assert "return x.view(x.shape[0], -1)" in tried(
        "return x.view(self.batch, -1)", "x.view(self.batch, -1)", "self, x"
    )
    assert "return x + self.pe[: x.shape[0]]" in tried(
        "return x + self.pe", "x + self.pe", "self, x"
    )
    assert "return self.embed(self.ids[: x.shape[0]])" in tried(
        "return self.embed(self.ids)", "self.embed(self.ids)", "self, x"
    )


CONSTANTS = """import torch

BATCH = 4
OTHER = 5
CONFIG = {"batch": 4, "other": 5}


class Net(torch.nn.Module):
    def __init__(self, batch=4):
        super().__init__()
        self.batch, self.first = 4, 0
        self.rows = batch

    def forward(self, x, n=4):
        return x.expand(BATCH, CONFIG['batch'], self.rows, n, OTHER, CONFIG["other"])
"""


def test_constants_that_are_not_written_as_numbers() -> None:
    place = "x.expand"
    start, positions = CONSTANTS.index(place), TextPositions(CONSTANTS)
    range_ = Range(positions.position_at(start), positions.position_at(start + len(place)))
    finding = Finding("guard/specialized-dimension", "", range_, evidence=EVIDENCE)
    titles = [one.title for one in sizes(Site(Text(CONSTANTS), finding))]
    words = ("`BATCH`", "`CONFIG['batch']`", "`self.rows`", "`n`", "each 4")
    assert titles[:5] == [f"Write `x.shape[0]` for {one}" for one in words]
    assert not any("OTHER" in one or "other" in one for one in titles)


@pytest.mark.parametrize(
    "text",
    [
        CONSTANTS.replace("BATCH = 4", "BATCH = 4\nBATCH = 5"),
        CONSTANTS.replace("        return", "        BATCH = 5\n        return"),
    ],
)
def test_a_name_that_is_assigned_twice_is_no_constant(text: str) -> None:
    place = "x.expand"
    start, positions = text.index(place), TextPositions(text)
    range_ = Range(positions.position_at(start), positions.position_at(start + len(place)))
    finding = Finding("guard/specialized-dimension", "", range_, evidence=EVIDENCE)
    assert not any("`BATCH`" in one.title for one in sizes(Site(Text(text), finding)))


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("return x[4]", "x[4]"),
        ("return x.sum(dim=4)", "x.sum(dim=4)"),
        ("assert x.shape[0] == 4\nreturn x", "x.shape[0] == 4"),
        ("for row in x:\n    h = row\nreturn h", "for row in x"),
        ("return torch.stack([row * 2 for row in x], dim=n)", "[row * 2 for row in x]"),
        ("o = []\nfor r in x:\n    o.append(r)\nreturn o, torch.stack(o)", "for r in x"),
        ("for i in range(len(x)):\n    x[i] = x[i - 1]\nreturn x", "range(len(x))"),
        ("o = x * 0\nfor i in range(len(x)):\n    o[i] = x[i] + o[0]\nreturn o", "range(len(x))"),
        ("for i in range(len(x)):\n    h = x[i]\n    o[i] = h\nreturn h", "range(len(x))"),
        ("for i in range(n):\n    o[i] = x[i]\nreturn o", "range(n)"),
        ("return torch.stack([row * 2 for row in x if row.shape])", "[row * 2 for row in x if"),
    ],
)
def test_what_is_left_alone(body: str, place: str) -> None:
    assert tried(body, place) == []


MODULE = """import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1  # counted
        return {}
"""


@pytest.mark.parametrize(
    ("returned", "rewrites"),
    [
        ("x", ["not-when-compiling", "counter-in-a-tensor", "counter-in-a-tensor"]),
        ("x * self.step", ["counter-in-a-tensor", "counter-in-a-tensor"]),
    ],
)
def test_a_counter(returned: str, rewrites: list[str]) -> None:
    text = MODULE.format(returned)
    place = "self.step += 1"
    start, positions = text.index(place), TextPositions(text)
    range_ = Range(positions.position_at(start), positions.position_at(start + len(place)))
    evidence = GuardEvidence("L['self'].step")
    finding = Finding("guard/mutated", "", range_, evidence=evidence)
    found = list(counters(Site(Text(text), finding)))
    assert [one.rewrite for one in found] == rewrites
    for one, change in zip(found[-2:], ("+= 1", "= self.step + 1"), strict=True):
        assert 'register_buffer("step", torch.tensor(0), persistent=False)' in one.text
        assert f"self.step {change}  # counted" in one.text
    if len(found) > 2:
        guarded = "if not torch.compiler.is_compiling():\n            self.step += 1  # counted"
        assert guarded in found[0].text


@pytest.mark.parametrize(
    ("body", "place", "guarded"),
    [
        ("global CALLS\nCALLS += 1\nreturn x", "CALLS += 1", True),
        ("Net.calls += 1\nreturn x", "Net.calls += 1", True),
        ("SEEN.append(x.shape)\nreturn x", "SEEN.append", True),
        ("SEEN.append(x.shape)\nreturn x * len(SEEN)", "SEEN.append", False),
        ("SEEN.sort()\nreturn x", "SEEN.sort", False),
    ],
)
def test_counters_outside_of_the_module(body: str, place: str, guarded: bool) -> None:
    head = "import torch\ndef f(x):\n"
    text = head + "".join(f"    {line}\n" for line in body.split("\n"))
    start, positions = text.index(place), TextPositions(text)
    range_ = Range(positions.position_at(start), positions.position_at(start + len(place)))
    finding = Finding("guard/mutated", "", range_, evidence=GuardEvidence("G['CALLS']"))
    found = [one.rewrite for one in counters(Site(Text(text), finding))]
    assert found == (["not-when-compiling"] if guarded else [])


def test_what_happens_only_the_first_time() -> None:
    text = """import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if self.first:
            self.first = False
        return x
"""
    place = "self.first = False"
    start, positions = text.index(place), TextPositions(text)
    range_ = Range(positions.position_at(start), positions.position_at(start + len(place)))
    finding = Finding("guard/mutated", "", range_, evidence=GuardEvidence("L['self'].first"))
    (found,) = counters(Site(Text(text), finding))
    assert "if not torch.compiler.is_compiling() and self.first:" in found.text


KEPT = """import torch


class Net(torch.nn.Module):
    def forward(self, x, scale=1):
        n = x.shape[0]
        {}
"""


def not_kept(body: str, place: str) -> list[str]:
    """What becomes of the function, where the call keeps something for the next."""
    text = KEPT.format(body.replace("\n", "\n        "))
    start, positions = text.index(place), TextPositions(text)
    range_ = Range(positions.position_at(start), positions.position_at(start + len(place)))
    finding = Finding("guard/mutated", "", range_, evidence=GuardEvidence("L['self'].mask"))
    found = list(recompute_cached(Site(Text(text), finding)))
    assert all(one.loses == ("state",) and one.gives_up for one in found)
    return ["\n".join(line[8:] for line in one.text.split("\n")[5:]).rstrip() for one in found]


@pytest.mark.parametrize(
    ("before", "place", "after"),
    [
        (
            "if self.mask is None or self.mask.shape[0] != n:\n"
            "    self.mask = torch.ones(n, n, device=x.device)\n"
            "return x @ self.mask",
            "self.mask is None",
            "n = x.shape[0]\nself.mask = torch.ones(n, n, device=x.device)\nreturn x @ self.mask",
        ),
        (
            "if n not in self.masks:\n    self.masks[n] = torch.ones(n)\nreturn x * self.masks[n]",
            "n not in self.masks",
            "n = x.shape[0]\nkept = torch.ones(n)\nreturn x * kept",
        ),
        (
            "if n not in self.masks:\n    self.masks[n] = torch.ones(n)\n"
            "return x * torch.sin(self.masks[n])",
            "n not in self.masks",
            "n = x.shape[0]\nkept = torch.ones(n)\nreturn x * torch.sin(kept)",
        ),
        (
            'key = f"{n}"\n'
            "if key not in self.masks:\n    self.masks[key] = torch.ones(n)\n"
            "return x * self.masks[key]",
            'key = f"{n}"',
            "n = x.shape[0]\nkept = torch.ones(n)\nreturn x * kept",
        ),
    ],
)
def test_what_is_kept_by_size(before: str, place: str, after: str) -> None:
    assert not_kept(before, place) == [after]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        pytest.param(
            "if self.mask is None:\n    self.mask = x.mean(0)\nreturn x - self.mask",
            "self.mask is None",
            id="data of the first call",
        ),
        pytest.param(
            "mean = x.mean(0)\nif self.mask is None:\n    self.mask = mean\nreturn x - self.mask",
            "self.mask is None",
            id="through a variable",
        ),
        pytest.param(
            "if self.mask is None:\n    self.mask = torch.ones(n) * scale\nreturn x * self.mask",
            "self.mask is None",
            id="another argument",
        ),
        pytest.param(
            "if self.training:\n    self.mask = torch.ones(n)\nreturn x * self.mask",
            "self.training",
            id="a condition on something else",
        ),
        pytest.param(
            "if self.mask is None:\n    self.mask = torch.ones(n)\nelse:\n    x = x + 1\nreturn x",
            "self.mask is None",
            id="another side",
        ),
    ],
)
def test_what_is_kept_of_data_stays(body: str, place: str) -> None:
    assert not_kept(body, place) == []


def test_a_layer_that_knows_the_size() -> None:
    text = """import torch
from torch import nn


class Up(nn.Module):
    def __init__(self):
        self.up = nn.Upsample(size=(8, 8), mode="bilinear")
        self.twice = nn.Upsample(scale_factor=2)

    def forward(self, x, skip):
        return self.up(x) + skip + self.twice(x)
"""
    place = "self.up(x) + skip"
    start, positions = text.index(place), TextPositions(text)
    range_ = Range(positions.position_at(start), positions.position_at(start + len(place)))
    evidence = SpecializationEvidence("s0", "L['skip'].size()[2]", "8")
    finding = Finding("guard/specialized-dimension", "", range_, evidence=evidence)
    (found,) = (one for one in sizes(Site(Text(text), finding)) if one.rewrite == "interpolate")
    new = 'torch.nn.functional.interpolate(x, size=skip.shape[2:], mode="bilinear") + skip'
    assert found.text == text.replace(place, new)
