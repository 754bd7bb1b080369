"""Signatures in the words of a binding itself: those that its errors list.

What C++ binds by hand is described by stubs that are also written by hand, and differ from what the
argument parser tries. A call that no signature fits makes the parser print its list; nothing is
executed by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..protocol.operators import Field, Name, Parameter, Signature
from .phrases import default_words

_MANY = 64
_PARAMETER = re.compile(r"(?P<type>.+?) (?P<name>\w+)(?: = (?P<default>.+))?")


class _Refused:
    """What no parameter takes."""


def corrected(name: Name, function: Callable[..., Any], *receiver: Any) -> Name:
    """A name whose signatures come from a stub, with those that its binding lists, if it does.

    ``receiver`` is a tensor for methods. Call it only for bindings that parse their arguments.
    """
    spoken = spoken_signatures(function, *receiver)
    if not spoken:
        return name
    stubs = {_names(signature): signature.returns for signature in name.signatures}
    otherwise = name.signatures[0].returns if name.signatures else ()
    same = all(signature.returns == otherwise for signature in name.signatures)
    return replace(
        name,
        signatures=tuple(
            replace(s, returns=stubs.get(_names(s), otherwise if same else (Field("object"),)))
            for s in spoken
        ),
    )


def spoken_signatures(function: Callable[..., Any], *receiver: Any) -> tuple[Signature, ...]:
    """The signatures that errors of a binding list, in the order in which they are tried.

    Empty where it lists none: it has only one, or parses its arguments in its own way.
    """
    refused = _Refused()
    attempts: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
        ((), {"fullgraph_asks": refused}),
        ((refused,) * _MANY, {}),
    )
    for arguments, keywords in attempts:
        try:
            function(*receiver, *arguments, **keywords)
        except TypeError as error:
            listed = re.findall(r"^ \* \((.*)\)$", str(error), re.MULTILINE)
            if listed:
                return tuple(Signature(tuple(_parameters(line)), ()) for line in listed)
        except Exception:
            continue
    return ()


def _parameters(line: str) -> list[Parameter]:
    found = []
    keyword_only = False
    # A comma inside of a default stands in braces: `dim = {-2,-1}`, without a space behind it.
    for part in line.split(", ") if line else ():
        if part == "*":
            keyword_only = True
            continue
        match = _PARAMETER.fullmatch(part)
        if match is None:
            continue
        default = default_words(match["default"]) if match["default"] else ""
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


def _names(signature: Signature) -> tuple[str, ...]:
    return tuple(parameter.name for parameter in signature.parameters)
