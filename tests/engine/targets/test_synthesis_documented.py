"""What the text of a class says of the shapes of its inputs."""

from __future__ import annotations

import ast
import textwrap

import pytest
from torch import nn

from fullgraph_engine import tracing
from fullgraph_engine.targets import notation
from fullgraph_engine.targets.synthesis import FoundInputs, InputSearch
from fullgraph_engine.targets.synthesis.documented import documented_shapes, size_of

SAID = [
    ("x: (B, C, H, W)", "B C H W"),
    ("x (Tensor): tokens, [batch, seq_len, d_model]", "batch seq_len d_model"),
    (":param x: of shape (B, 2, T)", "B 2 T"),
    ("x : torch.Tensor, shape (n_points, 3)\n        Where they are.", "n_points 3"),
    ("x: patches\n        of shape ``(B, H*W, 3*C)``", "B H*W 3*C"),
    ("x: B x N x 3 coordinates", "B N 3"),
    ("x: a CxHxW image", "C H W"),
    ("Input: (B, 4, H, W)", "B 4 H W"),
    ("x: (Tensor, optional) the mask", None),
    ("x: features\n    y: (B, C)", None),
    ("Mixes x and its neighbors (B, C).", None),
]


def said(code: str) -> dict[str, str]:
    text = textwrap.dedent(code)
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    return {name: " ".join(words) for name, words in documented_shapes(function, text, []).items()}


@pytest.mark.parametrize(("docstring", "words"), SAID)
def test_docstrings(docstring: str, words: str | None) -> None:
    code = f'def forward(self, x):\n    """Args:\n    {docstring}\n    """\n    return x\n'
    assert said(code) == ({"x": words} if words else {})


def test_the_first_of_two_docstrings_gives_way_to_the_own() -> None:
    code = 'def forward(self, x):\n    """x: (B, T)"""\n'
    function = ast.parse(code).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert documented_shapes(function, code, ["x: (B, C, T)"]) == {"x": ("B", "T")}


def test_comments_of_the_signature() -> None:
    code = """
        def forward(
            self,
            q,  # (B, T, D)
            mask=None,  # [B, T], optional
        ):
            # q: (B, 1, 1) would be wrong, mask: (B, 1)
            q = q + 1  # mask: (1, 1)
            return q
    """
    assert said(code) == {"q": "B 1 1", "mask": "B 1"}


def test_unpacked_shapes() -> None:
    code = """
        def forward(self, image, tokens, changed):
            *batch, h, w, c = image.shape
            b, n = tokens.size()
            changed = changed.flatten(2)
            b, n, _ = changed.shape
    """
    assert said(code) == {"image": "batch h w c", "tokens": "b n"}


def test_sizes() -> None:
    named = {"C": 5, "dim": 8}
    assert size_of("3*C + 1", lambda name: named[name]) == 16
    assert size_of("self.dim/2", lambda name: named[name]) == 4
    assert size_of("C[0]", lambda name: named[name]) is None
    assert size_of("C/0", lambda name: named[name]) is None


class Spectrogram(nn.Module):
    def __init__(self, n_mels: int = 40, in_length: int = 123) -> None:
        super().__init__()
        self.rows = nn.Linear(in_length, 4)
        self.columns = nn.Linear(n_mels, 4)

    def forward(self, x, weights):  # type: ignore[no-untyped-def]
        """Look along both axes.

        Args:
            x: (B, n_mels, in_length) energies.
            weights: of shape (B, 2)
        """
        along = self.rows(x).mean(1) * weights[:, :1]
        return along + self.columns(x.transpose(1, 2)).mean(1) * weights[:, 1:]


class Quiet(Spectrogram):
    def forward(self, x, weights):  # type: ignore[no-untyped-def]
        return super().forward(x, weights).detach()  # type: ignore[no-untyped-call]


class Windowed(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.proj = nn.Linear(dim, 3 * dim)

    def forward(self, x):  # type: ignore[no-untyped-def]
        B, H, W, C = x.shape
        return self.proj(x).reshape(B, H * W, 3, C)


@pytest.mark.parametrize(
    ("subject", "inputs"),
    [
        (Spectrogram, "f32[2, 40, 123], f32[2, 2]"),
        (Quiet, "f32[2, 40, 123], f32[2, 2]"),
        (Windowed, "f32[2, 32, 32, 64]"),
    ],
)
def test_the_first_try_has_these_shapes(subject: type, inputs: str) -> None:
    with tracing.tensor_mode(True):
        found = InputSearch(subject, {subject.__name__: subject}).run(20.0)
    assert isinstance(found, FoundInputs) and found.tries == 1
    assert notation.show_notation(found.notation).endswith(f"forward({inputs})")
