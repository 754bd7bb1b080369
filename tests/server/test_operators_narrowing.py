"""Which signatures arguments leave, which of them is shown, and which parameter is next."""

from __future__ import annotations

import dataclasses

import pytest

from fullgraph.operators import CallArgument
from fullgraph.operators.narrowing import (
    NarrowedSignatures,
    ValueKind,
    evaluate_argument,
    narrow_signatures,
    possible_signatures,
)
from fullgraph.operators.signature_text import signature_label
from fullgraph.operators.signatures import signature_of_overload, signature_of_python
from fullgraph_engine.protocol.operators import Overload, Signature


def signature(arguments: str, *, variadic: str = "", deprecated: bool = False) -> Signature:
    found = signature_of_overload(Overload("", f"aten::f({arguments}) -> Tensor", "native"))
    assert found is not None
    parameters = tuple(
        dataclasses.replace(parameter, variadic=parameter.name == variadic)
        for parameter in found.parameters
    )
    return dataclasses.replace(found, parameters=parameters, deprecated=deprecated)


MAX = (
    signature("Tensor input, *, Tensor? out=None"),
    signature("Tensor input, Tensor other, *, Tensor? out=None"),
    signature("Tensor input, int dim, bool keepdim=False, *, Tensor[]? out=None"),
)
SUM = (
    signature("Tensor input, *, ScalarType? dtype=None"),
    signature("Tensor input, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None"),
)
VIEW = (signature("ScalarType dtype"), signature("SymInt[] size", variadic="size"))
ZEROS = (
    signature(
        "SymInt[] size, *, Tensor? out=None, ScalarType? dtype=None, Layout? layout=None,"
        " Device? device=None, bool requires_grad=False",
        variadic="size",
    ),
)
ADD = (
    signature("Tensor input, Tensor other, *, Scalar alpha=1"),
    signature("Tensor input, Scalar alpha, Tensor other", deprecated=True),
)
NORM = (
    signature("Tensor input, Scalar? p, *, ScalarType dtype"),
    signature("Tensor input, Scalar p=2"),
    signature("Tensor input, str p, int[1]? dim=None"),
)
CAT = (signature("Tensor[] tensors, int dim=0"), signature("Tensor[] tensors, Dimname dim"))
TO = (
    signature("Device? device=None, ScalarType? dtype=None, bool copy=False"),
    signature("ScalarType dtype, bool copy=False"),
    signature("Tensor other, bool copy=False"),
)
DROPOUT = (
    signature_of_python("(input: Tensor, p: float = 0.5, *rest, training=True, **more) -> Tensor"),
)

CONSTANTS: dict[str, ValueKind] = {
    "torch.float32": "dtype",
    "torch.strided": "layout",
    "torch.contiguous_format": "memory_format",
}


def typed(call: str) -> tuple[list[CallArgument], int]:
    """The arguments of ``x, dim=|1`` and the one with the cursor."""
    parts, depth, quote = [""], 0, ""
    for char in call:
        if char in "\"'" and char != "|":
            quote = "" if quote else char
        depth += not quote and (char in "([") - (char in ")]")
        if char == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += char
    active = next((n for n, part in enumerate(parts) if "|" in part), len(parts) - 1)
    arguments = []
    for part in parts:
        text = part.replace("|", "").strip()
        name, equals, value = text.partition("=")
        keyword = name.strip() if equals and name.strip().isidentifier() else ""
        star = text.startswith("*")
        arguments.append(CallArgument(0, 0, keyword, (value if keyword else text).strip(), star))
    return arguments, active


def narrowed(signatures: tuple[Signature, ...], call: str) -> NarrowedSignatures:
    arguments, active = typed(call)
    return narrow_signatures(
        signatures, arguments, active, lambda path: CONSTANTS.get(path, "unknown")
    )


def shown(signatures: tuple[Signature, ...], call: str) -> tuple[int, str | None]:
    found = narrowed(signatures, call)
    active = found.matches[found.chosen].active
    parameters = signatures[found.chosen].parameters
    return found.chosen, None if active is None else parameters[active].name


