"""Format the results of a check as Markdown, for the summary of a CI job or a comment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from fullgraph.domain.findings import FileFinding
from fullgraph.domain.phrases import amount, listing
from fullgraph.domain.wording import message_lines
from fullgraph.render.checked import CheckedFile, CheckResults
from fullgraph.render.terminal import extent_words, severity_words

_MOST = 60_000
"""Approximate maximum length of a comment in characters; GitHub rejects more than 65,536."""


def check_markdown(checked: CheckResults) -> str:
    """Format the results of a check as Markdown: a heading with the counts, and a list of findings
    for each file.

    If the text exceeds about 60,000 characters, the findings of the remaining files are only
    counted, because GitHub limits the length of a comment.
    """
    shown = [file for file in checked.files if file.findings or file.problem]

    def describe_omitted(first: int) -> str:
        left = shown[first:]
        findings = amount(sum(len(each.findings) for each in left), "finding")
        return f"{findings} in {amount(len(left), 'more file')} are not shown."

    return join_blocks(_head_lines(checked), map(_file_lines, shown), describe_omitted)


def join_blocks(
    head: Iterable[str], blocks: Iterable[Iterable[str]], omitted: Callable[[int], str]
) -> str:
    """Join blocks of lines, with empty lines between them, to a text that fits into a comment.

    If ``head`` and the blocks exceed about 60,000 characters, the text ends with the sentence
    ``omitted(number)`` instead, where ``number`` is the index of the first omitted block.
    """
    parts = ["\n".join(head)]
    room = _MOST - len(parts[0])
    for number, lines in enumerate(blocks):
        block = "\n".join(lines)
        room -= len(block) + 2
        if room < 0:
            parts.append(omitted(number))
            break
        parts.append(block)
    return "\n\n".join(parts)


def _head_lines(checked: CheckResults) -> Iterator[str]:
    counts = severity_words(checked)
    words = f"**{listing(counts)}**" if counts else "no findings"
    if checked.known:
        words = words.replace("no findings", "no new findings")
    if checked.incomplete:
        words += " in the code that could be checked"
    yield f"### `torch.compile`: {words}"
    yield ""
    yield f"{', '.join(extent_words(checked))}."
    if checked.problems:
        yield ""
        for problem in checked.problems:
            yield f"- **could not be checked**: {inline_code(problem)}"


def _file_lines(file: CheckedFile) -> Iterator[str]:
    yield f"#### {inline_code(file.path)}"
    yield ""
    if file.problem:
        yield f"- **could not be checked**: {inline_code(file.problem)}"
    for item in file.findings:
        yield f"- {_finding_text(item)}"


def _finding_text(item: FileFinding) -> str:
    finding = item.finding
    name = f"[{finding.code}]({item.href})" if item.href else finding.code
    target = f" in {inline_code(finding.target)}" if finding.target else ""
    message = inline_code(message_lines(finding)[0])
    return f"{item.severity.value} {name}, line {finding.range.start.line + 1}{target}: {message}"


def inline_code(text: str) -> str:
    """Format a text as inline Markdown code, with more backticks around it than it contains."""
    text = " ".join(text.split())
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"
