"""Read the signatures of torch's C++ functions from the errors that the functions raise.

Some functions have a hand-written stub, which differs from the signatures that torch's
argument parser accepts. A call with wrong arguments makes the parser list all signatures in its
error message, without executing the function.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..protocol.operators import Field, Name, Parameter, Signature
from .phrases import default_as_python

_TOO_MANY = 64
_PARAMETER = re.compile(r"(?P<type>.+?) (?P<name>\w+)(?: = (?P<default>.+))?")


class _UnacceptableArgument:
    """A value that every parameter of a function rejects because of its type."""


def correct_signatures(name: Name, function: Callable[..., Any], *receiver: Any) -> Name:
    """Replace the signatures of an index entry, taken from a stub, by the signatures in the
    function's error message.

    ``receiver`` is a tensor for methods, and omitted for functions. Return types are kept from the
    stub. Only call this for functions that use torch's argument parser: others would be executed.
    """
    listed = read_listed_signatures(function, *receiver)
    if not listed:
        return name
    stubs = {_parameter_names(signature): signature.returns for signature in name.signatures}
    fallback = name.signatures[0].returns if name.signatures else ()
    same = all(signature.returns == fallback for signature in name.signatures)
    return replace(
        name,
        signatures=tuple(
            replace(
                s, returns=stubs.get(_parameter_names(s), fallback if same else (Field("object"),))
            )
            for s in listed
        ),
    )


def read_listed_signatures(function: Callable[..., Any], *receiver: Any) -> tuple[Signature, ...]:
    """Call a function with wrong arguments, and return the signatures that its error message lists.

    ``receiver`` is a tensor for methods, and omitted for functions. Returns an empty tuple if the
    message does not list any: the function has only one signature, or does not use torch's argument
    parser.
    """
    unacceptable = _UnacceptableArgument()
    attempts: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
        ((), {"fullgraph_asks": unacceptable}),
        ((unacceptable,) * _TOO_MANY, {}),
    )
    for arguments, keywords in attempts:
        try:
            function(*receiver, *arguments, **keywords)
        except TypeError as error:
            listed = re.findall(r"^ \* \((.*)\)$", str(error), re.MULTILINE)
            if listed:
                return tuple(Signature(tuple(_parse_parameters(line)), ()) for line in listed)
        except Exception:
            continue
    return ()


def _parse_parameters(line: str) -> list[Parameter]:
    found = []
    keyword_only = False
    # Commas inside a default are not followed by a space: `dim = {-2,-1}`.
    for part in line.split(", ") if line else ():
        if part == "*":
            keyword_only = True
            continue
        match = _PARAMETER.fullmatch(part)
        if match is None:
            continue
        default = default_as_python(match["default"]) if match["default"] else ""
        found.append(
            Parameter(
                match["name"],
                match["type"],
                default,
                keyword_only=keyword_only,
                optional=default == "None",
            )
        )
    positional = [parameter for parameter in found if not parameter.keyword_only]
    if len(positional) == 1 and positional[0].type == "tuple of ints":
        found[0] = replace(found[0], variadic=True)
    return found


def _parameter_names(signature: Signature) -> tuple[str, ...]:
    return tuple(parameter.name for parameter in signature.parameters)
