"""The first probe comment that a quick fix writes for a target without inputs."""

from __future__ import annotations

import textwrap

import pytest

from fullgraph_engine.targets import discover, missing_probe, notation_parser


@pytest.mark.parametrize(
    ("code", "comment"),
    [
        ("def f(x):\n    return x + 1", "x=f32[8, 16]"),
        ("def f(x, n: int):\n    return x * n", "x=f32[8, 16], n=2"),
        ("def f(x, flag: bool):\n    return x", "x=f32[8, 16], flag=False"),
        ("def f(x, mask=None):\n    return x", "x=f32[8, 16]"),
        ("def f(a):\n    b, t, d = a.shape\n    return a.view(b, -1)", "a=f32[2, 8, 16]"),
        ("def f(a):\n    return a.view(a.shape[2], -1)", "a=f32[2, 8, 16]"),
        (
            "def f(a):\n    return torch.conv2d(a, W)\nimport torch\nW = torch.ones(1, 3, 3, 3)",
            "a=f32[2, 3, 32, 32]",
        ),
        ("def f(image):\n    return image * 2", "image=f32[2, 3, 32, 32]"),
        (
            "def f(x, steps):\n    for _ in range(steps):\n        x = x + 1\n    return x",
            "x=f32[8, 16], steps=4",
        ),
        ("def f(input_ids):\n    return input_ids + 1", "input_ids=i64[2, 16]"),
    ],
)
def test_a_function_without_inputs_gets_a_first_probe(code: str, comment: str) -> None:
    text = f"import torch\n\n\n@torch.compile\n{code}\n"
    target = next(one for one in discover(text).targets if one.name == "f")
    fix = missing_probe(target, text).fixes[0]
    assert fix.title == f"Write a first probe comment: {comment}"
    (edit,) = fix.edits
    lines = text.splitlines(keepends=True)
    lines.insert(edit.range.start.line, edit.text)
    written = next(one for one in discover("".join(lines)).targets if one.name == "f").written
    assert [notation_parser.parse_probe(comment)] == [one.notation for one in written]


def test_a_class_gets_one_with_constructor_arguments() -> None:
    text = textwrap.dedent(
        """\
        import torch.nn as nn


        class Net(nn.Module):
            def __init__(self, dim, num_heads, bias=True):
                super().__init__()

            def forward(self, x):
                b, t, d = x.shape
                return x
        """
    )
    (target,) = discover(text).targets
    fix = missing_probe(target, text).fixes[0]
    probe = "init(dim=64, num_heads=4) forward(x=f32[2, 8, 16])"
    assert fix.title == f"Write a first probe comment: {probe}"
