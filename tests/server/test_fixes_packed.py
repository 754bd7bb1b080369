"""Recurrent layers of packed sequences, and classes that data decide."""

from __future__ import annotations

import pytest
from tests.server.test_fixes_operators import IMPORTS, site_of

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.packed import pad_sequences

SKIPPED = "Attempted to call function marked as skipped"
HEAD = "from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence\n\n\n"


def rewritten(marked: str) -> list[Candidate]:
    return list(pad_sequences(site_of(HEAD + marked, "graph-break/GB0007", SKIPPED)))


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        pytest.param(
            "def f(self, x, n):\n"
            "    p = «pack_padded_sequence(x, n, batch_first=True)»\n"
            "    y, h = self.rnn(p, self.h)  # how\n"
            "    y, _ = pad_packed_sequence(y, True)\n"
            "    return y, h, self.rest(y)\n",
            "def f(self, x, n):\n"
            "    p = _packed(x, n, batch_first=True)\n"
            "    y, h = _recurrent(self.rnn, p, self.h)  # how\n"
            "    y, _ = _padded(y, True)\n"
            "    return y, h, self.rest(y)\n",
            id="all three",
        ),
        pytest.param(
            "def f(self, x, n):\n"
            "    if n is not None:\n"
            "        x = torch.nn.utils.rnn.pack_padded_sequence(x, lengths=n.cpu().tolist())\n"
            "    y, h = self.rnn(x)\n"
            "    return «pad_packed_sequence(y)»[0] if n is not None else y\n",
            "def f(self, x, n):\n"
            "    if n is not None:\n"
            "        x = _packed(x, lengths=n)\n"
            "    y, h = _recurrent(self.rnn, x)\n"
            "    return _padded(y)[0] if n is not None else y\n",
            id="under a condition, with lengths out of a tensor",
        ),
    ],
)
def test_sequences_stay_padded(source: str, changed: str) -> None:
    plain, scalars = rewritten(source)
    assert plain.text.endswith(changed)
    assert "import collections\n" in plain.text
    assert plain.text.count("torch._dynamo.config.allow_rnn = True\n") == 1
    assert "capture_scalar_outputs" not in plain.text
    assert scalars.text.count("torch._dynamo.config.capture_scalar_outputs = True\n") == 1
    # What is made once is used by the next function as well.
    before = scalars.text[len(IMPORTS) : scalars.text.index("def f(self")]
    again, *_ = pad_sequences(site_of(before + source, "graph-break/GB0007", SKIPPED))
    assert again.text == scalars.text


MODULES = """\
class Encoder(torch.nn.Module):
    def __init__(self):
        self.rnn = torch.nn.GRU(4, 3)
        self.layers = torch.nn.ModuleList(torch.nn.LSTM(3, 3) for _ in range(2))
        self.norm = Norm(3)

    def packed(self, x, n):
        return pack_padded_sequence(x, n)

    def through(self, p, h):
        y, h = self.rnn(p, h)
        for number in range(2):
            y, _ = self.layers[number](y)
        return self.norm(y), h

    def forward(self, x, n):
        y, h = self.through(self.packed(x, n), hx=None)
        return «pad_packed_sequence(y)»[0], h


class Net(torch.nn.Module):
    def __init__(self):
        self.encoder = Encoder()
        self.rnn = Norm(3)

    def forward(self, x, n):
        return self.rnn(x), self.encoder.rnn(x), self.encoder(x, n)


class Norm(torch.nn.Module):
    pass
"""


def test_what_packs_and_the_layers_may_be_in_different_functions() -> None:
    text = rewritten(MODULES)[0].text
    for line in (
        "        return _packed(x, n)\n",
        "        y, h = _recurrent(self.rnn, p, h)\n",
        "            y, _ = _recurrent(self.layers[number], y)\n",
        "        return self.norm(y), h\n",
        "        return _padded(y)[0], h\n",
        "        return self.rnn(x), _recurrent(self.encoder.rnn, x), self.encoder(x, n)\n",
    ):
        assert line in text


def test_the_elements_of_what_is_packed() -> None:
    plain, dynamic = rewritten(
        "def f(self, x, n, t):\n"
        "    p = pack_padded_sequence(x, n)\n"
        "    y, h = «self.rnn(p)»\n"
        "    z, _ = self.rnn(pack_padded_sequence(x, n))\n"
        "    z, _ = pad_packed_sequence(z)\n"
        "    return y[0], p.data, pack_padded_sequence(t, n)[0], h[0], x[0], z[0], n.data\n"
    )
    kept = "h[0], x[0], z[0], n.data"
    end = f"    return _elements(y), _elements(p), _elements(_packed(t, n)), {kept}\n"
    assert plain.text.endswith(end)
    assert "capture_dynamic" not in plain.text
    assert "torch._dynamo.config.capture_dynamic_output_shape_ops = True\n" in dynamic.text


@pytest.mark.parametrize(
    "source",
    [
        "def f(self, x, n):\n    return «pack_padded_sequence(x, n)»\n",
        "def f(self, x, n):\n    p = pack_padded_sequence(x, n)\n    return self.rnn(p), «g(x)»\n",
        "def f(self, x, n):\n    p = «pack_padded_sequence(x, n)»\n    return g(p)\n",
    ],
)
def test_what_is_packed_for_others_stays(source: str) -> None:
    assert not rewritten(source)
