"""Format the differences of two checks as a comment on a GitHub pull request."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.cli.diff.difference import SIDES, CheckDifference, FileDifference, FindingDifference
from fullgraph.cli.diff.words import (
    change_words,
    count_remarks,
    extent_words,
    first_line,
    headline,
    run_words,
    side_words,
    target_name,
    unknown_words,
)
from fullgraph.domain.phrases import amount
from fullgraph.render.markdown import inline_code, join_blocks

# Invisible first line of the comment, by which a bot finds its own earlier comment to replace it.
MARK = "<!-- fullgraph diff -->"


def difference_markdown(difference: CheckDifference) -> str:
    """Format the differences of two checks as Markdown that begins with ``MARK``.

    If the text exceeds about 60,000 characters, the remaining files are only counted, because
    GitHub limits the length of a comment.
    """

    def describe_omitted(first: int) -> str:
        left = amount(len(difference.files) - first, "more file")
        return f"Differences in {left} are omitted, because GitHub limits the length of a comment."

    return join_blocks(
        _head_lines(difference), map(_file_lines, difference.files), describe_omitted
    )


def _head_lines(difference: CheckDifference) -> Iterator[str]:
    yield MARK
    parts = [f"**{words}**" if severity else words for words, severity in headline(difference)]
    yield f"### `torch.compile`: {', '.join(parts)}{extent_words(difference)}"
    yield ""
    for side in SIDES:
        compared = difference.side_check(side)
        yield f"- {side}: {inline_code(side_words(compared))}"
        for problem in compared.problems:
            yield f"  - **could not be checked**: {inline_code(problem)}"
    for remark in count_remarks(difference):
        yield f"- {remark}"


def _file_lines(file: FileDifference) -> Iterator[str]:
    yield f"#### {inline_code(file.path)}" + (f" (not in {file.missing})" if file.missing else "")
    yield ""
    for problem in file.problems:
        yield f"- **could not be checked in {problem.side}**: {inline_code(problem.reason)}"
    for target in file.targets:
        for run in target.runs:
            name = inline_code(target_name(target, run))
            yield f"- {name}: {inline_code(run_words(run, target))}"
        if target.name and not target.runs:
            yield f"- {inline_code(target.name)}"
        indent = "  " if target.name else ""
        for finding in target.findings:
            if finding.kind != "unknown":
                yield f"{indent}- {_finding_text(finding)}"
        for words in unknown_words(target):
            yield f"{indent}- unknown: {inline_code(words)}"


def _finding_text(change: FindingDifference) -> str:
    finding = change.shown
    kind = f"**{change.kind}**" if change.kind == "new" else change.kind
    name = f"[{finding.code}]({finding.href})" if finding.href else finding.code
    more = change_words(change)
    words = f"{kind} {finding.severity.value} {name}, line {finding.line + 1}: "
    return (
        words
        + inline_code(first_line(finding.message))
        + (f" ({inline_code(more)})" if more else "")
    )
