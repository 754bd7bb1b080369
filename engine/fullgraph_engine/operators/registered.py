"""Operators that a user's file adds to those of the warm engine."""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
from types import FrameType
from typing import Any

import torch

from ..protocol.operators import Operator
from ..torch_internals import dispatcher as upstream
from . import dispatcher

_baseline: frozenset[str] = frozenset()
_places: dict[str, str] = {}
"""Where operators were defined, by ``ns::name`` or ``ns::name.overload``."""

_MENTIONS = re.compile(
    r"\b(?:torch\s*\.\s*library|from\s+torch\s+import\s[^\n]*\blibrary\b|load_library|custom_op"
    r"|triton_op|cpp_extension)\b"
)
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep  # noqa: PTH100, PTH120
_STANDARD = sysconfig.get_path("stdlib") + os.sep
_INSTALLED = ("site-packages", "dist-packages")

_getframe = sys._getframe


def take_baseline() -> None:
    """The operators that exist now are torch's."""
    global _baseline
    _baseline = frozenset(upstream.operator_names())


def may_register(text: str) -> bool:
    """False only where a text says nothing of making operators or of loading them."""
    return _MENTIONS.search(text) is not None


def note_places() -> None:
    """From here on remember the line from which ``torch.library`` defines an operator.

    The dispatcher itself knows only where the library was made, and torch makes one of its own
    for ``custom_op``.
    """
    library = torch.library.Library
    original: Any = library.define

    @functools.wraps(original)
    def define(self: Any, schema: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, schema, *args, **kwargs)
        name = str(schema).partition("(")[0].strip().rpartition("::")[2]
        _places[f"{self.ns}::{name}"] = _caller(_getframe(1))
        return made

    library.define = define  # type: ignore[method-assign]


def _caller(frame: FrameType | None) -> str:
    """The innermost place that is neither torch's nor the standard library's."""
    while frame is not None:
        path = frame.f_code.co_filename
        standard = path.startswith(_STANDARD) and not any(name in path for name in _INSTALLED)
        if not path.startswith((_TORCH, "<")) and not standard:
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def since_baseline() -> tuple[Operator, ...]:
    """The operators that exist now and did not when the baseline was taken."""
    added = [name for name in upstream.operator_names() if name not in _baseline]
    if not added:
        return ()
    facts = dispatcher.Facts.gather_for(added)
    found: dict[str, dict[str, Any]] = {}
    for name in added:
        operator, _, overload = name.partition(".")
        found.setdefault(operator, {})[overload] = upstream.schema_of(operator, overload)
    return tuple(
        Operator(
            operator,
            tuple(
                dispatcher.overload(
                    name := dispatcher.qualified(operator, overload),
                    schema,
                    facts,
                    _places.get(name, ""),
                )
                for overload, schema in schemas.items()
            ),
        )
        for operator, schemas in sorted(found.items())
    )
