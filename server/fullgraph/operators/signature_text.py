"""Signatures as Python text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fullgraph_engine.protocol.operators import Field, Parameter, Signature

Span = tuple[int, int]

_SEQUENCE = re.compile(r"(tuple|list) of (\w+?)s?")


def label(signature: Signature, name: str) -> tuple[str, tuple[Span, ...]]:
    """A signature on one line, and where in it each of its parameters is.

    ``max(input: Tensor, dim: int, keepdim: bool = False) -> (values: Tensor, indices: Tensor)``
    """
    text = f"{name}("
    spans: list[Span] = []
    starred = False
    for number, parameter in enumerate(signature.parameters):
        text += ", " if number else ""
        if parameter.keyword_only and not starred and not parameter.name.startswith("**"):
            # Nothing positional follows a parameter that takes all there is.
            starred = True
            text += "*, "
        starred = starred or parameter.variadic
        start = len(text)
        text += parameter_text(parameter)
        spans.append((start, len(text)))
    text += ")"
    if signature.returns:
        text += f" -> {returns_text(signature.returns)}"
    return text, tuple(spans)


def parameter_text(parameter: Parameter) -> str:
    """``dim: int | None = None``"""
    star = "*" if parameter.variadic and not parameter.name.startswith("*") else ""
    type_ = annotation(parameter)
    text = f"{star}{parameter.name}" + (f": {type_}" if type_ else "")
    if not parameter.default:
        return text
    return f"{text} = {parameter.default}" if type_ else f"{text}={parameter.default}"


def annotation(parameter: Parameter) -> str:
    """The type of a parameter as one would annotate it; empty where it is not known."""
    if parameter.choices:
        type_ = " | ".join(map(_quoted, parameter.choices))
    else:
        type_ = type_text(parameter.type)
        sequence = _SEQUENCE.fullmatch(parameter.type)
        if sequence is not None and parameter.variadic:
            # As one writes ``*size: int``: the items may be given one by one.
            type_ = sequence[2]
        elif sequence is not None and parameter.size:
            type_ = f"{sequence[2]} | {type_}"
    nothing = parameter.optional or parameter.default == "None"
    said = "None" in type_ or type_.startswith("Optional[")
    return f"{type_} | None" if type_ and nothing and not said else type_


def type_text(words: str) -> str:
    """The words of the argument parser (``tuple of ints``) as a type (``tuple[int, ...]``)."""
    sequence = _SEQUENCE.fullmatch(words)
    return f"{sequence[1]}[{sequence[2]}, ...]" if sequence is not None else words


def returns_text(returns: Iterable[Field]) -> str:
    """What is returned: a type, or several in parentheses with the names that they have."""
    fields = [
        f"{field.name}: {type_text(field.type)}" if field.name else type_text(field.type)
        for field in returns
    ]
    if len(fields) == 1:
        return fields[0].rpartition(": ")[2]
    return f"({', '.join(fields)})" if fields else "None"


def _quoted(choice: str) -> str:
    return f'"{choice}"'
