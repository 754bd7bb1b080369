"""Causes of graph breaks: the line or library call in the user's stack that Dynamo could not
trace."""

from __future__ import annotations

import hashlib
import linecache
import re

from ..protocol import BreakCause, Frame
from ..protocol.breaks import CauseKind
from ..torch_internals.breaks import untraced_callee
from ..tracing.recording import Break
from ..tracing.stacks import is_library
from .places import FindingPlace, SourceText

_INSTALLED = re.compile(r".*/(?:site-packages|dist-packages|lib/python3\.\d+)/")
_WRAPPERS = ("/torch/nn/parallel/", "/torch/distributed/")
"""Folders of torch whose code calls the user's module, such as ``DistributedDataParallel``."""


def break_cause(code: str, record: Break, place: FindingPlace, source: SourceText) -> BreakCause:
    """Return the code that must change to remove a graph break.

    ``record`` is the break, and ``code`` the code of its finding, such as ``graph-break/GB0059``.
    ``place`` is the position of the finding in the file ``source``.
    """
    if place.deeper:
        inner = place.deeper[-1]
        around = next((frame for frame in reversed(place.deeper) if _is_wrapper(frame.path)), None)
        wrapped = bool(record.hook) or around is not None
        shown = around or inner
        return BreakCause(
            _hash_identity(
                code,
                _portable_path(inner.path, source),
                inner.function,
                *_instruction_identity(inner),
            ),
            _cause_kind(inner.path, wrapped=wrapped),
            shown.function,
            shown.path,
            shown.line,
            place.deeper[0].function,
        )
    called = untraced_callee(record.causes[0].context)
    if called:
        return BreakCause(_hash_identity(code, "call", called), "call", called)
    line = place.range.start.line
    frame = place.stack[-1] if place.stack else None
    function = source.function(source.path, frame.function, line) if frame is not None else ""
    text = source.code_of(place.range)
    before = source.occurrences(place.range, function)
    return BreakCause(_hash_identity(code, "place", function, text, str(before)), "place", function)


def _cause_kind(path: str, *, wrapped: bool) -> CauseKind:
    if not is_library(path):
        return "module"
    return "hook" if wrapped else "library"


def _is_wrapper(path: str) -> bool:
    return any(part in path for part in _WRAPPERS)


def _instruction_identity(frame: Frame) -> tuple[str, str]:
    """Return the source line of a frame, and the number of equal lines before it, to recognize the
    line after edits."""
    lines = linecache.getlines(frame.path)
    text = lines[frame.line].strip() if frame.line < len(lines) else ""
    before = sum(line.strip() == text for line in lines[: frame.line])
    return text, f"{before}:{frame.byte}"


def _portable_path(path: str, source: SourceText) -> str:
    """Return the path of a file without leading folders, which differ between machines."""
    if is_library(path):
        return _INSTALLED.sub("", path)
    folder = source.path.rpartition("/")[0] + "/"
    return path.removeprefix(folder)


def _hash_identity(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
