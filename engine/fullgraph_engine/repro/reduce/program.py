"""A program as the reducer handles it: its text, its syntax tree and its size."""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .syntax_index import SyntaxIndex

WIDTH = 88
"""Maximum width of a line in characters; a longer line counts as several lines of code."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
# These calls become ``torch.ones``, which is as short and shows that the contents do not matter.
_RANDOM = frozenset({"rand", "randn", "randint", "empty", "full", "zeros"})
# Numbers above this limit all count as equally large.
_LARGE = 1 << 20


class ProgramSize(NamedTuple):
    """The size of a program, which the reducer minimizes; most important field first.

    ``lines`` counts lines of code; a line longer than ``WIDTH`` counts several times. ``weight`` is
    the sum of all numbers, so that a size of 2 is smaller than one of 8.
    """

    lines: int
    nodes: int
    length: int
    weight: int


@dataclass(frozen=True)
class ParsedProgram:
    """A syntactically valid program: its source, its syntax tree, and its size for comparisons."""

    text: str
    tree: ast.Module
    size: ProgramSize

    @cached_property
    def index(self) -> SyntaxIndex:
        """Parents, scopes and uses of names in the syntax tree."""
        return SyntaxIndex.from_tree(self.tree)

    @classmethod
    def parse(cls, text: str) -> ParsedProgram:
        """Parse the text of a program.

        Raises SyntaxError or ValueError if the text is not valid Python.
        """
        tree = ast.parse(text)
        nodes = weight = 0
        for node in ast.walk(tree):
            if isinstance(node, (ast.expr_context, ast.operator, ast.unaryop, ast.boolop)):
                continue
            nodes += 1
            if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
                weight += _number_weight(node.value)
            elif isinstance(node, ast.Attribute) and node.attr in _RANDOM:
                weight += 1
        length = sum(len(line.strip()) for line in text.splitlines())
        lines = count_lines(text) + sum(
            1 + len(line) // WIDTH for line in text.splitlines() if len(line) > WIDTH
        )
        return cls(text, tree, ProgramSize(lines, nodes, length, weight))


def _number_weight(number: float) -> int:
    try:
        return min(int(abs(number)), _LARGE)
    except (ValueError, OverflowError):
        return _LARGE


def count_lines(text: str) -> int:
    """Count the lines of code, without blank lines and comments."""
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))


def end_of_imports(tree: ast.Module) -> int:
    """Return the index of the first statement after the docstring and the imports."""
    return next(
        (
            number
            for number, node in enumerate(tree.body)
            if not isinstance(node, _IMPORTS) and not (number == 0 and is_text(node))
        ),
        len(tree.body),
    )


def is_text(statement: ast.stmt) -> bool:
    """Whether a statement is only a constant expression, like a docstring."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def format_program(text: str) -> str:
    """Format a program without comments, in double quotes, with blank lines around definitions.

    Raises:
        SyntaxError, ValueError: The text is not valid Python.
    """
    return format_tree(ast.parse(text))


def format_tree(tree: ast.Module) -> str:
    """Return the text of a syntax tree.

    Raises what ``ast.unparse`` raises for incomplete nodes.
    """
    parts: list[str] = []
    before: ast.stmt | None = None
    for statement in tree.body:
        if before is not None and _needs_blank_line(before, statement):
            parts.append("")
        parts.extend(_statement_lines(statement))
        before = statement
    return _use_double_quotes("\n".join(parts) + "\n")


def _needs_blank_line(first: ast.stmt, second: ast.stmt) -> bool:
    if isinstance(first, _DEFINITIONS) or isinstance(second, _DEFINITIONS):
        return True
    return isinstance(first, _IMPORTS) != isinstance(second, _IMPORTS)


def _statement_lines(statement: ast.stmt) -> list[str]:
    lines = ast.unparse(statement).strip("\n").split("\n")
    if not isinstance(statement, _DEFINITIONS) or any('"""' in line for line in lines):
        return lines
    kept: list[str] = []
    for line in lines:
        if line.strip() or not kept[-1].endswith(":"):
            kept.append(line)
    return kept


def _use_double_quotes(text: str) -> str:
    if "'" not in text:
        return text
    lines = text.splitlines(keepends=True)
    starts = getattr(tokenize, "FSTRING_START", None), getattr(tokenize, "TSTRING_START", None)
    ends = getattr(tokenize, "FSTRING_END", None), getattr(tokenize, "TSTRING_END", None)
    inside = 0
    changes: list[tuple[int, int, int]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in starts:
                inside += 1
            elif token.type in ends:
                inside -= 1
            elif token.type == tokenize.STRING and not inside:
                body = token.string.lstrip("rRbBuU")
                plain = len(body) > 1 and body[0] == "'" and not body.startswith("'''")
                if plain and '"' not in body and "\\" not in body:
                    row, column = token.start
                    width = len(token.string)
                    changes.append((row - 1, column + width - len(body), column + width - 1))
    except (tokenize.TokenError, SyntaxError):  # some output of unparse cannot be tokenized
        return text
    for row, first, last in changes:
        line = lines[row]
        lines[row] = f'{line[:first]}"{line[first + 1 : last]}"{line[last + 1 :]}'
    return "".join(lines)
