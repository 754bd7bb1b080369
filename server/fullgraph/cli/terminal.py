"""Write to the standard streams with the colors, width and encoding that they support."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Iterator
from typing import Literal, TextIO

from fullgraph.render.paint import Paint, Style

Color = Literal["auto", "always", "never"]
Format = Literal["text", "json", "sarif", "github", "gitlab", "junit", "markdown", "html"]
"""Format of the results of ``fullgraph check``."""

# Maximum width in columns of prose on a terminal, and of code in a file or pipe.
_WIDEST_PROSE = 100
_CODE_IN_FILES = 160


def paint_for(stream: TextIO, color: Color) -> Paint:
    """Return the colors and line width for text on a stream. The option ``--color`` and the
    environment select the colors."""
    terminal = stream.isatty()
    columns = shutil.get_terminal_size((80, 24)).columns if terminal else _CODE_IN_FILES
    return Paint(
        color=_use_colors(terminal, color),
        width=min(columns, _WIDEST_PROSE),
        code=columns,
    )


def write_message(color: Color, word: str, style: Style, sentence: str) -> None:
    """Write a sentence to standard error, after a colored word such as ``error``."""
    write(sys.stderr, f"{paint_for(sys.stderr, color)(style, f'{word}:')} {sentence}\n")


def write(stream: TextIO, text: str) -> None:
    """Write a text to a stream and flush it; characters that the stream cannot encode are replaced
    by similar ones."""
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        plain = text.translate(_PLAIN)
        text = plain.encode(encoding, "replace").decode(encoding)
    stream.write(text)
    stream.flush()


@contextlib.contextmanager
def as_utf8(stream: TextIO) -> Iterator[TextIO]:
    """Yield a stream that writes to ``stream`` in UTF-8 instead of its own encoding."""
    stream.flush()
    wrapped = io.TextIOWrapper(stream.buffer, encoding="utf-8", write_through=True)
    try:
        yield wrapped
    finally:
        # Without `detach`, the wrapper would close the stream.
        wrapped.detach()


_PLAIN = {ord("·"): "-", ord("…"): "...", ord("→"): "->", ord("✓"): "ok", ord("✗"): "no"}


def _use_colors(terminal: bool, color: Color) -> bool:
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return terminal and os.environ.get("TERM") != "dumb"
