"""Match the statements of a file before and after an edit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from fullgraph.incremental.moves import Moves, Rewritten, Shifted
from fullgraph.incremental.statements import ParsedText, Statement
from fullgraph_engine.protocol import count_equal_ends
from fullgraph_engine.protocol.comments import RUN


@dataclass(frozen=True)
class Alignment:
    """The differences between a file before and after an edit, as indices of its top-level
    statements.

    ``moves`` maps source ranges in unchanged statements to their new place.
    """

    moves: Moves
    changed_before: frozenset[int] = frozenset()
    """Indices of statements before the edit that were changed or removed."""
    changed_after: frozenset[int] = frozenset()
    """Indices of statements after the edit that were changed or added."""
    documented_before: frozenset[int] = frozenset()
    """Indices of unchanged statements (before the edit) whose docstrings differ."""

    @property
    def is_same(self) -> bool:
        """Whether the executed code is the same before and after the edit, apart from
        docstrings.
        """
        return not self.changed_before and not self.changed_after


def align_statements(before: ParsedText, after: ParsedText) -> Alignment:
    """Match the top-level statements of two versions of a file and return the differences.

    Raises:
        SyntaxError: A statement cannot be split into tokens.
    """
    old, new = before.statements, after.statements
    same = [
        (block.a + shift, block.b + shift)
        for block in SequenceMatcher(
            None, *_statement_keys(before, after), autojunk=False
        ).get_matching_blocks()
        for shift in range(block.size)
    ]
    same = [(one, other) for one, other in same if _execute_alike(old[one], new[other])]
    documented = frozenset(
        one
        for one, other in same
        if old[one].lines != new[other].lines and old[one].docstrings != new[other].docstrings
    )
    imported = before.imported
    moves = Moves([_statement_moves(old[one], new[other], imported) for one, other in same])
    left = _with_code(old) - {one for one, _ in same}
    come = _with_code(new) - {other for _, other in same}
    return Alignment(moves, left, come, documented)


def parse_text(text: str, longest: float = float("inf")) -> ParsedText | None:
    """Return the statements of a text; None if it has more than ``longest`` characters, or syntax
    that this Python does not have.
    """
    if len(text) > longest:
        return None
    try:
        return ParsedText(text)
    except SyntaxError:
        return None


def align_versions(before: ParsedText, after: ParsedText) -> Alignment | None:
    """Match the statements of two versions of a file, to find results that stay valid.

    None if all results are invalid: a statement cannot be split into tokens, or the comment with
    the program's command line has changed.
    """
    if RUN.findall(before.text) != RUN.findall(after.text):
        return None
    try:
        return align_statements(before, after)
    except SyntaxError:
        return None


def same_code(before: ParsedText, after: Sequence[str]) -> Moves | None:
    """Map lines and ranges from ``before`` to ``after`` if only comments and layout differ; None if
    the code differs.

    Both are versions of a file. Only statements near the difference are parsed.
    """
    old = before.lines
    head, tail = count_equal_ends(old, after)
    if head == len(old) == len(after):
        return Moves([(0, len(old), Shifted(0))])
    if not may_be_same_code(old, after):
        return None
    one, other = before.statement_at(head), before.statement_at(max(len(old) - tail - 1, head))
    first, last = before.statements[one].first, before.statements[other].last
    shift = len(after) - len(old)
    try:
        ours = [part for part in before.statements[one : other + 1] if _has_code(part)]
        text = "\n".join(after[first : last + shift + 1])
        theirs = [part for part in ParsedText(text, first).statements if _has_code(part)]
        if [part.key for part in ours] != [part.key for part in theirs]:
            return None
    except SyntaxError:
        return None
    pairs = list(zip(ours, theirs, strict=True))
    if not all(a.docstrings == b.docstrings and _execute_alike(a, b) for a, b in pairs):
        return None
    head_part = (0, first - 1, Shifted(0))
    tail_part = (last + 1, len(old), Shifted(shift))
    return Moves(
        [head_part, *(_statement_moves(*pair, before.imported) for pair in pairs), tail_part]
    )


def may_be_same_code(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether two versions of a file may have the same code, by a fast check without parsing.

    If the result is False, :func:`same_code` would return None. If it is True, call
    :func:`same_code` to be sure.
    """
    head, tail = count_equal_ends(before, after)
    changed = _text_without_layout(before[head : len(before) - tail])
    return changed == _text_without_layout(after[head : len(after) - tail])


_LAYOUT = re.compile(r"#.*|[\s(),'\"\\]+")


def _text_without_layout(lines: Sequence[str]) -> str:
    """Return the text in lower case without blanks and line breaks, for a fast comparison."""
    return _LAYOUT.sub("", "\n".join(lines)).lower()


def _statement_keys(before: ParsedText, after: ParsedText) -> tuple[list[object], list[object]]:
    """Return a key for each statement of both versions; equivalent statements have equal keys.

    For speed, only statements with changed lines are split into tokens.
    """
    whole = {part.lines for part in before.statements} & {part.lines for part in after.statements}

    def statement_key(part: Statement) -> object:
        return part.lines if part.lines in whole else part.key

    return [statement_key(part) for part in before.statements], [
        statement_key(part) for part in after.statements
    ]


def _execute_alike(one: Statement, other: Statement) -> bool:
    return one.lines == other.lines or one.executes_as(other)


def _statement_moves(
    one: Statement, other: Statement, imported: frozenset[str]
) -> tuple[int, int, Shifted | Rewritten]:
    same = one.lines == other.lines
    part = Shifted(other.first - one.first) if same else Rewritten(one, other, imported)
    return one.first, one.last, part


def _has_code(part: Statement) -> bool:
    """Whether a statement contains code; comments at the end of a file do not."""
    return bool(part.nodes or part.key)


def _with_code(parts: Sequence[Statement]) -> frozenset[int]:
    return frozenset(number for number, part in enumerate(parts) if _has_code(part))
