"""Why a graph broke, in the words that Dynamo has for it."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable

from .. import texts
from ..torch_internals.exceptions import ObservedFakeError, TorchRuntimeError
from .recording import Cause

_words: dict[str, Cause] = {}
"""What breaks were about whose report is only a text, by that text."""


class ReportedBreak(Exception):
    """Stands for a break that Dynamo reports without having raised anything."""


def remember_words(
    text: str, kind: str, context: str, explanation: str, hints: Iterable[str]
) -> None:
    """Dynamo has laid out the words of a break for a terminal."""
    _words[text] = Cause(kind, explanation, tuple(map(str, hints)), context)


def of_words(text: str) -> ReportedBreak:
    """The break that a report is about."""
    error = ReportedBreak(text)
    first = text.split("\n", 1)[0]
    error._fullgraph_cause = _words.get(text) or Cause(first, text)  # type: ignore[attr-defined]
    return error


def raised_by_unimplemented() -> tuple[Cause | None, BaseException | None]:
    """The words given to ``unimplemented`` and the exception it was called for.

    Its message is these words laid out for a terminal; its locals are the words themselves.
    """
    frame: types.FrameType | None = sys._getframe(1)
    for _ in range(8):
        if frame is None:
            break
        if frame.f_code.co_name.startswith("unimplemented") and "gb_type" in frame.f_locals:
            words = frame.f_locals
            cause = Cause(
                str(words["gb_type"]),
                str(words.get("explanation", "")),
                tuple(str(hint) for hint in words.get("hints") or ()),
                str(words.get("context", "")),
            )
            source = words.get("from_exc")
            return cause, source if isinstance(source, BaseException) else None
        frame = frame.f_back
    return None, None


def of_error(error: BaseException) -> tuple[Cause, ...]:
    """The break that started it first, then what happened while it was being handled."""
    chain: list[Cause] = []
    link: BaseException | None = error
    while link is not None and len(chain) < 16:
        cause = getattr(link, "_fullgraph_cause", None) or _cause_behind(link)
        if cause is None:
            kind = getattr(link, "gb_type", None) or type(link).__name__
            text = str(getattr(link, "msg", link))
            cause = Cause(kind=str(kind), explanation=text)
        chain.append(cause)
        source = getattr(link, "_fullgraph_source", None)
        # A break made from an ordinary exception (a failing fake kernel) is explained by its
        # own words; only breaks made from breaks are a chain.
        link = source if hasattr(source, "_fullgraph_cause") else None
    return tuple(map(_plain, reversed(chain)))


def behind_fake_error(error: BaseException) -> BaseException | None:
    """What an operator raised on fake tensors, behind an error that Dynamo made of it.

    Since torch 2.14 such an error first passes through the handlers of the traced code.
    """
    if ObservedFakeError is None or not isinstance(error, TorchRuntimeError):
        return None
    link, passed = error.__context__, False
    for _ in range(16):
        if link is None:
            break
        passed = passed or isinstance(link, ObservedFakeError)
        if passed and link.__cause__ is not None:
            return link.__cause__
        link = link.__context__
    return None


def of_message(error: BaseException) -> Cause:
    """The title that Dynamo has laid out above an error, and its explanation."""
    title, _, rest = str(getattr(error, "msg", error)).partition("\n")
    explanation = rest.partition("Explanation: ")[2].partition("\n  Hint: ")[0]
    return _plain(Cause(title.strip(), explanation.strip()))


def _plain(cause: Cause) -> Cause:
    return Cause(
        texts.plain(cause.kind),
        texts.plain(cause.explanation),
        tuple(map(texts.plain, cause.hints)),
        texts.plain(cause.context),
    )


def _cause_behind(error: BaseException) -> Cause | None:
    """The cause of a break that was raised again, with the same words, as another exception."""
    behind = error.__context__
    if behind is None or getattr(behind, "msg", None) != getattr(error, "msg", ""):
        return None
    cause = getattr(behind, "_fullgraph_cause", None)
    return cause if isinstance(cause, Cause) else None
