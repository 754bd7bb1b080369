"""Find the operators that a user's file registers, in an engine process that already imported
torch."""

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
"""Qualified names of the operators that were registered before any user code ran."""
_places: dict[str, str] = {}
"""Source file and line (``path:line``) that define an operator, by ``ns::name`` or
``ns::name.overload``."""

_MENTIONS = re.compile(
    r"\b(?:torch\s*\.\s*library|from\s+torch\s+import\s[^\n]*\blibrary\b|load_library|custom_op"
    r"|triton_op|cpp_extension)\b"
)
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep  # noqa: PTH100, PTH120
_STANDARD = sysconfig.get_path("stdlib") + os.sep
_INSTALLED = ("site-packages", "dist-packages")

_getframe = sys._getframe


def take_baseline() -> None:
    """Record the registered operators, so that later ones are recognized as the user's."""
    global _baseline
    _baseline = frozenset(upstream.operator_names())


def may_register(text: str) -> bool:
    """Whether the source text of a file mentions an API that defines or loads operators."""
    return _MENTIONS.search(text) is not None


def record_definition_places() -> None:
    """Patch ``torch.library.Library.define`` to record the source line that defines each operator.

    The dispatcher only records where the ``Library`` object was created, which is in torch for
    ``custom_op``.
    """
    library = torch.library.Library
    original: Any = library.define

    @functools.wraps(original)
    def define(self: Any, schema: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, schema, *args, **kwargs)
        name = str(schema).partition("(")[0].strip().rpartition("::")[2]
        _places[f"{self.ns}::{name}"] = _calling_place(_getframe(1))
        return result

    library.define = define  # type: ignore[method-assign]


def _calling_place(frame: FrameType | None) -> str:
    """Return ``path:line`` of the nearest frame around ``frame`` outside of torch and the standard
    library.

    Returns an empty string if there is none.
    """
    while frame is not None:
        path = frame.f_code.co_filename
        standard = path.startswith(_STANDARD) and not any(name in path for name in _INSTALLED)
        if not path.startswith((_TORCH, "<")) and not standard:
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def operators_since_baseline() -> tuple[Operator, ...]:
    """Return index entries of the operators that were registered after :func:`take_baseline`."""
    added = [name for name in upstream.operator_names() if name not in _baseline]
    if not added:
        return ()
    snapshot = dispatcher.DispatcherSnapshot.of_operators(added)
    found: dict[str, dict[str, Any]] = {}
    for name in added:
        operator, _, overload = name.partition(".")
        found.setdefault(operator, {})[overload] = upstream.schema_of(operator, overload)
    return tuple(
        Operator(
            operator,
            tuple(
                dispatcher.describe_overload(
                    name := dispatcher.qualified_name(operator, overload),
                    schema,
                    snapshot,
                    _places.get(name, ""),
                )
                for overload, schema in schemas.items()
            ),
        )
        for operator, schemas in sorted(found.items())
    )
