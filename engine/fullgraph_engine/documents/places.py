"""Functions and lines as people name them."""

from __future__ import annotations

import ast
import linecache
import re
import types
from pathlib import PurePath

from ..protocol import Frame
from ..targets.names import FunctionNames
from ..torch_internals import frames

_RESUMED = re.compile(r"_at_(\d+)$")


class Places:
    """Names places relative to the file that is being read: its path is not said."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        try:
            tree: ast.Module | None = ast.parse(text)
        except (SyntaxError, ValueError):
            tree = None
        self._names = FunctionNames(tree)

    def function(self, code: types.CodeType) -> str:
        """``Attention.forward, line 44``; behind a break ``Attention.forward, from line 49``."""
        resumed = _RESUMED.search(code.co_name) if code.co_name.startswith("torch_dynamo") else None
        line = int(resumed[1]) if resumed is not None else code.co_firstlineno
        name = self._name(code.co_filename, frames.original_name(code.co_name), line)
        words = "from line" if resumed is not None else "line"
        return f"{name}, {words} {line}{self._file(code.co_filename)}"

    def named(self, path: str, function: str, line: int) -> str:
        """The same for a function of which the name and the zero-based first line are known."""
        name = self._name(path, frames.original_name(function), line + 1)
        return f"{name}, line {line + 1}{self._file(path)}" if line >= 0 else name

    def frame(self, frame: Frame) -> str:
        """The function that a frame is in, as ``__qualname__`` has it."""
        return self._name(frame.path, frames.original_name(frame.function), frame.line + 1)

    def _name(self, path: str, function: str, line: int) -> str:
        """The name in full, where a function of this name is around the line of the file."""
        return self._names.at(function, line - 1) if path == self.path else function

    def line(self, frame: Frame) -> str:
        """``line 49: k, v = cache.extend(k, v)``, with the file if it is another one."""
        text = frame.text or linecache.getline(frame.path, frame.line + 1)
        return f"line {frame.line + 1}{self._file(frame.path)}: {text.strip()}"

    def innermost(self, stack: tuple[Frame, ...]) -> Frame | None:
        """The innermost frame in the file, else the innermost of all."""
        frames = [frame for frame in stack if frame.path == self.path] or stack
        return frames[-1] if frames else None

    def _file(self, path: str) -> str:
        return "" if path == self.path else f" of {short(path)}"


def short(path: str) -> str:
    """The end of a path that tells it from others: from ``site-packages`` on, or the name."""
    parts = PurePath(path).parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            return "/".join(parts[len(parts) - parts[::-1].index(folder) :])
    return parts[-1] if parts else path
