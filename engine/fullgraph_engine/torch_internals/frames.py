"""Frames: Dynamo's compilation of one, its skipping of one, and its symbolic interpreter.

| torch | where a skipped frame is reported |
|---|---|
| since 2.13 | ``convert_frame.add_skip_reason(reason, frame)`` |
| up to 2.12 | nowhere: ``ConvertFrame.__call__`` returns no code, and gives no reason |
"""

from __future__ import annotations

from types import CodeType, FrameType
from typing import Any

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
CURRENT = internal("breaks", "the line that Dynamo is at", _SC, "tls")

INTERNALS = (
    COMPILE,
    SKIP,
    SKIP_FRAME,
    BYTECODE_HOOK,
    TRANSLATOR,
    OPCODES,
    ROOT_TRANSLATOR,
    CURRENT,
)

_RESUME = "torch_dynamo_resume_in_"


def translator() -> Any:
    """The innermost symbolic interpreter at work, or None."""
    root = getattr(CURRENT.get(), "current_tx", None)
    return None if root is None else root.output.current_tx


def original_name(name: str) -> str:
    """The function that a resume function (``torch_dynamo_resume_in_f_at_12``) continues."""
    while name.startswith(_RESUME):
        name = name[len(_RESUME) :].rpartition("_at_")[0] or name[len(_RESUME) :]
    return name


def enters_tracer(code: CodeType) -> bool:
    """Whether a live frame is Dynamo's callback for a frame that is about to run."""
    return code.co_name == "__call__" and code.co_filename.endswith("_dynamo/convert_frame.py")


def translator_of(frame: FrameType | None) -> Any:
    """Dynamo's innermost symbolic interpreter on a stack, or None."""
    while frame is not None:
        if "/torch/_dynamo/" in frame.f_code.co_filename:
            found = frame.f_locals.get("self")
            if all(hasattr(found, name) for name in ("current_instruction", "f_code", "parent")):
                return found
        frame = frame.f_back
    return None


def has_code(result: Any) -> bool:
    """Whether what a ``ConvertFrame`` returned is a compiled frame."""
    return getattr(result, "guarded_code", None) is not None


def skip_code(code: CodeType) -> None:
    """Have Dynamo run a function without looking at it."""
    from torch._dynamo import eval_frame

    skip = getattr(eval_frame, "skip_code", None)
    if skip is not None:
        skip(code)
