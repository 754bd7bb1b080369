"""Convert frames of the Python interpreter to frames of the server's protocol."""

from __future__ import annotations

import importlib
import linecache
import os
import sys
import types
from dataclasses import replace
from pathlib import Path

from .. import texts
from ..code_objects import position_at
from ..protocol import Finding, Frame, Position, Range

_ENGINE = str(Path(__file__).resolve().parent.parent)
_getframe, _getline = sys._getframe, linecache.getline


def of_traceback(trace: types.TracebackType | None) -> tuple[Frame, ...]:
    """Return the frames of a traceback, outermost first, without frames of the engine and of
    importlib."""
    frames = []
    while trace is not None:
        if not _is_machinery(trace.tb_frame.f_code.co_filename):
            frames.append(_convert_frame(trace.tb_frame.f_code, trace.tb_lineno, trace.tb_lasti))
        trace = trace.tb_next
    return texts.shorten_stack(tuple(frames))


def of_stack(frame: types.FrameType | None) -> tuple[Frame, ...]:
    """Return ``frame`` and its callers, outermost first, without frames of the engine and of
    importlib."""
    frames = []
    while frame is not None:
        if not _is_machinery(frame.f_code.co_filename):
            frames.append(_convert_frame(frame.f_code, frame.f_lineno, frame.f_lasti))
        frame = frame.f_back
    return texts.shorten_stack(tuple(reversed(frames)))


def add_source_lines(stack: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Return a stack without frames of the engine, each frame with the text of its line."""
    frames = []
    for frame in stack:
        if not _is_machinery(frame.path):
            line = _getline(frame.path, frame.line + 1).rstrip("\n")
            indentation = len(line) - len(line.lstrip())
            frames.append(replace(frame, byte=indentation, text=line))
    return texts.shorten_stack(tuple(frames))


def drop_scratch_paths(finding: Finding, scratch: str) -> Finding:
    """Return a finding without paths below the temporary folder, which is removed after the run.

    Libraries generate code there and import it. Stack frames keep only the file name; related
    locations in that folder are dropped.
    """
    below = f"{scratch}{os.sep}"

    def shorten_path(path: str) -> str:
        return f"<{Path(path).name}>" if path.startswith(below) else path

    paths = (*(frame.path for frame in finding.stack), *(one.path for one in finding.related))
    if not any(path.startswith(below) for path in paths):
        return finding
    return replace(
        finding,
        stack=tuple(replace(frame, path=shorten_path(frame.path)) for frame in finding.stack),
        related=tuple(one for one in finding.related if not one.path.startswith(below)),
        causes=tuple(replace(cause, path=shorten_path(cause.path)) for cause in finding.causes),
    )


def innermost_frame(stack: tuple[Frame, ...], path: str) -> Frame | None:
    """Return the most recently called frame that lies in the analyzed file, or None. A finding is
    reported at this frame."""
    return next((frame for frame in reversed(stack) if frame.path == path), None)


def range_of(frame: Frame, lines: list[str]) -> Range:
    """Return the source range of a frame, or its whole line if the columns are unknown."""
    if frame.end_byte >= 0:
        end_line = max(frame.end_line, frame.line)
        return Range(Position(frame.line, frame.byte), Position(end_line, frame.end_byte))
    return line_range(frame.line, lines)


def line_range(line: int, lines: list[str]) -> Range:
    """Return the range of a zero-based line without surrounding blanks; an empty range if ``lines``
    has fewer lines."""
    text = lines[line].rstrip("\r\n") if 0 <= line < len(lines) else ""
    start = len(text[: len(text) - len(text.lstrip())].encode())
    end = len(text.rstrip().encode("utf-8", "surrogatepass"))
    return Range(Position(line, min(start, end)), Position(line, end))


def _is_machinery(path: str) -> bool:
    return path.startswith((_ENGINE, "<frozen")) or path == importlib.__file__


def _convert_frame(code: types.CodeType, line: int | None, lasti: int) -> Frame:
    place = position_at(code, lasti)
    number = (line if place is None else place.lineno) or code.co_firstlineno
    found = Frame(
        code.co_filename,
        code.co_name,
        number - 1,
        text=_getline(code.co_filename, number).strip("\n"),
    )
    if place is None:
        return found
    return replace(
        found,
        byte=place.col_offset,
        end_line=place.end_lineno - 1,
        end_byte=place.end_col_offset,
    )
