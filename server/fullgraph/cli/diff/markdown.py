"""Format a difference as a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fullgraph.cli.diff.difference import SIDES, Difference, FileDifference, FindingDifference
from fullgraph.cli.diff.words import (
    change_words,
    extent_words,
    first_line,
    headline,
    remarks,
    run_words,
    side_words,
    target_name,
    unknown_words,
)
from fullgraph.domain.phrases import amount

# Identifies the comment, so that a bot can replace it.
MARK = "<!-- fullgraph diff -->"

# GitHub rejects comments with more than 65,536 characters.
_MOST = 60_000


def difference_markdown(difference: Difference) -> str:
    """Format a difference as Markdown that begins with ``MARK``.

    Files beyond about 60,000 characters are only counted, because GitHub limits the length of a
    comment.
    """
    blocks = ["\n".join(_head(difference))]
    room = _MOST - len(blocks[0])
    for number, file in enumerate(difference.files):
        block = "\n".join(_file(file))
        room -= len(block) + 2
        if room < 0:
            left = amount(len(difference.files) - number, "more file")
            blocks.append(f"Differences in {left} are left out: a comment has no room for them.")
            break
        blocks.append(block)
    return "\n\n".join(blocks)


def _head(difference: Difference) -> Iterator[str]:
    yield MARK
    parts = [f"**{words}**" if severity else words for words, severity in headline(difference)]
    yield f"### `torch.compile`: {', '.join(parts)}{extent_words(difference)}"
    yield ""
    for side in SIDES:
        compared = difference.of(side)
        yield f"- {side}: {code(side_words(compared))}"
        for problem in compared.problems:
            yield f"  - **could not be checked**: {code(problem)}"
    for remark in remarks(difference):
        yield f"- {remark}"


def _file(file: FileDifference) -> Iterator[str]:
    yield f"#### {code(file.path)}" + (f" (not in {file.missing})" if file.missing else "")
    yield ""
    for problem in file.problems:
        yield f"- **could not be checked in {problem.side}**: {code(problem.reason)}"
    for target in file.targets:
        for run in target.runs:
            yield f"- {code(target_name(target, run))}: {code(run_words(run, target))}"
        if target.name and not target.runs:
            yield f"- {code(target.name)}"
        indent = "  " if target.name else ""
        for one in target.findings:
            if one.kind != "unknown":
                yield f"{indent}- {_finding(one)}"
        for words in unknown_words(target):
            yield f"{indent}- unknown: {code(words)}"


def _finding(one: FindingDifference) -> str:
    finding = one.shown
    kind = f"**{one.kind}**" if one.kind == "new" else one.kind
    name = f"[{finding.code}]({finding.href})" if finding.href else finding.code
    more = change_words(one)
    words = f"{kind} {finding.severity.value} {name}, line {finding.line + 1}: "
    return words + code(first_line(finding.message)) + (f" ({code(more)})" if more else "")


def code(text: str) -> str:
    """Format a text as inline code, with enough backticks that no part of it becomes markup."""
    text = " ".join(text.split())
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"
