"""Guards as people read them: as a tree of text, and what there is to say of one expression."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fullgraph.domain.guards import sentences
from fullgraph.domain.phrases import amount
from fullgraph_engine.protocol import Range
from fullgraph_engine.protocol.guards import FoundGuard, GuardedFrame
from fullgraph_engine.protocol.sources import in_user_words, source_root

_MOST_SHOWN = 12


# -- the tree ---------------------------------------------------------------------------------


def guards_text(
    frames: Iterable[GuardedFrame], note: str = "", line_of: Callable[[int], str] | None = None
) -> str:
    """Guards by frame, then by the line that caused them; what libraries ask for comes last.

    ``line_of`` gives the text of a zero-based line.
    """
    lines: list[str] = []
    for frame in frames:
        lines += _frame_lines(frame, line_of or (lambda _: ""))
        lines.append("")
    if note:
        lines.append(note)
    return "\n".join(lines).rstrip("\n") + "\n" if lines else "There are no guards.\n"


def frame_title(frame: GuardedFrame) -> str:
    """``forward, lines 12-20 [0/0]: 41 guards, entered 2 times``."""
    place = f"lines {frame.first_line + 1}-{frame.last_line + 1}"
    if frame.path:
        place = f"{frame.path}:{frame.first_line + 1}"
    entered = ""
    if frame.entered >= 0:
        entered = f", entered {amount(frame.entered, 'time')}"
    return f"{frame.function}, {place} [{frame.compile_id}]: {_amount(frame.guards)}{entered}"


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
            yield f"    in library code that is called here: {_amount(deep)}"
            yield from _guard_lines(deep, "      ")
    for title, guards in (
        ("in library code alone", internal),
        ("from no line", ambient),
    ):
        if guards:
            yield f"  {title}: {_amount(guards)}"
            yield from _guard_lines(guards, "    ")


def _guard_lines(guards: Iterable[FoundGuard], indent: str) -> Iterator[str]:
    for guard in guards:
        for sentence in sentences(guard):
            yield f"{indent}{guard.kind}: {sentence}"


def _amount(guards: Iterable[FoundGuard]) -> str:
    return amount(sum(1 for _ in guards), "guard")


# -- one expression ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """An expression of the text: its words without spaces, and the zero-based line it is in."""

    words: str
    line: int

    @property
    def path(self) -> str:
        """What follows the first name: ``.training`` of ``self.training``."""
        return re.sub(r"^\w+", "", self.words)


@dataclass(frozen=True)
class Answer:
    """The guards on an expression, and how many there are on what it holds."""

    guards: tuple[tuple[GuardedFrame, FoundGuard], ...]
    below: int


def about(asked: Asked, frames: Iterable[GuardedFrame]) -> Answer:
    """The guards on an expression.

    A local is meant in the lines of its frame, a global anywhere. In functions that were traced
    into their caller, names are other ones; there the guards of the line are looked through for
    what is reached by the same attributes.
    """
    found: list[tuple[GuardedFrame, FoundGuard]] = []
    below = 0
    for frame in frames:
        inside = not frame.path and frame.first_line <= asked.line <= frame.last_line
        for guard in frame.guards:
            scope, _ = source_root(guard.source)
            if not scope:
                continue
            words = in_user_words(guard.source)
            here = inside or scope == "global"
            if here and words == asked.words:
                found.append((frame, guard))
            elif here and words.startswith((f"{asked.words}.", f"{asked.words}[")):
                below += 1
            elif asked.path and words.endswith(asked.path) and _on_line(frame, guard, asked.line):
                found.append((frame, guard))
    return Answer(tuple(found), below)


def _on_line(frame: GuardedFrame, guard: FoundGuard, line: int) -> bool:
    cause = frame.causes[guard.cause] if guard.cause >= 0 else None
    return cause is not None and cause.start.line <= line <= cause.end.line


def answer_markdown(asked: Asked, answer: Answer) -> str:
    """Empty where there is nothing to say."""
    counted = Counter(
        (sentence, guard.kind) for _, guard in answer.guards for sentence in sentences(guard)
    )
    if not counted and not answer.below:
        return ""
    title = f"**{_amount(guard for _, guard in answer.guards)}** on `{asked.words}`"
    lines = [
        f"- `{sentence}` · {kind}" + (f", {count} times" if count > 1 else "")
        for (sentence, kind), count in list(counted.items())[:_MOST_SHOWN]
    ]
    if len(counted) > _MOST_SHOWN:
        lines.append(f"- … and {len(counted) - _MOST_SHOWN} more")
    if answer.below:
        lines.append(f"- {amount(answer.below, 'guard')} on what it holds")
    entered = {
        f"`{frame.function}` [{frame.compile_id}] was entered {amount(frame.entered, 'time')}"
        for frame, _ in answer.guards
        if frame.entered >= 0
    }
    foot = [f"\nChecked on every call: {', '.join(sorted(entered)[:3])}."] if entered else []
    return "\n".join([title, "", *lines, *foot])


def answer_text(asked: Asked, answer: Answer) -> str:
    """The same without Markdown."""
    return answer_markdown(asked, answer).replace("**", "").replace("`", "")
