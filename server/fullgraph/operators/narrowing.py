"""Select the signatures that accept the arguments typed so far, and the parameter at the cursor.

Only literals and torch's constants have a known type; other expressions are assumed to fit every
parameter. Follows the rules of torch's argument parser (torch/csrc/utils/python_arg_parser.cpp).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fullgraph_engine.protocol.operators import Parameter, Signature

from .call import CallArgument

ValueKind = Literal[
    "unknown", "none", "bool", "int", "float", "complex", "str", "sequence", "other",
    "dtype", "layout", "memory_format",
]  # fmt: skip

# Names of parameters in torch, by the NumPy names that torch's argument parser also accepts
# (`numpy_compatibility_arg_names`).
_NUMPY_NAMES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
}


@dataclass(frozen=True)
class ArgumentValue:
    """The type of an argument, and the parts of its value that its source shows."""

    kind: ValueKind = "unknown"
    items: tuple[ArgumentValue, ...] = ()
    """Values of the items if the argument is a sequence."""
    text: str = ""
    """Value of the argument if it is a string."""


UNKNOWN = ArgumentValue()


@dataclass(frozen=True)
class SignatureMatch:
    """A comparison of one signature of a called function with the arguments typed so far."""

    mismatches: int
    """Number of arguments that the signature cannot accept."""
    weak_fits: int
    """Number of arguments that another signature may accept better, for example a number for a
    tensor parameter."""
    active: int | None
    """Index of the parameter that receives the argument at the cursor; None if unknown."""
    filled: frozenset[int]
    """Indices of the parameters that already have an argument."""
    is_keyword_guess: bool = False
    """True if the argument at the cursor only fits as the beginning of a keyword argument's
    name."""

    @property
    def possible(self) -> bool:
        """Whether the signature accepts all arguments."""
        return not self.mismatches

    def sort_key(self, *, deprecated: bool) -> tuple[int, bool, int, bool, bool]:
        """Return a key by which better matches sort first.

        ``deprecated`` says whether torch deprecated the signature.
        """
        return (
            self.mismatches,
            deprecated,
            self.weak_fits,
            self.active is None,
            self.is_keyword_guess,
        )


@dataclass(frozen=True)
class NarrowedSignatures:
    """A comparison of all signatures of a called function with the arguments typed so far."""

    matches: tuple[SignatureMatch, ...]
    """Match of each signature, in the order of the signatures."""
    chosen: int
    """Index of the first signature among the best matches; 0 without signatures."""
    best: tuple[int, ...]
    """Indices of all signatures that match as well as the signature ``chosen``, which is
    included.
    """


def narrow_signatures(
    signatures: Sequence[Signature],
    arguments: Sequence[CallArgument],
    active: int,
    kind_of: Callable[[str], ValueKind] = lambda path: "unknown",
) -> NarrowedSignatures:
    """Match each signature of a called function with the arguments of the call.

    ``active`` is the index of the argument at the cursor, -1 for none. ``kind_of`` returns the kind
    of a constant such as ``torch.float32``, given its dotted name.
    """
    values = [evaluate_argument(argument.text, kind_of) for argument in arguments]
    matches = tuple(
        _match_signature(signature, arguments, values, active) for signature in signatures
    )
    costs = [
        match.sort_key(deprecated=signature.deprecated)
        for match, signature in zip(matches, signatures, strict=True)
    ]
    best = min(costs, default=None)
    equal = tuple(number for number, cost in enumerate(costs) if cost == best)
    return NarrowedSignatures(matches, equal[0] if equal else 0, equal)


def possible_signatures(
    signatures: Sequence[Signature],
    arguments: Sequence[CallArgument],
    active: int,
    kind_of: Callable[[str], ValueKind] = lambda path: "unknown",
) -> list[tuple[Signature, frozenset[int]]]:
    """Return the signatures that best accept the arguments of a call, ignoring the argument at the
    cursor.

    Each signature comes with the indices of its parameters that receive an argument. ``active`` is
    the index of the argument at the cursor. ``kind_of`` returns the kind of a constant, given its
    dotted name.
    """
    others = [argument for number, argument in enumerate(arguments) if number != active]
    narrowed = narrow_signatures(signatures, others, -1, kind_of)
    least = min((match.mismatches for match in narrowed.matches), default=0)
    return [
        (signature, match.filled)
        for signature, match in zip(signatures, narrowed.matches, strict=True)
        if match.mismatches == least
    ]


# -- one signature ----------------------------------------------------------------------------


def _match_signature(
    signature: Signature,
    arguments: Sequence[CallArgument],
    values: Sequence[ArgumentValue],
    active: int,
) -> SignatureMatch:
    parameters = signature.parameters
    named = {parameter.name: number for number, parameter in enumerate(parameters)}
    positional = [
        number for number, parameter in enumerate(parameters) if not parameter.keyword_only
    ]
    keyword_rest = next(
        (n for n, parameter in enumerate(parameters) if parameter.name.startswith("**")), None
    )
    filled: set[int] = set()
    mismatches = weak_fits = position = 0
    starred = is_keyword_guess = False
    active_parameter: int | None = None
    for number, (argument, value) in enumerate(zip(arguments, values, strict=True)):
        found: int | None = None
        if argument.star:
            # The number of arguments that a starred argument expands to is unknown.
            starred = True
        elif argument.keyword:
            found = named.get(argument.keyword)
            if found is None:
                found = named.get(_NUMPY_NAMES.get(argument.keyword, ""), keyword_rest)
            if found is None or (found in filled and found != keyword_rest):
                mismatches += 1
        elif starred:
            pass
        elif position < len(positional):
            found = positional[position]
            if not _takes_next_argument(parameters[found], value):
                position += 1
        elif argument.text:
            found = (
                _find_keyword_prefix(argument.text, parameters, filled)
                if number == active
                else None
            )
            is_keyword_guess = is_keyword_guess or found is not None
            mismatches += found is None
        if found is not None and argument.text and not (is_keyword_guess and number == active):
            fit = _fit_quality(value, parameters[found], typing=number == active)
            mismatches += fit == 0
            weak_fits += fit == 1
        if found is not None and (argument.text or argument.keyword):
            filled.add(found)
        if number == active:
            active_parameter = found
    return SignatureMatch(
        mismatches, weak_fits, active_parameter, frozenset(filled), is_keyword_guess
    )


def _takes_next_argument(parameter: Parameter, value: ArgumentValue) -> bool:
    """Whether a variadic parameter takes the positional argument after ``value``, which it has
    received.
    """
    if parameter.name.startswith("*"):
        return True
    return parameter.variadic and value.kind != "sequence"


def _find_keyword_prefix(text: str, parameters: Sequence[Parameter], taken: set[int]) -> int | None:
    """Return the index of the first keyword-only parameter whose name starts with ``text``; None if
    none does.

    ``taken`` are the indices of parameters with an argument, which are skipped.
    """
    if not text.isidentifier():
        return None
    for number, parameter in enumerate(parameters):
        if parameter.keyword_only and number not in taken and parameter.name.startswith(text):
            return number
    return None


# -- types ------------------------------------------------------------------------------------

_NO, _WEAK, _GOOD = 0, 1, 2
"""Qualities of the fit of a value to a parameter: not at all, only if nothing fits better, or
well.
"""

# Kinds of values that a parameter accepts, by its type as errors of torch's argument parser name
# it. Other types accept all kinds.
_ACCEPTED_KINDS: Mapping[str, Mapping[ValueKind, int]] = {
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


def _fit_quality(value: ArgumentValue, parameter: Parameter, *, typing: bool) -> int:
    """Return how well a value fits a parameter: ``_NO``, ``_WEAK`` or ``_GOOD``.

    ``typing`` says that the user is still typing the value, which may be incomplete.
    """
    if value.kind == "unknown":
        return _GOOD
    sequence = _SEQUENCE.fullmatch(parameter.type)
    if sequence is None and parameter.type not in _ACCEPTED_KINDS:
        return _GOOD
    if value.kind == "none":
        return _GOOD if parameter.optional or parameter.default == "None" else _NO
    if sequence is None:
        if parameter.choices and value.kind == "str" and not typing:
            return _GOOD if value.text in parameter.choices else _NO
        return _ACCEPTED_KINDS[parameter.type].get(value.kind, _NO)
    takes = _ACCEPTED_KINDS.get(sequence[1])
    if value.kind != "sequence":
        # The parser accepts a single number for a list with a fixed size.
        accepts_number = parameter.size or parameter.variadic
        return _NO if not accepts_number else _GOOD if takes is None else takes.get(value.kind, _NO)
    if takes is None:
        return _GOOD
    # A list of numbers is not accepted as a list of tensors, although a number may replace a
    # tensor.
    least = _GOOD if sequence[1] == "Tensor" else _WEAK
    for item in value.items:
        if item.kind not in ("unknown", "none") and takes.get(item.kind, _NO) < least:
            return _NO
    return _GOOD


def evaluate_argument(text: str, kind_of: Callable[[str], ValueKind]) -> ArgumentValue:
    """Determine the type and, for some literals, the value of an argument from its source code.

    The source code may be incomplete. ``kind_of`` returns the kind of a constant such as
    ``torch.float32``, given its dotted name.
    """
    text = text.strip()
    if not text:
        return UNKNOWN
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        if text[0] in "\"'":
            return ArgumentValue("str")
        return ArgumentValue("sequence") if text[0] == "[" else UNKNOWN
    return _node_value(node, kind_of)


def _node_value(node: ast.expr, kind_of: Callable[[str], ValueKind]) -> ArgumentValue:
    if isinstance(node, ast.Constant):
        return _constant_value(node.value)
    if isinstance(node, (ast.Tuple, ast.List)):
        return ArgumentValue("sequence", tuple(_node_value(item, kind_of) for item in node.elts))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return _node_value(node.operand, kind_of)
    if isinstance(node, ast.JoinedStr):
        return ArgumentValue("str")
    if isinstance(node, ast.ListComp):
        return ArgumentValue("sequence")
    if isinstance(node, (ast.Dict, ast.DictComp, ast.Set, ast.SetComp, ast.Lambda)):
        return ArgumentValue("other")
    if isinstance(node, (ast.Name, ast.Attribute)):
        return ArgumentValue(kind_of(ast.unparse(node)))
    return UNKNOWN


def _constant_value(value: object) -> ArgumentValue:
    if value is None:
        return ArgumentValue("none")
    if isinstance(value, str):
        return ArgumentValue("str", text=value)
    for kind in (bool, int, float, complex):
        if isinstance(value, kind):
            return ArgumentValue(kind.__name__)  # type: ignore[arg-type]
    return ArgumentValue("unknown" if value is ... else "other")
