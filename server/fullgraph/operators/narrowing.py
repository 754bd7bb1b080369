"""Which signatures the arguments that are typed so far still leave, and which parameter is next.

What an expression is can be said of literals and of torch's own constants; any other fits every
parameter. The rules are those of the argument parser (torch/csrc/utils/python_arg_parser.cpp).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fullgraph_engine.protocol.operators import Parameter, Signature

from .call import Argument

Kind = Literal[
    "unknown", "none", "bool", "int", "float", "complex", "str", "sequence", "other",
    "dtype", "layout", "memory_format",
]  # fmt: skip

# `numpy_compatibility_arg_names` of the parser.
_NUMPY_NAMES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
}


@dataclass(frozen=True)
class Value:
    """What is known of an argument: its kind, the items of a sequence, the text of a string."""

    kind: Kind = "unknown"
    items: tuple[Value, ...] = ()
    text: str = ""


UNKNOWN = Value()


@dataclass(frozen=True)
class Match:
    """How a signature stands to the arguments.

    ``wrong`` counts the arguments that it cannot take, ``weak`` those that it would only take
    for want of a better signature (a number for a tensor). ``active`` is the parameter that the
    cursor is at; None where there is none, or none that is known. ``taken`` are the parameters
    that have an argument.
    """

    wrong: int
    weak: int
    active: int | None
    taken: frozenset[int]
    guessed: bool = False
    """The active argument is taken for the beginning of a keyword."""

    @property
    def possible(self) -> bool:
        return not self.wrong

    def cost(self, *, deprecated: bool) -> tuple[int, bool, int, bool, bool]:
        return self.wrong, deprecated, self.weak, self.active is None, self.guessed


@dataclass(frozen=True)
class Narrowed:
    """The match of each signature, and the first of the best."""

    matches: tuple[Match, ...]
    chosen: int
    best: tuple[int, ...]
    """All that are as good as the chosen one."""


def narrow(
    signatures: Sequence[Signature],
    arguments: Sequence[Argument],
    active: int,
    kind_of: Callable[[str], Kind] = lambda path: "unknown",
) -> Narrowed:
    """Hold each signature against the arguments; ``kind_of`` knows constants by dotted names."""
    values = [value_of(argument.text, kind_of) for argument in arguments]
    matches = tuple(_match(signature, arguments, values, active) for signature in signatures)
    costs = [
        match.cost(deprecated=signature.deprecated)
        for match, signature in zip(matches, signatures, strict=True)
    ]
    best = min(costs, default=None)
    equal = tuple(number for number, cost in enumerate(costs) if cost == best)
    return Narrowed(matches, equal[0] if equal else 0, equal)


def left(
    signatures: Sequence[Signature],
    arguments: Sequence[Argument],
    active: int,
    kind_of: Callable[[str], Kind] = lambda path: "unknown",
) -> list[tuple[Signature, frozenset[int]]]:
    """The signatures that the other arguments leave, with the parameters that those take."""
    others = [argument for number, argument in enumerate(arguments) if number != active]
    narrowed = narrow(signatures, others, -1, kind_of)
    least = min((match.wrong for match in narrowed.matches), default=0)
    return [
        (signature, match.taken)
        for signature, match in zip(signatures, narrowed.matches, strict=True)
        if match.wrong == least
    ]


# -- one signature ----------------------------------------------------------------------------


def _match(
    signature: Signature, arguments: Sequence[Argument], values: Sequence[Value], active: int
) -> Match:
    parameters = signature.parameters
    named = {parameter.name: number for number, parameter in enumerate(parameters)}
    positional = [number for number, one in enumerate(parameters) if not one.keyword_only]
    rest = next((n for n, one in enumerate(parameters) if one.name.startswith("**")), None)
    taken: set[int] = set()
    wrong = weak = position = 0
    spread = guessed = False
    at: int | None = None
    for number, (argument, value) in enumerate(zip(arguments, values, strict=True)):
        found: int | None = None
        if argument.star:
            # How many it stands for is not known.
            spread = True
        elif argument.keyword:
            found = named.get(argument.keyword)
            if found is None:
                found = named.get(_NUMPY_NAMES.get(argument.keyword, ""), rest)
            if found is None or (found in taken and found != rest):
                wrong += 1
        elif spread:
            pass
        elif position < len(positional):
            found = positional[position]
            if not _stays(parameters[found], value):
                position += 1
        elif argument.text:
            found = _meant(argument.text, parameters, taken) if number == active else None
            guessed = guessed or found is not None
            wrong += found is None
        if found is not None and argument.text and not (guessed and number == active):
            fit = _fit(value, parameters[found], typing=number == active)
            wrong += fit == 0
            weak += fit == 1
        if found is not None and (argument.text or argument.keyword):
            taken.add(found)
        if number == active:
            at = found
    return Match(wrong, weak, at, frozenset(taken), guessed)


def _stays(parameter: Parameter, value: Value) -> bool:
    """Whether the next positional argument is for the same parameter."""
    if parameter.name.startswith("*"):
        return True
    return parameter.variadic and value.kind != "sequence"


def _meant(text: str, parameters: Sequence[Parameter], taken: set[int]) -> int | None:
    """The keyword that an identifier is the beginning of."""
    if not text.isidentifier():
        return None
    for number, parameter in enumerate(parameters):
        if parameter.keyword_only and number not in taken and parameter.name.startswith(text):
            return number
    return None


# -- types ------------------------------------------------------------------------------------

_NO, _WEAK, _GOOD = 0, 1, 2

# What a parameter takes, by its type in the words of the parser. A type that is not here takes
# everything.
_TAKES: Mapping[str, Mapping[Kind, int]] = {
    "Tensor": {"int": _WEAK, "float": _WEAK, "complex": _WEAK, "bool": _WEAK},
    "Number": {"int": _GOOD, "float": _GOOD, "complex": _GOOD, "bool": _WEAK},
    "Scalar": {"int": _GOOD, "float": _GOOD, "complex": _GOOD, "bool": _WEAK},
    "int": {"int": _GOOD, "bool": _WEAK},
    "float": {"int": _GOOD, "float": _GOOD, "bool": _WEAK},
    "complex": {"int": _GOOD, "float": _GOOD, "complex": _GOOD},
    "bool": {"bool": _GOOD},
    "str": {"str": _GOOD},
    "name": {"str": _GOOD},
    "torch.dtype": {"dtype": _GOOD},
    "torch.layout": {"layout": _GOOD},
    "torch.memory_format": {"memory_format": _GOOD},
    "torch.device": {"str": _GOOD, "int": _WEAK},
    "torch.Generator": {},
    "torch.Storage": {},
    "torch.Stream": {},
    "torch.qscheme": {},
}
_SEQUENCE = re.compile(r"(?:tuple|list) of (\w+?)s?")


def _fit(value: Value, parameter: Parameter, *, typing: bool) -> int:
    """``typing``: the value is not complete."""
    if value.kind == "unknown":
        return _GOOD
    sequence = _SEQUENCE.fullmatch(parameter.type)
    if sequence is None and parameter.type not in _TAKES:
        return _GOOD
    if value.kind == "none":
        return _GOOD if parameter.optional or parameter.default == "None" else _NO
    if sequence is None:
        if parameter.choices and value.kind == "str" and not typing:
            return _GOOD if value.text in parameter.choices else _NO
        return _TAKES[parameter.type].get(value.kind, _NO)
    takes = _TAKES.get(sequence[1])
    if value.kind != "sequence":
        # One number stands for a list of them, where the list has a size.
        one = parameter.size or parameter.variadic
        return _NO if not one else _GOOD if takes is None else takes.get(value.kind, _NO)
    if takes is None:
        return _GOOD
    # A list of numbers is no list of tensors, although a number may be a tensor.
    least = _GOOD if sequence[1] == "Tensor" else _WEAK
    for item in value.items:
        if item.kind not in ("unknown", "none") and takes.get(item.kind, _NO) < least:
            return _NO
    return _GOOD


def value_of(text: str, kind_of: Callable[[str], Kind]) -> Value:
    """What an expression is, as far as its source says. It may be cut off."""
    text = text.strip()
    if not text:
        return UNKNOWN
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        if text[0] in "\"'":
            return Value("str")
        return Value("sequence") if text[0] == "[" else UNKNOWN
    return _value(node, kind_of)


def _value(node: ast.expr, kind_of: Callable[[str], Kind]) -> Value:
    if isinstance(node, ast.Constant):
        return _constant(node.value)
    if isinstance(node, (ast.Tuple, ast.List)):
        return Value("sequence", tuple(_value(item, kind_of) for item in node.elts))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return _value(node.operand, kind_of)
    if isinstance(node, ast.JoinedStr):
        return Value("str")
    if isinstance(node, ast.ListComp):
        return Value("sequence")
    if isinstance(node, (ast.Dict, ast.DictComp, ast.Set, ast.SetComp, ast.Lambda)):
        return Value("other")
    if isinstance(node, (ast.Name, ast.Attribute)):
        return Value(kind_of(ast.unparse(node)))
    return UNKNOWN


def _constant(value: object) -> Value:
    if value is None:
        return Value("none")
    if isinstance(value, str):
        return Value("str", text=value)
    for kind in (bool, int, float, complex):
        if isinstance(value, kind):
            return Value(kind.__name__)  # type: ignore[arg-type]
    return Value("unknown" if value is ... else "other")
