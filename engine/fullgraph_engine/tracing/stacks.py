"""User stacks with columns: from the tracer's own frames, from live frames, from tracebacks."""

from __future__ import annotations

import dataclasses
import itertools
import linecache
import re
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from ..code_objects import position_at
from ..protocol import Frame
from ..torch_internals.frames import enters_tracer, original_name
from .recording import Stack

_OURS = str(Path(__file__).resolve().parent.parent)
_TORCH = str(Path(torch.__file__).resolve().parent)
_STDLIB = str(Path(dataclasses.__file__).resolve().parent)


def frame_of(code: types.CodeType, line: int | None, positions: Any) -> Frame:
    """``positions`` is a bytecode position (``lineno``, ``col_offset``, …) or None.

    Columns are used only if they belong to ``line``: Dynamo's generated instructions carry the
    positions of others now and then.
    """
    name = code.co_name
    line = line or code.co_firstlineno
    if positions is not None and positions.lineno == line and positions.col_offset is not None:
        end = positions.end_lineno or line
        return Frame(
            code.co_filename,
            name,
            line - 1,
            positions.col_offset,
            end - 1,
            positions.end_col_offset,
        )
    return Frame(code.co_filename, name, line - 1)


Raw = tuple[tuple[types.CodeType, Any, Any], ...]
"""Code objects and positions only, innermost first: most stacks are never asked for."""


def raw_of_translator(translator: Any) -> Raw:
    """The frames that Dynamo is inlining right now."""
    raw: list[tuple[types.CodeType, Any, Any]] = []
    while translator is not None:
        positions = getattr(translator.current_instruction, "positions", None)
        raw.append((translator.f_code, getattr(translator, "lineno", None), positions))
        translator = getattr(translator, "parent", None)
    return tuple(raw)


def of_raw(raw: Raw) -> Stack:
    """The same as frames, outermost first."""
    return tuple(frame_of(*entry) for entry in reversed(raw))


def of_translator(translator: Any) -> Stack:
    """The frames that Dynamo is inlining right now, outermost first."""
    return of_raw(raw_of_translator(translator))


def of_summary(summary: Iterable[Any] | None) -> Stack:
    """From a ``traceback.StackSummary``; one that torch made has no lines on which ranges end."""
    frames = []
    for entry in summary or ():
        start, end = getattr(entry, "colno", None), getattr(entry, "end_colno", None)
        line = (entry.lineno or 1) - 1
        last = (getattr(entry, "end_lineno", None) or line + 1) - 1
        if start is None or end is None or (last, end) <= (line, start):
            frames.append(Frame(entry.filename, entry.name, line))
        else:
            frames.append(Frame(entry.filename, entry.name, line, start, last, end))
    return tuple(frames)


def above(bottom: types.CodeType | None) -> Stack:
    """The live frames from ``bottom`` (exclusive) down to the caller, without Dynamo's and ours."""
    return of_frame(sys._getframe(1), bottom)


def of_frame(frame: types.FrameType | None, bottom: types.CodeType | None) -> Stack:
    """Like :func:`above`, from any live frame."""
    frames: list[Frame] = []
    while frame is not None and frame.f_code is not bottom:
        code = frame.f_code
        if enters_tracer(code):
            frames.clear()  # what the tracer itself called is not the user's program
        elif not is_machinery(code.co_filename):
            frames.append(_frame(code, frame.f_lineno, frame.f_lasti))
        frame = frame.f_back
    return collapse(tuple(reversed(frames)))


def of_traceback(trace: types.TracebackType | None) -> Stack:
    """The frames of an exception, without Dynamo's and ours."""
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if enters_tracer(code):
            break
        if not is_machinery(code.co_filename):
            frames.append(_frame(code, trace.tb_lineno, trace.tb_lasti))
        trace = trace.tb_next
    return collapse(tuple(frames))


def leads_into_tracer(trace: types.TracebackType | None) -> bool:
    """Whether an exception was raised while Dynamo looked at a frame, before the frame ran."""
    while trace is not None:
        if enters_tracer(trace.tb_frame.f_code):
            return True
        trace = trace.tb_next
    return False


_MACHINERY = (
    "/torch/_dynamo/",
    "/torch/_subclasses/",
    "/torch/_compile.py",
    "/torch/_utils_internal.py",
    "/torch/nn/modules/module.py",
    "/torch/utils/_stats.py",
)


def is_machinery(path: str) -> bool:
    """Whether a file is the tracer's or ours: frames there say nothing about the user's program."""
    return (
        path.startswith((_OURS, "<frozen"))
        or path == "<string>"
        or any(part in path for part in _MACHINERY)
    )


def in_engine(stack: Stack) -> bool:
    """Whether the tracer went into code of ours, such as the stand-in for a missing import."""
    return any(frame.path.startswith(_OURS) for frame in stack)


def is_torch(path: str) -> bool:
    """Whether a file belongs to torch or to the interpreter's own library."""
    if path.startswith(("<", _TORCH)):
        return True
    return path.startswith(_STDLIB) and "site-packages" not in path


def is_library(path: str) -> bool:
    """Whether a file was installed, be it with torch, with the interpreter or as a package."""
    return is_torch(path) or "site-packages" in path or "dist-packages" in path


def hook_on(bottom: types.CodeType | None, traced: Stack) -> str:
    """The function of a library that a module calls as a hook, on the way from ``bottom`` to the
    end of ``traced``; empty if none."""
    live: list[Frame] = []
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not bottom:
        if enters_tracer(frame.f_code):
            live.clear()
        else:
            live.append(Frame(frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno - 1))
        frame = frame.f_back
    frames = (*reversed(live), *traced)
    for caller, called in itertools.pairwise(frames):
        if caller.path.endswith(_MODULE) and is_library(called.path):
            text = linecache.getline(caller.path, caller.line + 1)
            if _HOOK_CALL.search(text) is not None:
                return original_name(called.function)
    return ""


_MODULE = "/torch/nn/modules/module.py"
_HOOK_CALL = re.compile(r"\bhook\(")
"""How ``torch.nn.Module`` calls each of its hooks."""


def innermost(stack: Stack) -> Frame | None:
    """The innermost frame of code outside torch and the interpreter's own library."""
    return next((frame for frame in reversed(stack) if not is_torch(frame.path)), None)


def collapse(stack: Stack) -> Stack:
    """One frame where a function is followed by its own resume functions, under its own name.

    The caller of a resume function is the function that it resumes: to the user they are one
    call, and the later one says where it is now.
    """
    frames: list[Frame] = []
    for frame in stack:
        name = original_name(frame.function)
        resumed = name != frame.function
        named = dataclasses.replace(frame, function=name) if resumed else frame
        if resumed and frames and (frames[-1].path, frames[-1].function) == (frame.path, name):
            frames[-1] = named
        else:
            frames.append(named)
    return tuple(frames)


def join(callers: Stack, traced: Stack) -> Stack:
    """A live stack continued by the stack that the tracer was in.

    The tracer also steps through its own polyfills and through ``Module.__call__``; to the user
    the caller of those calls what they call.
    """
    return collapse(callers + tuple(frame for frame in traced if not _is_passage(frame)))


def _is_passage(frame: Frame) -> bool:
    if frame.path.endswith("/torch/nn/modules/module.py"):
        return frame.function in ("_wrapped_call_impl", "_call_impl", "inner")
    return is_machinery(frame.path)


def _frame(code: types.CodeType, line: int | None, lasti: int) -> Frame:
    place = position_at(code, lasti)
    return frame_of(code, line if place is None else place.lineno, place)
