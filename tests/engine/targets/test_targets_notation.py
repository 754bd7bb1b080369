"""Probe notation: what can be written, how it prints, and where errors point."""

from __future__ import annotations

import pytest

from fullgraph_engine.targets import NotationError, parse_probe, show_notation
from fullgraph_engine.targets.notation import (
    Arguments,
    FixedSize,
    LiteralValue,
    Reference,
    SymbolicSize,
    TensorText,
    choose_sizes,
    dtype_names,
)
from fullgraph_engine.targets.notation_parser import parse_value


@pytest.mark.parametrize(
    "text",
    [
        "f32[8, 16]",
        "x=f32[8, 16], mask=b8[8]",
        "init(d=16, heads=4) forward(f32[b, t, 16])",
        "init(3)",
        "generate(i64[b=4, t], t, temperature=0.5)",
        "f32[], i64[2*b, (t+1)//2, t-1]",
        "f32[4, 16][1, 4]",
        "bf16[4]@cuda:1, u8[2]@meta",
        "[f32[3], (i64[2],)], (), {'a': f32[2], 3: None}",
        "'text', -1, 1e-05, inf, True, None",
        "init(Config(layers=2, act=torch.nn.GELU())) forward(i64[b, t])",
        "f32[b, 3], n=b",
    ],
)
def test_what_is_printed_is_what_was_written(text: str) -> None:
    assert show_notation(parse_probe(text)) == text


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("mask=bool[8]", "mask=b8[8]"),
        ("f32[Sym(s0), Sym(s1=4)]", "f32[s0, s1=4]"),
        ("f32[4, 16][16, 1]cuda:0", "f32[4, 16][16, 1]@cuda:0"),
        ("init(16) f32[4, 16]", "init(16) forward(f32[4, 16])"),
        ("f32[4*2]  # eight", "f32[8]"),
        ("(f32[2])", "f32[2]"),
    ],
)
def test_spellings_of_the_same(written: str, printed: str) -> None:
    assert show_notation(parse_probe(written)) == printed


@pytest.mark.parametrize(
    ("text", "marked", "words"),
    [
        ("f31[4]", "f31", "not a dtype"),
        ("x=f32[4, 1.5]", "1.5", "whole number"),
        ("f32[b=4, b=5]", "5", "both 4 and 5"),
        ("x=1, 3", "3", "positional"),
        ("x=1, x=2", "x", "twice"),
        ("f32[4", "4", "expected ']'"),
        ("f32[4] f32[3]", "f32", "separated by ','"),
        ("offf", "offf", "or off"),
        ('"abc', '"abc', "not closed"),
        ("f32[a]; x", ";", "no meaning"),
        ("init(1) init(2)", "init", "once"),
        ("f32[4]@", "@", "device"),
        ("f32[4, 4][1]", "[1]", "1 strides for 2 sizes"),
        ("forward(f32[2]", "]", "expected ')'"),
    ],
)
def test_errors_point_at_their_words(text: str, marked: str, words: str) -> None:
    with pytest.raises(NotationError) as caught:
        parse_probe(text)
    assert words in caught.value.message
    # The last of two equal words is the one that is too many.
    start = text.rfind(marked)
    assert (caught.value.start, caught.value.end) == (start, start + len(marked))


def test_an_empty_probe_is_an_error() -> None:
    with pytest.raises(NotationError, match="empty"):
        parse_probe("  # nothing")


def test_a_call_that_is_an_argument_is_no_method() -> None:
    notation = parse_probe("Config(2), f32[b]")
    assert notation.method == ""
    assert notation.inputs == Arguments(
        (
            Reference("Config", Arguments((LiteralValue(2),))),
            TensorText("f32", (SymbolicSize("b"),)),
        )
    )


def test_sizes_are_the_hints_and_differ_otherwise() -> None:
    notation = parse_probe("f32[b=3, t, 4], i64[b, n, 8]")
    sizes = choose_sizes(notation.inputs)
    assert sizes["b"] == 3
    assert len({*sizes.values(), 4, 8}) == 5
    assert all(size > 1 for size in sizes.values())


def test_images_get_large_sizes() -> None:
    sizes = choose_sizes(parse_probe("f32[b, 3, h, w]").inputs)
    assert sizes["h"] >= 32
    assert sizes["w"] >= 32
    assert sizes["h"] != sizes["w"]


def test_a_string_annotation_holds_one_value() -> None:
    assert parse_value("f32[16]") == TensorText("f32", (FixedSize(16),))
    with pytest.raises(NotationError):
        parse_value("f32[16], f32[16]")


def test_the_dtypes_are_those_of_torch() -> None:
    from torch.fx import graph

    dtype_abbrs = vars(graph)["dtype_abbrs"]

    assert set(dtype_abbrs.values()) == dtype_names()
