"""Run ``torch.export`` and ``draft_export``, and parse the problems that the draft reports.

``draft_export`` continues where export would raise, because its fake tensors know the true values.
It describes each problem in a ``FailureReport`` (``torch/export/_draft_export.py``).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ..protocol import Frame

__all__ = ["DraftProblem", "draft_export", "plain_export"]

_KINDS: dict[str, DraftKind] = {
    "DATA_DEPENDENT_ERROR": "data-dependent",
    "GUARD_ADDED": "constraint",
    "MISSING_FAKE_KERNEL": "missing-fake-kernel",
    "MISMATCHED_FAKE_KERNEL": "mismatched-fake-kernel",
}
DraftKind = Literal["data-dependent", "constraint", "missing-fake-kernel", "mismatched-fake-kernel"]

_FILE_NAME_IDS: Mapping[str, int] = getattr(
    importlib.import_module("torch._logging.structured"), "INTERN_TABLE", {}
)
"""Integer ids of file names in structured logs, by file name."""


@dataclass(frozen=True)
class DraftProblem:
    """One problem that makes ``torch.export`` fail. ``stack`` has the user's frames, outermost
    first.

    ``expression`` is the condition in symbols and ``holds`` its value for the inputs of the export.
    ``locals`` are pairs of a variable of the innermost frame and torch's description of it.
    ``sources`` are pairs of a symbol and the input expression whose size it is.
    """

    kind: DraftKind
    stack: tuple[Frame, ...] = ()
    expression: str = ""
    holds: bool = True
    locals: tuple[tuple[str, str], ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    operator: str = ""
    reason: str = ""


def draft_export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> tuple[Any, tuple[DraftProblem, ...]] | None:
    """Export a module in draft mode; return the exported program and the problems found.

    Return None if the installed torch does not have ``draft_export``.

    Raises:
        Exception: The module raised it, or the problem stops even a draft export.
    """
    upstream = _find_draft_export()
    if upstream is None:
        return None
    # torch names its log directory after the user, who may not have a name in this process.
    os.environ.setdefault("LOGNAME", "user")
    program = upstream(module, tuple(args), dict(kwargs), dynamic_shapes=dynamic_shapes)
    failures = program._report.failures
    # The report contains only names that were first logged during this export.
    file_names = {int(number): name for name, number in _FILE_NAME_IDS.items()}
    found = [_parse_failure(failure, file_names) for failure in failures]
    return program, tuple(problem for problem in found if problem is not None)


def plain_export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    *,
    strict: bool,
) -> Any:
    """Call ``torch.export.export`` with these arguments and return the exported program."""
    return torch.export.export(
        module, tuple(args), dict(kwargs), dynamic_shapes=dynamic_shapes, strict=strict
    )


def _find_draft_export() -> Callable[..., Any] | None:
    try:
        module = importlib.import_module("torch.export._draft_export")
    except ImportError:
        return None
    found: Callable[..., Any] | None = getattr(module, "draft_export", None)
    return found


def _parse_failure(failure: Any, file_names: Mapping[int, str]) -> DraftProblem | None:
    kind = _KINDS.get(str(failure.failure_type))
    data: Mapping[str, Any] = failure.data
    # A `GUARD_ADDED` without sources is the assertion of a data-dependent error.
    if kind is None or (kind == "constraint" and not data.get("symbol_to_sources")):
        return None
    frame_locals = data.get("frame_locals") or {}
    return DraftProblem(
        kind,
        tuple(_parse_stack(data.get("user_stack") or (), file_names)),
        str(data.get("expr", "")),
        str(data.get("result", "True")) != "False",
        tuple(
            (name, _describe_local(value))
            for name, value in (frame_locals.get("locals") or {}).items()
        ),
        tuple((str(name), str(source)) for name, source in _symbol_sources(data)),
        str(data.get("op", "")),
        str(data.get("reason", "")),
    )


def _symbol_sources(data: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    frame_locals = data.get("frame_locals") or {}
    known = {**(frame_locals.get("symbols") or {}), **(data.get("symbol_to_sources") or {})}
    return [(name, source) for name, source in known.items() if source is not None]


def _describe_local(value: Any) -> str:
    """Return the description of a local variable as text. torch stores it as a list with one item
    for each leaf of the value."""
    return str(value[0]) if isinstance(value, list) and len(value) == 1 else str(value)


def _parse_stack(stack: Any, file_names: Mapping[int, str]) -> Sequence[Frame]:
    return [
        Frame(file_names[entry["filename"]], entry["name"], int(entry["line"]) - 1)
        for entry in stack
        if entry.get("filename") in file_names
    ]
