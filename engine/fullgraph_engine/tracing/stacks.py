"""Stacks of the user's code with columns, from Dynamo's tracer, from live frames and from
tracebacks."""

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
from ..torch_internals.frames import is_tracer_callback, original_name
from .recording import Stack

_ENGINE = str(Path(__file__).resolve().parent.parent)


def package_folders(file: str) -> tuple[str, ...]:
    """Return a module's folder as Python imported it, and the folder with symbolic links resolved.

    Code objects contain the unresolved folder, for example in environments that link to package
    files.
    """
    path = Path(file)
    return tuple(dict.fromkeys((str(path.parent), str(path.resolve().parent))))


_TORCH = package_folders(torch.__file__)
_STDLIB = package_folders(dataclasses.__file__)


def make_frame(code: types.CodeType, line: int | None, positions: Any) -> Frame:
    """Convert a code object with its current line to a :class:`Frame` (zero-based lines).

    ``positions`` is a bytecode position (``lineno``, ``col_offset``, …) or None. Its columns are
    used only if it belongs to ``line``, because Dynamo gives some generated instructions the
    position of another line.
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


RawStack = tuple[tuple[types.CodeType, Any, Any], ...]
"""An unconverted stack, innermost frame first: code object, line and bytecode position per
frame.

Most stacks are recorded but never converted to :class:`Frame` objects.
"""


def raw_stack_of_translator(translator: Any) -> RawStack:
    """Return the functions that a symbolic interpreter is inlining now, as an unconverted stack."""
    raw: list[tuple[types.CodeType, Any, Any]] = []
    while translator is not None:
        positions = getattr(translator.current_instruction, "positions", None)
        raw.append((translator.f_code, getattr(translator, "lineno", None), positions))
        translator = getattr(translator, "parent", None)
    return tuple(raw)


def convert_raw_stack(raw: RawStack) -> Stack:
    """Convert a raw stack to frames, outermost first."""
    return tuple(make_frame(*entry) for entry in reversed(raw))


def stack_of_translator(translator: Any) -> Stack:
    """Return the functions that a symbolic interpreter is inlining now as frames, outermost
    first."""
    return convert_raw_stack(raw_stack_of_translator(translator))


def stack_of_summary(summary: Iterable[Any] | None) -> Stack:
    """Convert a ``traceback.StackSummary``; torch's own summaries lack the line where a range
    ends."""
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


def caller_stack(bottom: types.CodeType | None) -> Stack:
    """Return the live frames of the user's code, up to the caller of this function.

    Frames outside of the function ``bottom``, of Dynamo and of the engine are left out.
    """
    return stack_of_frame(sys._getframe(1), bottom)


def stack_of_frame(frame: types.FrameType | None, bottom: types.CodeType | None) -> Stack:
    """Return the live frames of the user's code that lead to ``frame``, outermost first.

    Frames outside of the function ``bottom``, of Dynamo and of the engine are left out.
    """
    frames: list[Frame] = []
    while frame is not None and frame.f_code is not bottom:
        code = frame.f_code
        if is_tracer_callback(code):
            frames.clear()  # the tracer called these frames, not the user's program
        elif not is_machinery(code.co_filename):
            frames.append(_make_live_frame(code, frame.f_lineno, frame.f_lasti))
        frame = frame.f_back
    return merge_resumed(tuple(reversed(frames)))


def stack_of_traceback(trace: types.TracebackType | None) -> Stack:
    """Return the frames of an exception's traceback, without frames of Dynamo and the engine."""
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_tracer_callback(code):
            break
        if not is_machinery(code.co_filename):
            frames.append(_make_live_frame(code, trace.tb_lineno, trace.tb_lasti))
        trace = trace.tb_next
    return merge_resumed(tuple(frames))


def passes_through_tracer(trace: types.TracebackType | None) -> bool:
    """Whether an exception was raised while Dynamo compiled a frame, and not when the frame ran."""
    while trace is not None:
        if is_tracer_callback(trace.tb_frame.f_code):
            return True
        trace = trace.tb_next
    return False


