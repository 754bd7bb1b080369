"""Example code in a file: its ``__main__`` block and examples in docstrings.

This module only reads it; ``programs`` executes it.
"""

from __future__ import annotations

import ast
import doctest
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..protocol import ExampleKind
from .source import FileDefinitions

_FENCE = re.compile(r"^([ \t]*)```(?:python|py)[ \t]*\n(.*?)^\1```", re.M | re.S)


@dataclass(frozen=True, eq=False)
class Example:
    """Code in a file that uses the file's definitions and is not executed on import: a ``__main__``
    block or a docstring's example.

    ``name`` is the phrase for this code in messages. ``owner`` is the class or function whose
    docstring contains it. ``reaches`` has the names of definitions that the code mentions directly
    or indirectly, ``direct`` the names that it reaches without calling another target.
    """

    kind: ExampleKind
    name: str
    owner: str
    body: tuple[ast.stmt, ...] = field(repr=False)
    reaches: frozenset[str] = field(default=frozenset(), repr=False)
    direct: frozenset[str] = field(default=frozenset(), repr=False)


def find_examples(source: FileDefinitions, targets: Iterable[str]) -> list[Example]:
    """Return the example programs of a file that use its definitions: its ``__main__`` block and
    code in docstrings.

    ``targets`` are the names of the definitions that can be traced.
    """
    known = frozenset(targets)
    found = []
    if source.main:
        found.append(Example("main", "__main__", "", tuple(source.main)))
    if ">>>" in source.text or "```" in source.text:
        found += _docstring_examples(source)
    return [
        one for one in (_with_reached_names(source, one, known) for one in found) if one.reaches
    ]


def _with_reached_names(
    source: FileDefinitions, example: Example, targets: frozenset[str]
) -> Example:
    nodes = [node for statement in example.body for node in ast.walk(statement)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    # ``package.ops.Pool`` may be the Pool of this file.
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names &= source.mentions.keys()
    return Example(
        example.kind,
        example.name,
        example.owner,
        example.body,
        reaches=frozenset(source.reached_names(names)),
        direct=frozenset(source.reached_names(names, past=targets)),
    )


# -- docstrings -------------------------------------------------------------------------------


def _docstring_examples(source: FileDefinitions) -> Iterator[Example]:
    yield from _in_docstring(source.tree, "the example in the file's docstring", "")
    for node in source.definitions:
        yield from _in_docstring(node, f"the example in {node.name}'s docstring", node.name)
        for method in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(method, ast.FunctionDef):
                name = f"the example in {node.name}.{method.name}'s docstring"
                yield from _in_docstring(method, name, node.name)


def _in_docstring(
    node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str, owner: str
) -> Iterator[Example]:
    text = ast.get_docstring(node, clean=False)
    if not text:
        return
    first = node.body[0].lineno
    session = _session_input(text)
    blocks = [(0, session)] if session else list(_fenced_blocks(text))
    for line, block in blocks:
        body = _parse_example(block)
        for statement in body:
            ast.increment_lineno(statement, first + line - 1)
        if body:
            yield Example("docstring", name, owner, tuple(body))


def _session_input(text: str) -> str:
    """Return the ``>>>`` input of a docstring at its original lines, without examples that raise or
    are skipped.
    """
    if ">>>" not in text:
        return ""
    try:
        examples = doctest.DocTestParser().get_examples(text)
    except ValueError:  # the docstring is not written in doctest's format
        return ""
    lines: list[str] = []
    for one in examples:
        if one.exc_msg is None and not one.options.get(doctest.SKIP):
            lines += [""] * (one.lineno - len(lines)) + one.source.splitlines()
    return "\n".join(lines)


def _fenced_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the fenced code blocks of a Markdown docstring, each after its zero-based line."""
    for match in _FENCE.finditer(text):
        yield text.count("\n", 0, match.start(2)), textwrap.dedent(match[2])


def _parse_example(code: str) -> list[ast.stmt]:
    """Parse an example up to its first invalid line, because some examples show output there.

    The whole example is parsed at once, since many repeat ``>>>`` on continuation lines.
    """
    lines = code.splitlines()
    while lines:
        try:
            return ast.parse("\n".join(lines)).body
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1
            del lines[max(min(line, len(lines)) - 1, 0) :]
    return []
