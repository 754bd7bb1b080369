"""What is tried where a number in the code limits a size."""

from __future__ import annotations

import pytest

from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.rewrites.limited import limited
from fullgraph.fixes.site import Site, Text
from fullgraph_engine.protocol import Finding, Range
from fullgraph_engine.protocol.evidence import SpecializationEvidence

LAYERS = """\
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = {made}

    def forward(self, x):
        return {call}
"""


def tried(
    text: str, place: str, code: str = "guard/limited-dimension", size: int = 14
) -> list[str]:
    """The texts that are tried."""
    start, positions = text.index(place), TextPositions(text)
    range_ = Range(positions.position_at(start), positions.position_at(start + len(place)))
    evidence = SpecializationEvidence("s0", "L['x'].size()[0]", str(size), False)
    finding = Finding(code, "", range_, evidence=evidence)
    return [one.text for one in limited(Site(Text(text), finding))]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a, b = torch.split(x, 3)", "a, b = torch.chunk(x, 2)"),
        ("a, b, c = x.split(n // 2, dim=1)", "a, b, c = x.chunk(3, dim=1)"),
        ("a, b = x.split(split_size=3)", "a, b = x.chunk(2)"),
        ("a, b = x.split([3, 4])", ""),
        ("parts = x.split(3)", ""),
        ("a, b = x.unbind(3)", ""),
        ("y = F.avg_pool2d(x, 7)", "y = F.adaptive_avg_pool2d(x, 2)"),
        ("y = max_pool1d(x, kernel_size=7)", ""),
        ("y = F.max_pool3d(x, n)", ""),
        ("y = F.avg_pool2d(x, 7, 1)", ""),
        ("y = F.avg_pool2d(x, 0)", ""),
    ],
)
def test_what_a_statement_becomes(before: str, after: str) -> None:
    text = "def f(x, n):\n    {}\n    return x\n"
    place = before.partition(" = ")[2]
    expected = [text.format(after)] if after else []
    assert tried(text.format(before), place) == expected
    assert not tried(text.format(before), place, "guard/specialised-dimension")


@pytest.mark.parametrize(
    ("made", "after"),
    [
        ("nn.AvgPool2d(7)", "nn.AdaptiveAvgPool2d(2)"),
        ("nn.MaxPool1d(14)", "nn.AdaptiveMaxPool1d(1)"),
        ("nn.AvgPool2d(7, stride=1)", ""),
        ("nn.Linear(7)", ""),
    ],
)
def test_what_a_layer_becomes(made: str, after: str) -> None:
    call = "self.pool(x).flatten(1)"
    expected = [LAYERS.format(made=after, call=call)] if after else []
    assert tried(LAYERS.format(made=made, call=call), "self.pool(x)") == expected