_MACHINERY_PATHS = (
    "/torch/_dynamo/",
    "/torch/_subclasses/",
    "/torch/_compile.py",
    "/torch/_utils_internal.py",
    "/torch/nn/modules/module.py",
    "/torch/utils/_stats.py",
)


def is_machinery(path: str) -> bool:
    """Whether a file belongs to the tracer or the engine, so that users must not see its frames."""
    return (
        path.startswith((_ENGINE, "<frozen"))
        or path == "<string>"
        or any(part in path for part in _MACHINERY_PATHS)
    )


def is_in_engine(stack: Stack) -> bool:
    """Whether a stack contains code of the engine. Dynamo traces such code where the engine
    replaced something, such as a missing import.
    """
    return any(frame.path.startswith(_ENGINE) for frame in stack)


def is_torch(path: str) -> bool:
    """Whether a file belongs to torch or to the standard library."""
    if path.startswith(("<", *_TORCH)):
        return True
    return path.startswith(_STDLIB) and "site-packages" not in path


def is_library(path: str) -> bool:
    """Whether a file belongs to torch, the standard library or an installed package."""
    return is_torch(path) or "site-packages" in path or "dist-packages" in path


def find_module_hook(bottom: types.CodeType | None, traced: Stack) -> str:
    """Return the name of a library function that a module called as a hook, if one is on the stack.

    The searched stack consists of the live frames inside ``bottom`` and then the frames ``traced``.
    The result is empty if the stack contains no hook.
    """
    live: list[Frame] = []
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not bottom:
        if is_tracer_callback(frame.f_code):
            live.clear()
        else:
            live.append(Frame(frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno - 1))
        frame = frame.f_back
    frames = (*reversed(live), *traced)
    for caller, called in itertools.pairwise(frames):
        if caller.path.endswith(_MODULE_PATH) and is_library(called.path):
            text = linecache.getline(caller.path, caller.line + 1)
            if _HOOK_CALL.search(text) is not None:
                return original_name(called.function)
    return ""


_MODULE_PATH = "/torch/nn/modules/module.py"
_HOOK_CALL = re.compile(r"\bhook\(")
"""Pattern of the statements with which ``torch.nn.Module`` calls its hooks."""


def innermost_user_frame(stack: Stack) -> Frame | None:
    """Return the innermost frame outside torch and the standard library, or None."""
    return next((frame for frame in reversed(stack) if not is_torch(frame.path)), None)


def merge_resumed(stack: Stack) -> Stack:
    """Merge each function with its resume functions into one frame with the function's name.

    Dynamo makes the function call its resume function. The user sees a single call, whose current
    position is in the resume function.
    """
    frames: list[Frame] = []
    for frame in stack:
        name = original_name(frame.function)
        resumed = name != frame.function
        renamed = dataclasses.replace(frame, function=name) if resumed else frame
        if resumed and frames and (frames[-1].path, frames[-1].function) == (frame.path, name):
            frames[-1] = renamed
        else:
            frames.append(renamed)
    return tuple(frames)


def join_stacks(callers: Stack, traced: Stack) -> Stack:
    """Append the stack of traced code to the stack of live frames that called it.

    Frames in Dynamo's polyfills and in ``Module.__call__`` are removed, so that the user's caller
    seems to call the function directly.
    """
    return merge_resumed(
        callers + tuple(frame for frame in traced if not _is_internal_frame(frame))
    )


def _is_internal_frame(frame: Frame) -> bool:
    if frame.path.endswith("/torch/nn/modules/module.py"):
        return frame.function in ("_wrapped_call_impl", "_call_impl", "inner")
    return is_machinery(frame.path)


def _make_live_frame(code: types.CodeType, line: int | None, lasti: int) -> Frame:
    place = position_at(code, lasti)
    return make_frame(code, line if place is None else place.lineno, place)
