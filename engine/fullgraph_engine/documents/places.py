"""Format names of functions and lines for people to read."""

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


class PlaceFormatter:
    """A formatter of functions and source lines for a document about one file; the file's own path
    is omitted."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        try:
            tree: ast.Module | None = ast.parse(text)
        except (SyntaxError, ValueError):
            tree = None
        self._names = FunctionNames(tree)

    def describe_code(self, code: types.CodeType) -> str:
        """Return the name and first line of a code object's function: ``Attention.forward, line
        44``.

        A function that Dynamo generated to resume after a graph break is ``Attention.forward, from
        line 49``. For another file, the text includes its name.
        """
        resumed = _RESUMED.search(code.co_name) if code.co_name.startswith("torch_dynamo") else None
        line = int(resumed[1]) if resumed is not None else code.co_firstlineno
        name = self._qualified_name(code.co_filename, frames.original_name(code.co_name), line)
        words = "from line" if resumed is not None else "line"
        return f"{name}, {words} {line}{self._file_suffix(code.co_filename)}"

    def describe_function(self, path: str, function: str, line: int) -> str:
        """Return a function's name and line for people, such as ``Attention.forward, line 44``. The
        file name is added if the function is in another file than the document's.

        ``line`` is the zero-based first line; ``path`` is the function's file.
        """
        name = self._qualified_name(path, frames.original_name(function), line + 1)
        return f"{name}, line {line + 1}{self._file_suffix(path)}" if line >= 0 else name

    def qualified_function(self, frame: Frame) -> str:
        """Return the qualified name of a frame's function, such as ``Attention.forward``."""
        return self._qualified_name(
            frame.path, frames.original_name(frame.function), frame.line + 1
        )

    def _qualified_name(self, path: str, function: str, line: int) -> str:
        """Return the qualified name, such as ``Attention.forward``, of the function at a one-based
        line; ``function`` if none is found."""
        return self._names.name_at(function, line - 1) if path == self.path else function

    def describe_line(self, frame: Frame) -> str:
        """Return a source line with its number: ``line 49: k, v = cache.extend(k, v)``; for another
        file, also with its name."""
        text = frame.text or linecache.getline(frame.path, frame.line + 1)
        return f"line {frame.line + 1}{self._file_suffix(frame.path)}: {text.strip()}"

    def innermost_frame(self, stack: tuple[Frame, ...]) -> Frame | None:
        """Return the innermost frame in the document's file. If no frame is in that file, return
        the innermost frame of the whole stack.

        The result is None for an empty stack.
        """
        frames = [frame for frame in stack if frame.path == self.path] or stack
        return frames[-1] if frames else None

    def _file_suffix(self, path: str) -> str:
        return "" if path == self.path else f" of {short_path(path)}"


def short_path(path: str) -> str:
    """Shorten a path to the part below ``site-packages``, or to the file name."""
    parts = PurePath(path).parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            return "/".join(parts[len(parts) - parts[::-1].index(folder) :])
    return parts[-1] if parts else path
