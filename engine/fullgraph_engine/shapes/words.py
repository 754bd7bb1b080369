"""Format sizes and conditions in the terms of the user's program."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Mapping
from typing import Any

import sympy  # type: ignore[import-untyped]

from ..protocol import Frame
from ..protocol.sources import in_user_words
from ..torch_internals.sympy_extensions import PythonPrinter
from . import upstream
from .tape import TracedOperator
from .upstream import ShapeEnv

_SIZE = re.compile(r"^(?P<tensor>.+?)\.(?P<what>size|stride)\(\)\[(?P<axis>\d+)\]$")


def place_in_words(source: str) -> str:
    """Convert Dynamo's name of a size to words: ``L['x'].size()[1]`` becomes ``x`` axis 1.

    The name of the variable is in backquotes.
    """
    match = _SIZE.match(source)
    if match is None or match["what"] != "size":
        return f"`{in_user_words(source)}`"
    return f"`{in_user_words(match['tensor'])}` axis {match['axis']}"


def input_names(env: ShapeEnv) -> dict[str, str]:
    """Return the user's expression, such as ``x.shape[0]``, for each symbol that comes from an
    input."""
    return {
        str(symbol): in_user_words(upstream.name_of_source(sources[0]))
        for symbol, sources in env.var_to_sources.items()
        if sources
    }


def format_expression(value: Any, names: Mapping[str, str]) -> str:
    """Format the symbolic condition ``value`` as Python, such as ``x.shape[1] == 16``.

    ``names`` has the user's expression for each symbol.
    """
    if not isinstance(value, sympy.Basic):
        return str(value)
    if value.is_Relational and value.lhs.is_number:
        value = value.reversed
    try:
        text = str(PythonPrinter().doprint(value))
    except Exception:  # the printer does not support all functions
        text = str(value)
    return _substitute_names(text, names)


def _substitute_names(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\b[a-z]+\d+\b", lambda match: names.get(match[0], match[0]), text)


def source_text(frame: Frame | None) -> str:
    """Return the source code that a frame is executing: its expression if columns are known, else
    its line.

    An expression that spans several lines is joined into one line.
    """
    if frame is None:
        return ""
    lines = [
        linecache.getline(frame.path, number + 1).encode()
        for number in range(frame.line, max(frame.line, frame.end_line) + 1)
    ]
    first_line = lines[0].decode(errors="replace").strip()
    if frame.end_byte < 0:
        return first_line
    lines[-1] = lines[-1][: frame.end_byte]
    lines[0] = lines[0][frame.byte :]
    code = b"".join(lines).decode(errors="replace").strip()
    if len(lines) == 1:
        return code
    try:
        return ast.unparse(ast.parse(f"({code})", mode="eval"))
    except (SyntaxError, ValueError):
        return first_line


def operator_in_words(operator: TracedOperator | None, values: Mapping[str, str]) -> str:
    """Describe an operator call: "matmul of `y` (4, 16) and `self.w` (16, 8)".

    ``values`` are the example values of symbols. The result is empty if ``operator`` is None.
    """
    if operator is None:
        return ""
    operands = [
        f"`{in_user_words(operand.name)}` ({_substitute_names(', '.join(operand.sizes), values)})"
        for operand in operator.operands
    ]
    if not operands:
        return operator.name
    return f"{operator.name} of {_join_words(operands)}"


def _join_words(items: list[str]) -> str:
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def assigned_name(frame: Frame | None) -> str:
    """Return the variable to which the statement that a frame executes assigns; else ""."""
    if frame is None:
        return ""
    text = linecache.getline(frame.path, frame.line + 1).strip()
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        return ""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""
