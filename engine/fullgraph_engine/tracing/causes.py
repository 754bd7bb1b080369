"""Determine why a graph broke, as Dynamo's message explains it."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable

from .. import texts
from ..torch_internals.exceptions import (
    GuardOnDataDependentSymNode,
    ObservedFakeError,
    TorchRuntimeError,
    UserError,
)
from .recording import Cause

_causes_by_text: dict[str, Cause] = {}
"""Causes of graph breaks by Dynamo's formatted message, for reports that contain only the
message."""


class ReportedBreak(Exception):
    """A graph break that Dynamo reported without raising an exception, in the form of an
    exception.
    """


def remember_cause(
    text: str, kind: str, context: str, explanation: str, hints: Iterable[str]
) -> None:
    """Store the fields of a graph break's message under its formatted text.

    Called when Dynamo formats the message, so that :func:`break_from_text` can find the fields
    later. ``kind`` is the title of the break; the other fields have Dynamo's names.
    """
    _causes_by_text[text] = Cause(kind, explanation, tuple(map(str, hints)), context)


def break_from_text(text: str) -> ReportedBreak:
    """Create a :class:`ReportedBreak` for the formatted text of a graph break, with its stored
    fields.
    """
    error = ReportedBreak(text)
    title = text.split("\n", 1)[0]
    error._fullgraph_cause = _causes_by_text.get(text) or Cause(title, text)  # type: ignore[attr-defined]
    return error


def read_unimplemented() -> tuple[Cause | None, BaseException | None]:
    """Return the fields of a graph break's message and the exception passed as ``from_exc``.

    Both are read from the frame of ``torch._dynamo.exc.unimplemented``, which raises the break and
    must be at most eight frames up the stack. Both are None if the frame is not found.
    """
    frame: types.FrameType | None = sys._getframe(1)
    for _ in range(8):
        if frame is None:
            break
        if frame.f_code.co_name.startswith("unimplemented") and "gb_type" in frame.f_locals:
            arguments = frame.f_locals
            cause = Cause(
                str(arguments["gb_type"]),
                str(arguments.get("explanation", "")),
                tuple(str(hint) for hint in arguments.get("hints") or ()),
                str(arguments.get("context", "")),
                _undecided_condition(sys.exc_info()[1]),
            )
            source = arguments.get("from_exc")
            return cause, source if isinstance(source, BaseException) else None
        frame = frame.f_back
    return None, None


def cause_chain(error: BaseException) -> tuple[Cause, ...]:
    """Return the causes of a graph break: the original break first, then errors raised while
    handling it."""
    chain: list[Cause] = []
    current: BaseException | None = error
    while current is not None and len(chain) < 16:
        cause = getattr(current, "_fullgraph_cause", None) or _cause_of_reraised(current)
        if cause is None:
            kind = getattr(current, "gb_type", None) or type(current).__name__
            text = str(getattr(current, "msg", current))
            condition = _undecided_condition(current)
            cause = Cause(str(kind), text, condition=condition)
        chain.append(cause)
        source = getattr(current, "_fullgraph_source", None)
        # An ordinary exception ends the chain, for example one of a failing fake kernel. Its text
        # is already in the explanation.
        current = source if hasattr(source, "_fullgraph_cause") else None
    return tuple(map(_plain, reversed(chain)))


def _undecided_condition(error: BaseException | None) -> str:
    """Return the condition that Dynamo could not decide (``Eq(u0, 0)``) if it is the reason for an
    error; else ""."""
    if isinstance(error, UserError):
        error = error.__cause__ or error.__context__
    return str(error.cond) if isinstance(error, GuardOnDataDependentSymNode) else ""


def find_operator_error(error: BaseException) -> BaseException | None:
    """Return the exception that an operator itself raised on fake tensors, given Dynamo's error
    about it.

    Since torch 2.14 such an exception first passes through the exception handlers of the traced
    code. Return None for other errors and older releases.
    """
    if ObservedFakeError is None or not isinstance(error, TorchRuntimeError):
        return None
    current, seen_fake_error = error.__context__, False
    for _ in range(16):
        if current is None:
            break
        seen_fake_error = seen_fake_error or isinstance(current, ObservedFakeError)
        if seen_fake_error and current.__cause__ is not None:
            return current.__cause__
        current = current.__context__
    return None


def parse_message(error: BaseException) -> Cause:
    """Parse the title and the explanation of a graph break from the formatted message of an
    error."""
    title, _, rest = str(getattr(error, "msg", error)).partition("\n")
    explanation = rest.partition("Explanation: ")[2].partition("\n  Hint: ")[0]
    return _plain(Cause(title.strip(), explanation.strip()))


def _plain(cause: Cause) -> Cause:
    return Cause(
        texts.plain(cause.kind),
        texts.plain(cause.explanation),
        tuple(map(texts.plain, cause.hints)),
        texts.plain(cause.context),
        cause.condition,
    )


def _cause_of_reraised(error: BaseException) -> Cause | None:
    """Return the cause of a graph break that Dynamo raised again with the same message; else
    None.
    """
    original = error.__context__
    if original is None or getattr(original, "msg", None) != getattr(error, "msg", ""):
        return None
    cause = getattr(original, "_fullgraph_cause", None)
    return cause if isinstance(cause, Cause) else None
