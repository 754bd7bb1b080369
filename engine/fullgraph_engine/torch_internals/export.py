"""``torch.export`` that goes on behind what it cannot decide, and what it was.

``draft_export`` runs fake tensors that know the true values; it reports what export would have
refused, in the form of ``FailureReport`` (``torch/export/_draft_export.py``).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ..protocol import Frame

__all__ = ["DraftProblem", "draft", "plain_export"]

_KINDS: dict[str, DraftKind] = {
    "DATA_DEPENDENT_ERROR": "data-dependent",
    "GUARD_ADDED": "constraint",
    "MISSING_FAKE_KERNEL": "missing-fake-kernel",
    "MISMATCHED_FAKE_KERNEL": "mismatched-fake-kernel",
}
DraftKind = Literal["data-dependent", "constraint", "missing-fake-kernel", "mismatched-fake-kernel"]

_INTERNED: Mapping[str, int] = getattr(
    importlib.import_module("torch._logging.structured"), "INTERN_TABLE", {}
)
"""The numbers of file names in logs."""


@dataclass(frozen=True)
class DraftProblem:
    """One thing that export refuses. ``stack`` is the user's, outermost first.

    ``expression`` in symbols had the truth ``holds`` for these inputs; ``locals`` describe the
    variables of the innermost frame as upstream does, ``sources`` what symbols are sizes of.
    """

    kind: DraftKind
    stack: tuple[Frame, ...] = ()
    expression: str = ""
    holds: bool = True
    locals: tuple[tuple[str, str], ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    operator: str = ""
    reason: str = ""


def draft(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> tuple[Any, tuple[DraftProblem, ...]] | None:
    """The exported program and what export would have refused; None where this torch has no draft.

    Raises:
        Exception: what the code raises, or what not even a draft goes on behind.
    """
    upstream = _draft_export()
    if upstream is None:
        return None
    # Its log is named after the user, who may have no name here.
    os.environ.setdefault("LOGNAME", "user")
    program = upstream(module, tuple(args), dict(kwargs), dynamic_shapes=dynamic_shapes)
    failures = program._report.failures
    # The report has only the names that were first logged during it.
    names = {int(number): name for name, number in _INTERNED.items()}
    found = [_problem(failure, names) for failure in failures]
    return program, tuple(one for one in found if one is not None)


def plain_export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    *,
    strict: bool,
) -> Any:
    """``torch.export.export``."""
    return torch.export.export(
        module, tuple(args), dict(kwargs), dynamic_shapes=dynamic_shapes, strict=strict
    )


def _draft_export() -> Callable[..., Any] | None:
    try:
        module = importlib.import_module("torch.export._draft_export")
    except ImportError:
        return None
    found: Callable[..., Any] | None = getattr(module, "draft_export", None)
    return found


def _problem(failure: Any, names: Mapping[int, str]) -> DraftProblem | None:
    kind = _KINDS.get(str(failure.failure_type))
    data: Mapping[str, Any] = failure.data
    # A guard of this kind is the assertion that goes with a data-dependent error.
    if kind is None or (kind == "constraint" and not data.get("symbol_to_sources")):
        return None
    here = data.get("frame_locals") or {}
    return DraftProblem(
        kind,
        tuple(_frames(data.get("user_stack") or (), names)),
        str(data.get("expr", "")),
        str(data.get("result", "True")) != "False",
        tuple((name, _first(value)) for name, value in (here.get("locals") or {}).items()),
        tuple((str(name), str(source)) for name, source in _sources(data)),
        str(data.get("op", "")),
        str(data.get("reason", "")),
    )


def _sources(data: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    here = data.get("frame_locals") or {}
    known = {**(here.get("symbols") or {}), **(data.get("symbol_to_sources") or {})}
    return [(name, source) for name, source in known.items() if source is not None]


def _first(value: Any) -> str:
    """Locals are lists of the leaves of a value."""
    return str(value[0]) if isinstance(value, list) and len(value) == 1 else str(value)


def _frames(stack: Any, names: Mapping[int, str]) -> Sequence[Frame]:
    return [
        Frame(names[one["filename"]], one["name"], int(one["line"]) - 1)
        for one in stack
        if one.get("filename") in names
    ]
