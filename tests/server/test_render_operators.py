"""The page of a name or an operator, as Markdown, as plain text and as data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fullgraph.operators import OperatorIndex, Subject
from fullgraph.operators.lookup import look_up, nearest_names
from fullgraph.operators.schema import parse_schema
from fullgraph.render.operators import (
    OperatorPage,
    page_json,
    page_markdown,
    page_of,
    page_text,
)
from fullgraph.render.operators.aliasing import describe_aliasing
from fullgraph.render.operators.folding import fold_line
from fullgraph.render.paint import Paint

from .operator_pages import INDEX, ITEMS, MAX, MINE, VIEW


def page(written: str, index: OperatorIndex = INDEX) -> OperatorPage:
    (subject,) = look_up(index, written)
    found = page_of(index, subject)
    assert found is not None
    return found


def section(shown: OperatorPage, heading: str) -> list[str]:
    (found,) = [part for part in shown.sections if part.heading == heading]
    return [*found.code, *found.items]


def facts(written: str) -> list[tuple[str, bool]]:
    return [(fact.text, fact.alarming) for fact in page(written).facts]


# -- all of it --------------------------------------------------------------------------------


def test_a_function_short_first_and_the_rest_under_headings() -> None:
    assert page_markdown(page("torch.max")) == (
        """\
```python
1  torch.max(input: Tensor, *, out: Tensor | None = None) -> Tensor
2  torch.max(input: Tensor, dim: int, keepdim: bool = False)
       -> torch.return_types.max(values, indices)
3  torch.max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor
```

PT2-compliant · core ATen (`max.dim`)

The maximum of all elements of `input`.

