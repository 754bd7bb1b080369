"""Private names of symbolic sizes: ``ShapeEnv``, the recording of its events, and sources of
sizes."""

from __future__ import annotations

import sys
from typing import Any

from torch._dynamo.source import (
    CallMethodItemSource,
    RandomValueSource,
    TensorProperty,
    TensorPropertySource,
)
from torch._guards import Source
from torch.fx.experimental import recording, symbolic_shapes
from torch.fx.experimental.recording import FakeTensorMeta, ShapeEnvEvent
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, SymbolicContext

from .binding import internal

__all__ = [
    "CallMethodItemSource",
    "DimDynamic",
    "FakeTensorMeta",
    "RandomValueSource",
    "ShapeEnv",
    "ShapeEnvEvent",
    "Source",
    "SymbolicContext",
    "TensorProperty",
    "TensorPropertySource",
    "config",
    "name_of_source",
    "recording",
    "symbolic_shapes",
]

config: Any = sys.modules["torch.fx.experimental._config"]
"""Module with the settings of symbolic shapes; torch adds ``patch`` and other methods to it."""

_SS = "torch.fx.experimental.symbolic_shapes"

REPLACEMENT = internal(
    "specializations", "specialized dimensions", _SS, "ShapeEnv._set_replacement"
)
CREATE_SYMBOL = internal(
    "specializations", "symbols of dynamic dimensions", _SS, "ShapeEnv.create_symbol"
)
GET_LOCATION = internal("guards", "source lines of guards on sizes", _SS, "ShapeEnv._get_sloc")
CREATE_UNBACKED = internal(
    "explanations", "sizes that depend on data", _SS, "ShapeEnv.create_unbacked_symint"
)
DEFER_ASSERT = internal(
    "explanations",
    "source lines of conditions that a graph checks when it runs",
    _SS,
    "ShapeEnv.guard_or_defer_runtime_assert",
)
REPLAY = (
    internal(
        "explanations",
        "recording ShapeEnv events at a low cost",
        _SS,
        "ShapeEnv._snapshot_tracked_fakes",
    ),
    internal("explanations", "replaying shape events without suppressed guards", _SS, "TLS"),
)

INTERNALS = (REPLACEMENT, CREATE_SYMBOL, GET_LOCATION, CREATE_UNBACKED, DEFER_ASSERT, *REPLAY)


def name_of_source(source: Any) -> str:
    """Return the name of a source (Dynamo's expression of a value); ``name`` is a method up to
    torch 2.9."""
    name = getattr(source, "name", "")
    return str(name() if callable(name) else name)


def source_of_symbol(shape_env: Any, symbol: Any) -> str:
    """Return the name of the value that a symbol is the size of, or an empty string.

    torch stores these names in ``var_to_sources`` up to 2.9; later releases also have
    ``source_to_var``.
    """
    sources = getattr(shape_env, "var_to_sources", None) or getattr(shape_env, "source_to_var", {})
    found = sources.get(symbol, []) if isinstance(sources, dict) else []
    return name_of_source(found[0]) if found else ""


def symbol_hints(shape_env: Any) -> Any:
    """Return the hints of the backed symbols of a ``ShapeEnv``, by symbol.

    torch stores them in ``var_to_val`` up to 2.10, and in ``backed_var_to_val`` since.
    """
    known = getattr(shape_env, "backed_var_to_val", None)
    return shape_env.var_to_val if known is None else known


def deferred_asserts(shape_env: Any) -> list[Any]:
    """Return the conditions that a ``ShapeEnv`` defers until the graph runs."""
    deferred = getattr(shape_env, "deferred_runtime_asserts", {})
    return [item for items in deferred.values() for item in items]