@pytest.mark.parametrize(
    ("signatures", "call", "expected"),
    [
        # The first that has something left to type.
        (MAX, "|", (0, "input")),
        (MAX, "x|", (0, "input")),
        (MAX, "x, |", (1, "other")),
        (MAX, "x, y|", (1, "other")),
        (MAX, "x, 1|", (2, "dim")),
        (MAX, "x, -1|", (2, "dim")),
        (MAX, "x, 1, |", (2, "keepdim")),
        (MAX, "x, y, |", (2, "keepdim")),
        (MAX, "x, dim=|", (2, "dim")),
        (MAX, "x, axis=|", (2, "dim")),
        (MAX, "x, keepdim=True, |", (2, "dim")),
        (MAX, "|, 1", (2, "input")),
        (MAX, "x, out=|", (0, "out")),
        (MAX, "x, 1, False, |", (2, None)),
        (MAX, "x, 1, False, o|", (2, "out")),
        (MAX, "*xs, |", (0, None)),
        (MAX, "*xs, out=|", (0, "out")),
        (MAX, "*xs, dim=|", (2, "dim")),
        # A list of sizes that may be one.
        (SUM, "x, |", (1, "dim")),
        (SUM, "x, 1|", (1, "dim")),
        (SUM, "x, (1, 2)|", (1, "dim")),
        (SUM, "x, [1, 2], |", (1, "keepdim")),
        (SUM, "x, None, |", (1, "keepdim")),
        (SUM, "x, dtype=|", (0, "dtype")),
        (SUM, "x, 0, dtype=torch.float32|", (1, "dtype")),
        (SUM, "x, 0, True, dt|", (1, "dtype")),
        # Sizes one by one.
        (VIEW, "|", (0, "dtype")),
        (VIEW, "2|", (1, "size")),
        (VIEW, "2, 3, |", (1, "size")),
        (VIEW, "n, |", (1, "size")),
        (VIEW, "-1, n, 4|", (1, "size")),
        (VIEW, "torch.float32|", (0, "dtype")),
        (VIEW, "(2, 3)|", (1, "size")),
        (VIEW, "(2, 3), |", (1, None)),
        (ZEROS, "2, 3, |", (0, "size")),
        (ZEROS, "2, 3, dtype=|", (0, "dtype")),
        (ZEROS, "(2, 3), |", (0, None)),
        (ZEROS, "(2, 3), dev|", (0, "device")),
        # Numbers are tensors only for want of better; deprecated forms likewise.
        (ADD, "x, 2|", (0, "other")),
        (ADD, "x, 2, |", (0, None)),
        (ADD, "x, 2, y|", (1, "other")),
        (ADD, "x, y, alpha=2|", (0, "alpha")),
        (NORM, "x, 2|", (0, "p")),
        (NORM, "x, 'fro'|", (2, "p")),
        (NORM, 'x, "nu|', (2, "p")),
        (NORM, "x, 2, dtype=|", (0, "dtype")),
        (CAT, "[x, y], |", (0, "dim")),
        (CAT, "[x, y], 'N'|", (1, "dim")),
        (CAT, "[1, 2]|", (0, "tensors")),
        (TO, "torch.float32|", (1, "dtype")),
        (TO, "'cuda'|", (0, "device")),
        (TO, "'cuda', torch.float32, |", (0, "copy")),
        (TO, "torch.float32, True|", (1, "copy")),
        (TO, "y|", (0, "device")),
        (TO, "other=|", (2, "other")),
        # Python functions.
        (DROPOUT, "x, 0.1, a, b, |", (0, "*rest")),
        (DROPOUT, "x, training=|", (0, "training")),
        (DROPOUT, "x, unheard=|", (0, "**more")),
    ],
)
def test_what_is_shown(
    signatures: tuple[Signature, ...], call: str, expected: tuple[int, str | None]
) -> None:
    assert shown(signatures, call) == expected


@pytest.mark.parametrize(
    ("signatures", "call", "possible"),
    [
        (MAX, "x, 1|", [1, 2]),
        (MAX, "x, 'a'|", []),
        (MAX, "x, y, z, w, |", []),
        (MAX, "x, dim=1, dim=|", []),
        (MAX, "x, 1, dim=|", []),
        (MAX, "x, nonsense=|", []),
        (MAX, "x, torch.float32|", []),
        (VIEW, "torch.strided|", []),
        (SUM, "x, torch.contiguous_format|", []),
        (SUM, "x, 1.5|", []),
        (SUM, "x, [0.5]|", []),
        (SUM, "x, {}|", []),
        (SUM, "x, lambda: 1|", []),
        (SUM, "x, f(1)|", [1]),
        (CAT, "[1, 2]|", []),
        (CAT, "[x, None]|", [0, 1]),
        (TO, "None|", [0]),
    ],
)
def test_what_remains_possible(
    signatures: tuple[Signature, ...], call: str, possible: list[int]
) -> None:
    matches = narrowed(signatures, call).matches
    assert [number for number, match in enumerate(matches) if match.possible] == possible