[Documentation](https://pytorch.org/docs/stable/generated/torch.max.html)

#### Schemas

```python
aten::max(Tensor self) -> Tensor
aten::max.dim(Tensor self, int dim, bool keepdim=False)
    -> (Tensor values, Tensor indices)
aten::max.other(Tensor self, Tensor other) -> Tensor
aten::max.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
```

#### Aliasing and mutation

- `max`, `max.dim` and `max.other`: declared to write to no arguments and to return new memory
- `max.out`: `out` is written to and returned

#### Kernels

- `max` and `max.dim`: CPU, CUDA
- `max.other` and `max.out`: CompositeImplicitAutograd, which only calls other operators
- Fake tensors, `max` and `max.dim`: by its kernel for Meta
- Fake tensors, `max.other` and `max.out`: through the operators that it calls
- Has a decomposition (`max.dim`)

#### Derivative

- `max`, `self`: `evenly_distribute_backward(grad, self, result)`
- `max.dim`, `self`: `value_selecting(grad)`
- `max.dim`, none for `other` and `dim`
- `max.other`: through the operators that it calls

#### Tags

- `pt2_compliant_tag`: declared to work with `torch.compile` and `torch.export`
- `core` (`max.dim`): part of core ATen, the operators that decomposed graphs are made of
- `reduction` (`max.dim`): reduces one or more dimensions to one value each
- `tag_of_tomorrow` (`max.dim`)

#### Also called by

`torch.Tensor.max`
"""
    )


def test_the_page_of_a_method_names_it_as_the_documentation_does() -> None:
    text = page_text(page("Tensor.add_"))
    assert text.startswith("Tensor.add_(other: Tensor) -> Tensor\n\nPT2-compliant · writes to self")
    assert "`" not in text and "#" not in text


def test_an_overload_is_its_schema_and_its_own_facts() -> None:
    shown = page("torch.ops.aten.max.dim")
    assert shown.kind == "overload"
    assert [called.full for called in shown.overloads] == ["aten::max.dim"]
    assert page_markdown(shown).startswith("```python\naten::max.dim(Tensor self, int dim,")
    assert [fact.text for fact in shown.facts] == ["PT2-compliant", "core ATen"]
    assert section(shown, "Python names") == ["`torch.max`, `torch.Tensor.max`"]
    assert page("aten::max.default").overloads[0].full == "aten::max"


def test_an_operator_shows_its_overloads_in_order() -> None:
    shown = page("aten::max")
    assert (shown.kind, len(shown.signatures)) == ("operator", 4)
    assert "4  aten::max.out(" in page_markdown(shown)


# -- facts ------------------------------------------------------------------------------------


def test_what_stands_in_the_way_comes_first() -> None:
    assert facts("mine::scale") == [
        ("no fake kernel", True),
        ("not PT2-compliant", True),
        ("writes to `x`", False),
    ]
    text = page_markdown(page("mine::scale"))
    assert text.count("**no fake kernel** · **not PT2-compliant** ·") == 1
    assert page("mine::scale").remarks == (
        "Registered at `/project/ops.py:12`.",
        "This operator fails on fake tensors: add a fake kernel with "
        '`@torch.library.register_fake("mine::scale")`.',
    )


def test_a_binding_that_does_not_say_what_it_calls_has_the_facts_of_its_operator() -> None:
    assert facts("torch.nonzero") == [
        ("dynamic output shape", True),
        ("PT2-compliant", False),
        ("not differentiable", False),
    ]
    assert facts("torch.conv2d") == []


@pytest.mark.parametrize(
    ("schema", "composite", "words"),
    [
        ("a::f_(Tensor(a!) self) -> Tensor(a!)", False, "`self` is written to and returned"),
        ("a::f(Tensor(a!) x, Tensor(b!) y) -> ()", False, "`x` and `y` are written to"),
        ("a::f(Tensor(a!)[] xs) -> ()", False, "the tensors in `xs` are written to"),
        ("a::f(Tensor(a) self) -> Tensor(a)", False, "the result is a view of `self`"),
        ("a::f(Tensor(a) self) -> Tensor(a)", True, "the result may be `self` or a view of it"),
        (
            "a::f(Tensor(a -> *) self) -> Tensor(a)[]",
            False,
            "each tensor of the result is a view of `self`",
        ),
        (
            "a::f(Tensor(a!) x, Tensor(b) y) -> (Tensor, Tensor(b), Tensor(a!) z)",
            False,
            "`x` is written to and returned; the second result is a view of `y`",
        ),
        ("a::f(Dict(str, t) d) -> t(*)", False,
         "the result may share memory with any of the arguments"),
        ("a::f(Tensor x) -> int", False, "declared to write to no arguments"),
        (
            "a::f(Tensor x) -> Tensor",
            True,
            "declared to write to no arguments and to return new memory",
        ),
    ],
)  # fmt: skip
def test_aliasing_in_words(schema: str, composite: bool, words: str) -> None:
    assert describe_aliasing(parse_schema(schema), composite=composite) == words


# -- forms ------------------------------------------------------------------------------------


def test_deprecated_forms_stand_apart_with_what_to_write() -> None:
    shown = page("torch.add")
    assert shown.signatures == ("torch.add(input: Tensor, other: Tensor) -> Tensor",)
    assert section(shown, "Deprecated forms") == [
        "`torch.add(input, alpha, other)`: write `torch.add(input, other, alpha=alpha)`"
    ]


def test_many_signatures_are_cut_and_follow_in_full() -> None:
    text = page_markdown(page("torch.many"))
    first, _, rest = text.partition("#### All 11 signatures")
    assert "8  torch.many(p7: int) -> Tensor\n# … and 3 more\n```" in first and "p8" not in first
    assert "11  torch.many(p10: int) -> Tensor" in rest


def test_a_function_written_in_python() -> None:
    shown = page("F.dropout")
    assert shown.signatures == (
        "torch.nn.functional.dropout(input: Tensor, p: float = 0.5, *, inplace=False) -> Tensor",
    )
    assert section(shown, "Calls") == ["`torch.dropout`, `torch.dropout_`"]


@pytest.mark.parametrize(
    ("written", "first"),
    [
        ("torch.nn.Linear", "(class) torch.nn.Linear(in_features, out_features)"),
        ("torch.float32", "(dtype) torch.float32"),
        ("torch.nn", "(module) torch.nn"),
        ("Tensor.T", "(property) Tensor.T: Tensor"),
    ],
)
def test_what_cannot_be_called_says_what_it_is(written: str, first: str) -> None:
    assert page_text(page(written)).split("\n")[0] == first


def test_an_alias_says_what_it_is() -> None:
    shown = page("F.conv2d")
    assert shown.signatures == ("torch.nn.functional.conv2d(input: Tensor) -> Tensor",)
    assert shown.remarks == ("Another name for `torch.conv2d`.",)
    assert page_json(shown)["alias"] == "torch.conv2d"


# -- parameters -------------------------------------------------------------------------------


def parameter(written: str, name: str) -> OperatorPage | None:
    (subject,) = look_up(INDEX, written)
    from dataclasses import replace

    return page_of(INDEX, replace(subject, parameter=name))


@pytest.mark.parametrize(
    ("written", "name", "signatures", "remarks"),
    [
        ("torch.max", "dim", ("dim: int",), ("A parameter of `torch.max`, in signature 2 of 3.",)),
        (
            "torch.max",
            "out",
            ("out: Tensor | None = None",),
            ("A parameter of `torch.max`, in signatures 1 and 3 of 3.",),
        ),
        (
            "F.gelu",
            "approximate",
            ('approximate: "none" | "tanh" = "none"',),
            (
                "A parameter of `torch.nn.functional.gelu`.",
                "One of `none` and `tanh`.",
            ),
        ),
        ("F.dropout", "p", ("p: float = 0.5",),
         ("A parameter of `torch.nn.functional.dropout`.",)),
        ("F.dropout", "inplace", ("inplace=False",),
         ("A parameter of `torch.nn.functional.dropout`.",)),
        ("mine::scale", "by", ("float by=2.",), ("A parameter of `torch.ops.mine.scale`.",)),
    ],
)  # fmt: skip
def test_a_parameter(
    written: str, name: str, signatures: tuple[str, ...], remarks: tuple[str, ...]
) -> None:
    shown = parameter(written, name)
    assert shown is not None
    assert (shown.signatures, shown.remarks) == (signatures, remarks)


def test_a_parameter_that_there_is_not_has_no_page() -> None:
    assert parameter("torch.max", "axis") is None
    assert parameter("torch.float32", "axis") is None
    assert parameter("mine::scale", "axis") is None


def test_items_that_may_be_given_one_by_one() -> None:
    shown = parameter("Tensor.view", "size")
    assert shown is not None and shown.signatures == ("*size: int",)
    assert "Its items can also be passed as separate arguments, without a list." in shown.remarks
    assert VIEW.signatures[1].parameters[0].variadic


# -- remarks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("certainty", "receiver", "remark"),
    [
        ("traced", "x", "The receiver was a Tensor in the last trace."),
        ("unambiguous", "x",
         "Assumed to be a method of Tensor: no other known class has a `max`."),
        ("guess", "x.y",
         "This is a guess: `x.y` was not traced, but `torch.Tensor` has a method of this name."),
        ("guess", "",
         "This is a guess: the receiver was not traced, but `torch.Tensor` has a "
         "method of this name."),
    ],
)  # fmt: skip
def test_how_certain_it_is(certainty: Any, receiver: str, remark: str) -> None:
    subject = Subject(0, 5, "torch.Tensor.max", INDEX.name("torch.Tensor.max"), certainty=certainty)
    shown = page_of(INDEX, subject, receiver)
    assert shown is not None and shown.remarks == (remark,)


def test_an_incomplete_index_is_said_to_be_one() -> None:
    shown = page("torch.max", OperatorIndex.from_items(ITEMS, complete=False))
    assert shown.remarks == (
        "These signatures were read from torch's files and not yet compared with the imported "
        "torch.",
    )


def test_what_the_index_does_not_know_has_no_page() -> None:
    assert page_of(INDEX, Subject(0, 5, "torch.nothing")) is None


# -- formats ----------------------------------------------------------------------------------


def test_colors_only_where_they_are_wanted() -> None:
    shown = page("mine::scale")
    assert "\x1b" not in page_text(shown)
    painted = page_text(shown, Paint(color=True))
    assert "\x1b[1;93mno fake kernel\x1b[0m" in painted


def test_data_has_stable_keys_and_everything_that_is_known() -> None:
    data = page_json(page("torch.max"))
    assert json.loads(json.dumps(data)) == data
    assert list(data) == [
        "path", "kind", "summary", "href", "deprecated", "alias", "binding", "python", "calls",
        "names", "facts", "remarks", "documented", "signatures", "overloads",
    ]  # fmt: skip
    second = data["signatures"][1]
    assert second["structure"] == "torch.return_types.max"
    assert [field["name"] for field in second["returns"]] == ["values", "indices"]
    assert second["operator"] == "aten::max.dim" and not second["deprecated"]
    overload = data["overloads"][3]
    assert (overload["name"], overload["aliasing"]) == (
        "aten::max.out",
        "out is written to and returned",
    )
    assert len(data["signatures"]) == len(MAX.signatures)
    assert page_json(page("mine::scale"))["overloads"][0]["place"] == MINE.overloads[0].place


def test_long_lines_are_broken_between_arguments() -> None:
    line = (
        'a::f(Tensor[2] self, (int, str) pair=[1, 2], *, str how="a, b -> c") -> (Tensor, Tensor)'
    )
    assert fold_line(line, 50) == [
        "a::f(Tensor[2] self, (int, str) pair=[1, 2],",
        '    *, str how="a, b -> c") -> (Tensor, Tensor)',
    ]
    assert fold_line(line, 200) == [line]
    assert "".join(part.replace("    ", " ") for part in fold_line(line, 10)) == line


# -- look-up ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "paths"),
    [
        ("torch.max", ["torch.max"]),
        ("max", ["torch.max", "torch.Tensor.max"]),
        ("Tensor.max", ["torch.Tensor.max"]),
        ("F.gelu", ["torch.nn.functional.gelu"]),
        ("nn.functional.gelu", ["torch.nn.functional.gelu"]),
        ("gelu()", ["torch.nn.functional.gelu"]),
        ("conv2d", ["torch.conv2d"]),
        ("aten::max", ["torch.ops.aten.max"]),
        ("aten.max", ["torch.ops.aten.max"]),
        ("aten::max.dim", ["torch.ops.aten.max.dim"]),
        ("aten.max.dim", ["torch.ops.aten.max.dim"]),
        ("torch.ops.aten.max.dim", ["torch.ops.aten.max.dim"]),
        ("torch.ops.aten.max.default", ["torch.ops.aten.max.default"]),
        ("max.dim", ["torch.ops.aten.max.dim"]),
        ("scale", ["torch.ops.mine.scale"]),
        ("nn.Linear", ["torch.nn.Linear"]),
        ("torch.nn", ["torch.nn"]),
        ("torch.ops.aten.max.nothing", []),
        ("torch.ops.aten", []),
        ("aten::", []),
        ("torch.", []),
        ("", []),
    ],
)
def test_what_names_stand_for(written: str, paths: list[str]) -> None:
    assert [subject.path for subject in look_up(INDEX, written)] == paths


def test_names_like_an_unknown_one() -> None:
    assert nearest_names(INDEX, "torch.maxx") == ("torch.max",)
    assert nearest_names(INDEX, "aten::nonzeros") == ("aten::nonzero",)
    assert nearest_names(INDEX, "qqqqqq") == ()
