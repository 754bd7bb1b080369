"""Format guards for people: all guards of a function by compiled frame, or the guards on one
expression."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fullgraph.domain.guards import guard_sentences
from fullgraph.domain.phrases import amount
from fullgraph_engine.protocol import Range
from fullgraph_engine.protocol.guards import FoundGuard, GuardedFrame
from fullgraph_engine.protocol.sources import in_user_words, source_root

_MOST_SHOWN = 12


# -- all guards -------------------------------------------------------------------------------


def guards_text(
    frames: Iterable[GuardedFrame], note: str = "", line_of: Callable[[int], str] | None = None
) -> str:
    """Format guards by compiled frame, then by the source line that caused them; guards of library
    code come last.

    ``note`` is added as the last line. ``line_of`` returns the text of a zero-based line.
    """
    lines: list[str] = []
    for frame in frames:
        lines += _frame_lines(frame, line_of or (lambda _: ""))
        lines.append("")
    if note:
        lines.append(note)
    return "\n".join(lines).rstrip("\n") + "\n" if lines else "There are no guards.\n"


def frame_title(frame: GuardedFrame) -> str:
    """Format the heading of a compiled frame: ``forward, lines 12-20 [0/0]: 41 guards, entered 2
    times``."""
    place = f"lines {frame.first_line + 1}-{frame.last_line + 1}"
    if frame.path:
        place = f"{frame.path}:{frame.first_line + 1}"
    entered = ""
    if frame.entered >= 0:
        entered = f", entered {amount(frame.entered, 'time')}"
    return f"{frame.function}, {place} [{frame.compile_id}]: {_guard_count(frame.guards)}{entered}"


def _frame_lines(frame: GuardedFrame, line_of: Callable[[int], str]) -> Iterator[str]:
    yield frame_title(frame)
    by_cause: dict[Range, list[FoundGuard]] = {}
    internal: list[FoundGuard] = []
    ambient: list[FoundGuard] = []
    for guard in frame.guards:
        cause = frame.causes[guard.cause] if guard.cause >= 0 else None
        if cause is not None:
            by_cause.setdefault(cause, []).append(guard)
        else:
            (internal if guard.deep else ambient).append(guard)
    by_line: dict[int, list[FoundGuard]] = {}
    for cause in sorted(by_cause, key=lambda cause: (cause.start.line, cause.start.byte)):
        by_line.setdefault(cause.start.line, []).extend(by_cause[cause])
    for line, guards in by_line.items():
        text = line_of(line).strip()
        yield f"  line {line + 1}: {text}" if text else f"  line {line + 1}"
        yield from _guard_lines((guard for guard in guards if not guard.deep), "    ")
        deep = [guard for guard in guards if guard.deep]
        if deep:
            yield f"    in library code that is called here: {_guard_count(deep)}"
            yield from _guard_lines(deep, "      ")
    for title, guards in (
        ("only in library code", internal),
        ("from no line", ambient),
    ):
        if guards:
            yield f"  {title}: {_guard_count(guards)}"
            yield from _guard_lines(guards, "    ")


def _guard_lines(guards: Iterable[FoundGuard], indent: str) -> Iterator[str]:
    for guard in guards:
        for sentence in guard_sentences(guard):
            yield f"{indent}{guard.kind}: {sentence}"


def _guard_count(guards: Iterable[FoundGuard]) -> str:
    return amount(sum(1 for _ in guards), "guard")


# -- guards on one expression -----------------------------------------------------------------


@dataclass(frozen=True)
class GuardQuery:
    """The expression whose guards are wanted: its code without spaces, and its zero-based line."""

    words: str
    line: int

    @property
    def path(self) -> str:
        """Code of the expression after its first name: ``.training`` of ``self.training``."""
        return re.sub(r"^\w+", "", self.words)


@dataclass(frozen=True)
class GuardAnswer:
    """The guards on an expression, each with its compiled frame, and the number of guards on its
    attributes and items (``nested``)."""

    guards: tuple[tuple[GuardedFrame, FoundGuard], ...]
    nested: int


def find_guards(query: GuardQuery, frames: Iterable[GuardedFrame]) -> GuardAnswer:
    """Find the guards on an expression among the compiled frames of a function.

    A local variable matches within the lines of its frame, a global variable anywhere. In a
    function that Dynamo inlined, variables have other names; their guards match if the same line
    caused them and they end with the same attributes.
    """
    found: list[tuple[GuardedFrame, FoundGuard]] = []
    nested = 0
    for frame in frames:
        inside = not frame.path and frame.first_line <= query.line <= frame.last_line
        for guard in frame.guards:
            scope, _ = source_root(guard.source)
            if not scope:
                continue
            words = in_user_words(guard.source)
            in_scope = inside or scope == "global"
            if in_scope and words == query.words:
                found.append((frame, guard))
            elif in_scope and words.startswith((f"{query.words}.", f"{query.words}[")):
                nested += 1
            elif (
                query.path
                and words.endswith(query.path)
                and _is_caused_by_line(frame, guard, query.line)
            ):
                found.append((frame, guard))
    return GuardAnswer(tuple(found), nested)


def _is_caused_by_line(frame: GuardedFrame, guard: FoundGuard, line: int) -> bool:
    cause = frame.causes[guard.cause] if guard.cause >= 0 else None
    return cause is not None and cause.start.line <= line <= cause.end.line


def answer_markdown(query: GuardQuery, answer: GuardAnswer) -> str:
    """Format the guards on an expression (``query``) as Markdown; empty if the expression has
    none.
    """
    counted = Counter(
        (sentence, guard.kind) for _, guard in answer.guards for sentence in guard_sentences(guard)
    )
    if not counted and not answer.nested:
        return ""
    title = f"**{_guard_count(guard for _, guard in answer.guards)}** on `{query.words}`"
    lines = [
        f"- `{sentence}` · {kind}" + (f", {count} times" if count > 1 else "")
        for (sentence, kind), count in list(counted.items())[:_MOST_SHOWN]
    ]
    if len(counted) > _MOST_SHOWN:
        lines.append(f"- … and {len(counted) - _MOST_SHOWN} more")
    if answer.nested:
        lines.append(f"- {amount(answer.nested, 'guard')} on its attributes and items")
    entered = {
        f"`{frame.function}` [{frame.compile_id}] was entered {amount(frame.entered, 'time')}"
        for frame, _ in answer.guards
        if frame.entered >= 0
    }
    foot = [f"\nChecked on every call: {', '.join(sorted(entered)[:3])}."] if entered else []
    return "\n".join([title, "", *lines, *foot])


def answer_text(query: GuardQuery, answer: GuardAnswer) -> str:
    """Format the guards on an expression (``query``) as plain text."""
    return answer_markdown(query, answer).replace("**", "").replace("`", "")
