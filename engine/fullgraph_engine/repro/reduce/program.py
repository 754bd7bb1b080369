"""A program as the reducer sees it: its text, its tree and how large it is."""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass
from typing import NamedTuple

WIDTH = 88
"""Where a line should end."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
# A tensor of ones is no longer and says that its contents do not matter.
_RANDOM = frozenset({"rand", "randn", "randint", "empty", "full", "zeros"})
# One number stands for many: 16 as a size is no more complicated than 12.
_LARGE = 1 << 20


class ProgramSize(NamedTuple):
    """What is made smaller, in the order of what counts most.

    ``lines`` are those of code, where one beyond the margin counts as what it would be broken into.
    ``weight`` tells programs of equal length apart: the sum of their numbers, so that a size of 2
    is smaller than one of 8.
    """

    lines: int
    nodes: int
    length: int
    weight: int


@dataclass(frozen=True)
class ParsedProgram:
    """A program that parses, with its size as the reducer compares it."""

    text: str
    tree: ast.Module
    size: ProgramSize

    @classmethod
    def parse(cls, text: str) -> ParsedProgram:
        """Raises SyntaxError or ValueError where the text is no program."""
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
    """The lines that are neither blank nor only a comment."""
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))


def end_of_imports(tree: ast.Module) -> int:
    """How many of its first statements are a docstring or imports."""
    return next(
        (
            number
            for number, node in enumerate(tree.body)
            if not isinstance(node, _IMPORTS) and not (number == 0 and is_text(node))
        ),
        len(tree.body),
    )


def is_text(statement: ast.stmt) -> bool:
    """Whether it is a constant by itself, as a docstring is."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def format_program(text: str) -> str:
    """The program in its one style: comments gone, double quotes, a blank line around definitions.

    Raises SyntaxError or ValueError where the text is no program.
    """
    return format_tree(ast.parse(text))


def format_tree(tree: ast.Module) -> str:
    """The text of a tree. Raises what ``ast.unparse`` raises where a node is incomplete."""
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
    except (tokenize.TokenError, SyntaxError):  # what unparse writes is read by compile alone
        return text
    for row, first, last in changes:
        line = lines[row]
        lines[row] = f'{line[:first]}"{line[first + 1 : last]}"{line[last + 1 :]}'
    return "".join(lines)
