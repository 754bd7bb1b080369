"""What is tried where a line has made a constant of a size."""

from __future__ import annotations

import pytest

from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.rewrites.counters import counters
from fullgraph.fixes.rewrites.sizes import sizes
from fullgraph.fixes.site import Site, Text
from fullgraph_engine.protocol import Finding, Range
from fullgraph_engine.protocol.evidence import GuardEvidence, SpecializationEvidence

EVIDENCE = SpecializationEvidence("s0", "L['x'].size()[0]", "4")


def tried(body: str, place: str, params: str = "x") -> list[str]:
    """The bodies that are tried for a function, for a finding at ``place`` in it."""
    head = f"import torch\ndef f({params}):\n"
    text = head + "".join(f"    {line}\n" for line in body.split("\n"))
    start = text.index(place, len(head))
    positions = TextPositions(text)
    range_ = Range(positions.at(start), positions.at(start + len(place)))
    site = Site(Text(text), Finding("guard/specialised-dimension", "", range_, evidence=EVIDENCE))
    found = []
    for candidate in sizes(site):
        assert candidate.extends
        assert candidate.text.startswith(head)
        found.append("\n".join(one[4:] for one in candidate.text[len(head) :].rstrip().split("\n")))
    return found


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


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("x = x + 1\nreturn x.view(4, -1)", "x.view(4, -1)"),
        ("return x[4]", "x[4]"),
        ("return x.sum(dim=4)", "x.sum(dim=4)"),
        ("assert x.shape[0] == 4\nreturn x", "x.shape[0] == 4"),
        ("for row in x:\n    t = t + t * row\nreturn t", "for row in x"),
        ("return torch.stack([row * 2 for row in x], dim=1)", "[row * 2 for row in x]"),
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
        ("x", ["not-when-compiling", "counter-in-a-tensor"]),
        ("x * self.step", ["counter-in-a-tensor"]),
    ],
)
def test_a_counter(returned: str, rewrites: list[str]) -> None:
    text = MODULE.format(returned)
    place = "self.step += 1"
    start, positions = text.index(place), TextPositions(text)
    range_ = Range(positions.at(start), positions.at(start + len(place)))
    evidence = GuardEvidence("L['self'].step")
    finding = Finding("guard/mutated", "", range_, evidence=evidence)
    found = list(counters(Site(Text(text), finding)))
    assert [one.rewrite for one in found] == rewrites
    assert 'register_buffer("step", torch.tensor(0), persistent=False)' in found[-1].text
    if len(found) > 1:
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
    range_ = Range(positions.at(start), positions.at(start + len(place)))
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
    range_ = Range(positions.at(start), positions.at(start + len(place)))
    finding = Finding("guard/mutated", "", range_, evidence=GuardEvidence("L['self'].first"))
    (found,) = counters(Site(Text(text), finding))
    assert "if not torch.compiler.is_compiling() and self.first:" in found.text
