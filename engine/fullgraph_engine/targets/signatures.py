"""Check whether calls fit the signatures of functions, and explain to the user why they do not."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Misfit:
    """An explanation why a call does not fit a signature: Python's message, and the parameters that
    the function accepts.

    ``keyword`` is the unexpected keyword; empty for other reasons.
    """

    reason: str
    keyword: str


def find_misfit(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Misfit | None:
    """Return why a call with these arguments does not fit a function; None if it fits or the
    signature is unknown."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        keyword = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        return Misfit(
            f"{error}{_describe_parameters(function, signature)}", keyword[1] if keyword else ""
        )
    return None


def _describe_parameters(function: Any, signature: inspect.Signature) -> str:
    """Return a function's parameters as text: ``; it takes (x, mask=None)``, with short
    defaults.
    """
    if not signature.parameters:
        name = "init" if isinstance(function, type) else getattr(function, "__name__", "forward")
        return f"; it takes no arguments, write `{name}()`"
    words = []
    for parameter in signature.parameters.values():
        plain = parameter.replace(annotation=parameter.empty)
        default = parameter.default
        short = (int, float, str, type(None))
        if default is not parameter.empty and not isinstance(default, short):
            plain = plain.replace(default=...)
        words.append(str(plain).replace("Ellipsis", "…"))
    return f"; it takes ({', '.join(words)})"
