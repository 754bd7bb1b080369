"""Frames: Dynamo's compilation of one, its skipping of one, and its symbolic interpreter.

| torch | where a skipped frame is reported |
|---|---|
| since 2.13 | ``convert_frame.add_skip_reason(reason, frame)`` |
| up to 2.12 | nowhere: ``ConvertFrame.__call__`` returns no code, and gives no reason |
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from ..code_objects import HAS_COLUMNS
from .binding import Internal, Spelling, internal

_CF = "torch._dynamo.convert_frame"
_SC = "torch._dynamo.symbolic_convert"

COMPILE = internal("graphs", "frames, their outcome and Dynamo's errors", _CF, "_compile")
SKIP = Internal(
    "skips",
    "skipped frames with reasons",
    (
        Spelling(_CF, "add_skip_reason", "since 2.13", "skips got reasons"),
        Spelling(_CF, "ConvertFrame.__call__", "up to 2.12"),
    ),
)
SKIP_FRAME = internal(
    "skips", "why a frame is skipped while it is traced", "torch._dynamo.exc", "SkipFrame.__init__"
)
BYTECODE_HOOK = internal(
    "documents", "bytecode before and after Dynamo", _CF, "register_bytecode_hook"
)

TRANSLATOR = internal(
    "values", "symbolic interpreters of functions", _SC, "InstructionTranslatorBase.__init__"
)
OPCODES = internal("values", "their instructions", _SC, "InstructionTranslatorBase.dispatch_table")
ROOT_TRANSLATOR = internal(
    "shapes", "symbolic interpreters of frames", _SC, "InstructionTranslator.__init__"
)
SUMMARY = internal(
    "explanations",
    "the columns of what stacks of Dynamo's lead to",
    _SC,
    "InstructionTranslatorBase.frame_summary",
)
INNERMOST_SUMMARY = internal(
    "explanations",
    "the columns of what stacks of Dynamo's lead to",
    "torch._guards",
    "TracingContext._populate_loc_in_frame_summary",
)
LINE_TABLE = internal(
    "breaks",
    "the lines of code behind a break",
    "torch._dynamo.bytecode_transformation",
    "linetable_311_writer",
)
CURRENT = internal("breaks", "the line that Dynamo is at", _SC, "tls")

INTERNALS = (
    COMPILE,
    SKIP,
    SKIP_FRAME,
    BYTECODE_HOOK,
    TRANSLATOR,
    OPCODES,
    ROOT_TRANSLATOR,
    SUMMARY,
    INNERMOST_SUMMARY,
    LINE_TABLE,
    CURRENT,
)

_NO_OPS = ("No ops traced", "no content in function call")
"""Since torch 2.11, and before: somewhere in the reason, whose beginning differs too."""
_BREAK_IN_LOOP = "Skipping frame because there is a graph break in a for/while loop"

_PARTS = (
    r"torch_dynamo_resume_in_(?P<resumed>[\w<>]+)_at_\d+",
    # Where a comprehension that is executed in its function breaks the graph: since torch 2.11, in
    # Python 3.12 and later.
    r"__comprehension_(?P<comprehension>[\w<>]+)_at_\d+_\d+",
)
_PART = re.compile("|".join(_PARTS))
_PART_IN_WORDS = re.compile(rf"\b(?:{_PART.pattern})\b")


def counting_lines_once(original: Callable[[int], Any]) -> Callable[[int], Any]:
    """Around the writer of line tables: an instruction of more than eight units has several
    entries, and Dynamo goes on by its distance to the line before in each of them. Behind a method
    that is called on a line of its own, all lines of a resume function were wrong.

    Seen in torch 2.13, ``torch/_dynamo/bytecode_transformation.py``.
    """

    def writer(first_line: int) -> Any:
        table, update = original(first_line)

        def update_once(positions: Any, size: int) -> None:
            while size > _MOST_UNITS:
                update(positions, _MOST_UNITS)
                size -= _MOST_UNITS
            update(positions, size)

        return table, update_once

    return writer


_MOST_UNITS = 8
"""Code units that one entry of a line table may be of: Objects/locations.md of CPython."""


def translator() -> Any:
    """The innermost symbolic interpreter at work, or None."""
    root = getattr(CURRENT.get(), "current_tx", None)
    return None if root is None else root.output.current_tx


def original_name(name: str) -> str:
    """The function that one of Dynamo's is a part of (``torch_dynamo_resume_in_f_at_12``)."""
    while (part := _PART.fullmatch(name)) is not None:
        name = part["resumed"] or part["comprehension"]
    return name


def with_original_names(words: str) -> str:
    """A text that names functions of the user in place of parts of them."""
    return _PART_IN_WORDS.sub(lambda found: original_name(found[0]), words)


def enters_tracer(code: CodeType) -> bool:
    """Whether a live frame is Dynamo's callback for a frame that is about to run."""
    return code.co_name == "__call__" and code.co_filename.endswith("_dynamo/convert_frame.py")


def add_columns(summary: Any, translator: Any) -> None:
    """To the summary of a translator's frame, which has none up to torch 2.12, and no line on which
    they end since."""
    place = getattr(getattr(translator, "current_instruction", None), "positions", None)
    if (
        HAS_COLUMNS
        and place is not None
        and place.lineno == summary.lineno
        and summary.colno in (None, place.col_offset)
    ):
        summary.colno, summary.end_colno = place.col_offset, place.end_col_offset
        summary.end_lineno = place.end_lineno


def translator_of(frame: FrameType | None) -> Any:
    """Dynamo's innermost symbolic interpreter on a stack, or None."""
    while frame is not None:
        if "/torch/_dynamo/" in frame.f_code.co_filename:
            found = frame.f_locals.get("self")
            if all(hasattr(found, name) for name in ("current_instruction", "f_code", "parent")):
                return found
        frame = frame.f_back
    return None


def does_nothing(reason: str) -> bool:
    """Whether a frame was skipped since it has no operations."""
    return any(words in reason for words in _NO_OPS)


def is_after_break(reason: str) -> bool:
    """Whether a frame was skipped for a graph break that Dynamo has just reported.

    Up to torch 2.10 the report does not say so.
    """
    return reason.startswith(_BREAK_IN_LOOP)


def has_code(result: Any) -> bool:
    """Whether what a ``ConvertFrame`` returned is a compiled frame."""
    return getattr(result, "guarded_code", None) is not None


def skip_code(code: CodeType) -> None:
    """Have Dynamo run a function without looking at it."""
    from torch._dynamo import eval_frame

    skip = getattr(eval_frame, "skip_code", None)
    if skip is not None:
        skip(code)
