"""Format the signatures of torch's functions as Python source."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fullgraph_engine.protocol.operators import Field, Parameter, Signature

Span = tuple[int, int]

_SEQUENCE = re.compile(r"(tuple|list) of (\w+?)s?")


def signature_label(signature: Signature, name: str) -> tuple[str, tuple[Span, ...]]:
    """Format a signature on one line; also return the start and end index of each parameter.

    ``max(input: Tensor, dim: int, keepdim: bool = False) -> (values: Tensor, indices: Tensor)``
    """
    text = f"{name}("
    spans: list[Span] = []
    starred = False
    for number, parameter in enumerate(signature.parameters):
        text += ", " if number else ""
        if parameter.keyword_only and not starred and not parameter.name.startswith("**"):
            # The `*` before keyword-only parameters is omitted after a parameter such as `*args`.
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
    """Format a parameter, for example ``dim: int | None = None``."""
    star = "*" if parameter.variadic and not parameter.name.startswith("*") else ""
    type_ = parameter_annotation(parameter)
    text = f"{star}{parameter.name}" + (f": {type_}" if type_ else "")
    if not parameter.default:
        return text
    return f"{text} = {parameter.default}" if type_ else f"{text}={parameter.default}"


def parameter_annotation(parameter: Parameter) -> str:
    """Return the type of a parameter as an annotation; empty if it is unknown."""
    if parameter.choices:
        type_ = " | ".join(f'"{choice}"' for choice in parameter.choices)
    else:
        type_ = type_text(parameter.type)
        sequence = _SEQUENCE.fullmatch(parameter.type)
        if sequence is not None and parameter.variadic:
            # In `*size: int`, the annotation is the type of each item.
            type_ = sequence[2]
        elif sequence is not None and parameter.size:
            type_ = f"{sequence[2]} | {type_}"
    optional = parameter.optional or parameter.default == "None"
    accepts_none = "None" in type_ or type_.startswith("Optional[")
    return f"{type_} | None" if type_ and optional and not accepts_none else type_


def type_text(parser_type: str) -> str:
    """Convert a type as torch's argument parser names it to an annotation.

    For example, ``tuple of ints`` becomes ``tuple[int, ...]``.
    """
    sequence = _SEQUENCE.fullmatch(parser_type)
    return f"{sequence[1]}[{sequence[2]}, ...]" if sequence is not None else parser_type


def returns_text(returns: Iterable[Field]) -> str:
    """Format the return type of a function: one type, or several in parentheses with their
    names."""
    fields = [
        f"{field.name}: {type_text(field.type)}" if field.name else type_text(field.type)
        for field in returns
    ]
    if len(fields) == 1:
        return fields[0].rpartition(": ")[2]
    return f"({', '.join(fields)})" if fields else "None"
