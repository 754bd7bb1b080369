"""Symbolic sizes: ``ShapeEnv``, the recording of its events, sources of values."""

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
"""The settings of symbolic shapes: a module that torch gave the methods of its settings."""

_SS = "torch.fx.experimental.symbolic_shapes"

REPLACEMENT = internal(
    "specializations", "specialized dimensions", _SS, "ShapeEnv._set_replacement"
)
CREATE_SYMBOL = internal("specializations", "symbols of dimensions", _SS, "ShapeEnv.create_symbol")
PLACE = internal("guards", "the lines that guards on sizes come from", _SS, "ShapeEnv._get_sloc")
CREATE_UNBACKED = internal(
    "explanations", "sizes that only the data know", _SS, "ShapeEnv.create_unbacked_symint"
)
DEFER_ASSERT = internal(
    "explanations",
    "where conditions come from that are checked when a graph runs",
    _SS,
    "ShapeEnv.guard_or_defer_runtime_assert",
)
REPLAY = (
    internal(
        "explanations", "recording at a bearable cost", _SS, "ShapeEnv._snapshot_tracked_fakes"
    ),
    internal("explanations", "replaying without leaving guards suppressed", _SS, "TLS"),
)

INTERNALS = (REPLACEMENT, CREATE_SYMBOL, PLACE, CREATE_UNBACKED, DEFER_ASSERT, *REPLAY)


def name_of_source(source: Any) -> str:
    """A method up to torch 2.9, then a property."""
    name = getattr(source, "name", "")
    return str(name() if callable(name) else name)


def source_of_symbol(shape_env: Any, symbol: Any) -> str:
    """The name of the value that a symbol is the size of; empty where it has none.

    ``var_to_sources`` up to torch 2.9, then ``source_to_var`` too.
    """
    sources = getattr(shape_env, "var_to_sources", None) or getattr(shape_env, "source_to_var", {})
    found = sources.get(symbol, []) if isinstance(sources, dict) else []
    return name_of_source(found[0]) if found else ""


def hints_of(shape_env: Any) -> Any:
    """The values that its symbols had; those of the data are not among them.

    ``var_to_val`` up to torch 2.10, then ``backed_var_to_val``.
    """
    known = getattr(shape_env, "backed_var_to_val", None)
    return shape_env.var_to_val if known is None else known


def deferred_asserts(shape_env: Any) -> list[Any]:
    """Conditions that are checked when a graph runs."""
    deferred = getattr(shape_env, "deferred_runtime_asserts", {})
    return [item for items in deferred.values() for item in items]
