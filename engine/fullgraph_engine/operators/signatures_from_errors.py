"""Read the signatures of a binding from the errors that it raises.

Some bindings and their stubs are written by hand, and such a stub differs from what the argument
parser accepts. A call that matches no signature makes the parser list all of them, and does not
execute the function.
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
    """A value of a type that no parameter accepts."""


def correct_signatures(name: Name, function: Callable[..., Any], *receiver: Any) -> Name:
    """Replace the signatures of a name, taken from a stub, with the signatures that its binding
    lists.

    ``receiver`` is a tensor for methods. Only call this for bindings that use the argument parser:
    other functions would run. Return types are still taken from the stub.
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
    """Return the signatures that the errors of a binding list, in the order in which it tries them.

    Returns an empty tuple if the error does not list any: the binding has one signature only, or
    does not use the argument parser.
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