def test_strings_that_are_enumerated() -> None:
    (loose,) = (signature("Tensor x, str reduction"),)
    parameters = (
        loose.parameters[0],
        dataclasses.replace(loose.parameters[1], choices=("mean", "sum")),
    )
    strict = dataclasses.replace(loose, parameters=parameters)
    assert not narrowed((strict,), "x, 'median', |").matches[0].possible
    assert narrowed((strict,), "x, 'me|'").matches[0].possible
    assert narrowed((strict,), "x, 'mean', ").matches[0].possible


@pytest.mark.parametrize(
    ("signatures", "call", "names"),
    [
        (MAX, "|", {"input", "other", "dim", "keepdim", "out"}),
        (MAX, "x, |", {"other", "dim", "keepdim", "out"}),
        (MAX, "x, ke|", {"other", "dim", "keepdim", "out"}),
        (MAX, "x, 1, |", {"keepdim", "out"}),
        (MAX, "x, keepdim=True, |", {"dim", "out"}),
        (MAX, "x, |, dim=0", {"keepdim", "out"}),
        (VIEW, "2, 3, |", set()),
        (SUM, "*a, |", {"input", "dim", "keepdim", "dtype"}),
        (DROPOUT, "x, |", {"p", "*rest", "training", "**more"}),
    ],
)
def test_parameters_that_are_left(
    signatures: tuple[Signature, ...], call: str, names: set[str]
) -> None:
    arguments, active = typed(call)
    assert {
        parameter.name
        for one, taken in possible_signatures(signatures, arguments, active)
        for number, parameter in enumerate(one.parameters)
        if number not in taken
    } == names


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", "int"),
        ("-1.5", "float"),
        ("2j", "complex"),
        ("True", "bool"),
        ("None", "none"),
        ("'a'", "str"),
        ("f'{a}'", "str"),
        ("'a", "str"),
        ("(1, 2", "unknown"),
        ("[1,", "sequence"),
        ("(1)", "int"),
        ("torch.float32", "dtype"),
        ("torch.floa", "unknown"),
        ("x.shape[0]", "unknown"),
        ("f(", "unknown"),
        ("🙂", "unknown"),
        ("(" * 500, "unknown"),
    ],
)
def test_what_an_expression_is(text: str, kind: ValueKind) -> None:
    assert evaluate_argument(text, lambda path: CONSTANTS.get(path, "unknown")).kind == kind


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("(input, p=0.5, training=True)", "f(input, p=0.5, training=True)"),
        (
            "(x: Tensor, /, *args: int, dim: Optional[int] = None, **kw) -> Tensor",
            "f(x: Tensor, *args: int, dim: Optional[int] = None, **kw) -> Tensor",
        ),
        ("(self, other, *, out=None)", "f(other, *, out=None)"),
        ("(x, y=<object object>)", "f()"),
        ("", "f()"),
    ],
)
def test_signatures_of_python_functions(source: str, text: str) -> None:
    line, spans = signature_label(signature_of_python(source), "f")
    assert line == text
    assert all(line[start:end].strip() == line[start:end] for start, end in spans)


def test_a_schema_as_python() -> None:
    found = signature_of_overload(
        Overload(
            "dim",
            "aten::max.dim(Tensor(a) self, int[1]? dim=None, *, ScalarType? dtype=None, "
            "Tensor(b!)[] out) -> (Tensor(a) values, Tensor indices)",
            "native",
        )
    )
    assert found is not None
    line, spans = signature_label(found, "max.dim")
    assert line == (
        "max.dim(self: Tensor, dim: int | tuple[int, ...] | None = None, *, "
        "dtype: torch.dtype | None = None, out: tuple[Tensor, ...]) "
        "-> (values: Tensor, indices: Tensor)"
    )
    assert [line[start:end].partition(":")[0] for start, end in spans] == [
        "self",
        "dim",
        "dtype",
        "out",
    ]


def test_a_schema_that_cannot_be_read_has_no_signature() -> None:
    assert signature_of_overload(Overload("", "aten::f(Tensor", "registered")) is None
