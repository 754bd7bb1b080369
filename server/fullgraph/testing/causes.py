"""Name the code that causes a finding, in words that do not depend on line numbers or the version
of torch."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fullgraph.domain.wording import message_lines
from fullgraph_engine.protocol import Finding

_MODULE_LEVEL = "<module>"


@dataclass(frozen=True)
class Cause:
    """The code that causes a graph break, a skipped function or a recompile.

    ``file`` is relative to the folder that contains its top-level package, so that it is the same
    for a checkout and an installation. ``function`` is the qualified name of the function around
    the line, ``source`` the text of the line. ``message`` is the reason.
    """

    code: str
    file: str
    function: str
    source: str
    message: str

    @property
    def family(self) -> str:
        """First part of the code, such as ``graph-break``."""
        return self.code.partition("/")[0]

    @property
    def words(self) -> str:
        """Description of the cause in one line."""
        return f"{self.code} in `{self.function}` of {self.file}, at `{self.source}`"


def causes_of(finding: Finding, path: str, line: int) -> Iterator[Cause]:
    """Yield the causes of a finding at a zero-based line of the file at ``path``.

    A recompile has one for each value whose guard failed, other findings have one.
    """
    file, source = package_path(path), _source_line(path, line)
    function = function_at(path, line)
    if finding.code.startswith("recompile/") and finding.names:
        messages = [f"`{name.name}` changed" for name in finding.names]
    else:
        messages = [message_lines(finding)[0]]
    for message in messages:
        yield Cause(finding.code, file, function, source, message)


def package_path(path: str) -> str:
    """Return the path of a file relative to the folder that contains its top-level package; for a
    file outside of packages, its name.
    """
    parts = [Path(path).name]
    folder = Path(path).parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return "/".join(parts)


def function_at(path: str, line: int) -> str:
    """Return the qualified name of the innermost function or class around a zero-based line."""
    inside = [
        (first, name) for first, last, name in _definitions(path) if first <= line + 1 <= last
    ]
    return max(inside, default=(0, _MODULE_LEVEL))[1]


def _source_line(path: str, line: int) -> str:
    lines = _text(path).splitlines()
    return " ".join(lines[line].split()) if 0 <= line < len(lines) else ""


@functools.lru_cache(maxsize=64)
def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, ValueError):
        return ""


@functools.lru_cache(maxsize=64)
def _definitions(path: str) -> tuple[tuple[int, int, str], ...]:
    """Return first line, last line and qualified name of each function and class in a file."""
    try:
        tree = ast.parse(_text(path))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(_walk(tree, ""))


def _walk(node: ast.AST, outer: str) -> Iterator[tuple[int, int, str]]:
    for child in ast.iter_child_nodes(node):
        name = outer
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{outer}.{child.name}" if outer else child.name
            first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
            yield first, child.end_lineno or child.lineno, name
        yield from _walk(child, name)
