"""Parsing of ``# fullgraph:`` comments and of the statements that they belong to.

A comment belongs to a class, a function or an assignment if it is

- in the block of comments directly above it or its decorators,
- between there and its first statement: after ``def …:`` or ``class …:``, in the signature,
  above or below the docstring.

A comment on a method belongs to the class and names that method. ``# fullgraph: off`` on a line of
its own before the file's first statement, and not directly above it, turns off the analysis of the
whole file. ``# fullgraph: ignore[CODE]`` after code hides findings of its line.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from ..protocol import Position, Range
from ..protocol.comments import IGNORE, RUN

_MARK = re.compile(r"#\s*fullgraph:[ \t]*")
_IGNORE = re.compile(r"ignore\b(?!\()")


@dataclass(frozen=True)
class Comment:
    """A ``# fullgraph: …`` comment: its text after the colon, its range, and whether it is alone on
    its line."""

    text: str
    range: Range
    alone: bool

    @property
    def line(self) -> int:
        return self.range.start.line

    @property
    def off(self) -> bool:
        return self.text.partition("#")[0].strip() == "off"

    @property
    def ignore(self) -> bool:
        """Whether the comment is ``# fullgraph: ignore[…]`` in a form or position in which it does
        not hide findings."""
        return _IGNORE.match(self.text) is not None

    def span(self, start: int, end: int) -> Range:
        """Return the range in the file of characters ``start`` to ``end`` of the comment's text."""
        base = self.range.start
        return Range(
            Position(base.line, base.byte + len(self.text[:start].encode())),
            Position(base.line, base.byte + len(self.text[:end].encode())),
        )


@dataclass(frozen=True)
class Comments:
    """All ``# fullgraph:`` comments of a file, by line number."""

    marked: dict[int, Comment]
    plain: frozenset[int]
    """Numbers of the lines that contain a comment and no code."""

    def comments_above(self, line: int) -> tuple[Comment, ...]:
        """Return the ``# fullgraph:`` comments in the block of comment lines that ends directly
        above ``line``."""
        found = []
        at = line - 1
        while at in self.plain:
            if at in self.marked:
                found.append(self.marked[at])
            at -= 1
        return tuple(reversed(found))

    def comments_between(self, first: int, last: int) -> tuple[Comment, ...]:
        """Return the ``# fullgraph:`` comments on the lines from ``first`` to ``last``, both
        included."""
        return tuple(self.marked[line] for line in sorted(self.marked) if first <= line <= last)


def read_comments(text: str) -> Comments:
    """Return all ``# fullgraph:`` comments of a text in valid Python."""
    marked: dict[int, Comment] = {}
    plain: set[int] = set()
    if _MARK.search(text) is None:
        return Comments(marked, frozenset())
    lines = io.StringIO(text).readlines()
    for token in _comment_tokens(text):
        line, column = token.start
        prefix = lines[line - 1][:column]
        alone = not prefix.strip()
        if alone:
            plain.add(line - 1)
        match = _MARK.match(token.string)
        if match is None or RUN.match(token.string):
            continue
        if not alone and IGNORE.match(token.string):
            continue
        body = token.string[match.end() :].rstrip()
        byte = len(prefix.encode()) + len(token.string[: match.end()].encode())
        place = Range(Position(line - 1, byte), Position(line - 1, byte + len(body.encode())))
        marked[line - 1] = Comment(body, place, alone)
    return Comments(marked, frozenset(plain))


def _comment_tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token
    except (tokenize.TokenError, SyntaxError):
        # ``ast`` accepts a few texts that ``tokenize`` does not (a form feed in odd places);
        # the comments before the error still count.
        return


def first_line(node: ast.stmt | ast.Lambda) -> int:
    """Return the zero-based first line of a statement or lambda, including its decorators."""
    decorators = getattr(node, "decorator_list", [])
    return int(min([node.lineno, *(decorator.lineno for decorator in decorators)])) - 1


def comments_of_definition(
    comments: Comments, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
) -> tuple[Comment, ...]:
    """Return the ``# fullgraph:`` comments that belong to a function or class itself, not those
    inside its body."""
    start = first_line(node)
    found = [*comments.comments_above(start), *comments.comments_between(start, _head_end(node))]
    if isinstance(node, ast.ClassDef):
        claimed = {
            comment.line
            for method in method_definitions(node)
            if method.name != "__init__"
            for comment in comments_of_definition(comments, method)
        }
        found = [comment for comment in found if comment.line not in claimed]
    return tuple(found)


def method_definitions(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """Yield the methods of a class, in the order of the text."""
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef):
            yield statement


def comments_of_statement(comments: Comments, node: ast.stmt) -> tuple[Comment, ...]:
    """Return the ``# fullgraph:`` comments of a statement without a body, such as an assignment."""
    end = (node.end_lineno or node.lineno) - 1
    above = comments.comments_above(node.lineno - 1)
    return (*above, *comments.comments_between(node.lineno - 1, end))


def _head_end(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    """Return the zero-based last line of a definition's head: the last line before its first
    statement."""
    body = node.body
    statement: ast.stmt | None = body[0]
    if _is_docstring(body[0]):
        statement = body[1] if len(body) > 1 else None
    if statement is None:
        return (node.end_lineno or node.lineno) - 1
    line = first_line(statement)
    # A body on the line of its ``def`` shares the comment at the end of the line.
    return line if line == node.lineno - 1 else line - 1


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def file_off(comments: Comments, tree: ast.Module) -> Comment | None:
    """Return the ``# fullgraph: off`` comment that turns off the analysis of the whole file, or
    None."""
    body = [node for node in tree.body if not _is_docstring(node)]
    first = first_line(body[0]) if body else None
    near = (
        {comment.line for comment in comments.comments_above(first)} if first is not None else set()
    )
    docstrings = [node for node in tree.body if _is_docstring(node)]
    for line, comment in sorted(comments.marked.items()):
        if first is not None and line >= first:
            return None
        inside = any(node.lineno - 1 <= line < (node.end_lineno or 0) for node in docstrings)
        # Directly above a function, class or assignment, the comment applies only to this target.
        target = (
            line in near
            and body
            and isinstance(body[0], (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign))
        )
        if comment.off and comment.alone and not inside and not target:
            return comment
    return None
