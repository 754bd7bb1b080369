"""Paths as people read them: below the folder of the workspace, or of the packages of a Python."""

from __future__ import annotations

import functools
import re

_LEFT = r"(?:site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\]"
INSTALLED = re.compile(rf".*[/\\]{_LEFT}")
"""Where interpreters keep what they were installed with."""
ENGINE = re.compile(r".*[/\\](?=fullgraph_engine[/\\])")

_BEGIN = r"(?<![\w.~/\\-])(?!//)(?:[A-Za-z]:)?[/\\]"
_PART = r"[^\s'\"`<>()\[\]{},;]*"
_IN_WORDS = re.compile(rf"{_BEGIN}(?:{_PART}[/\\])?(?:{_LEFT}|(?=fullgraph_engine[/\\]))")


def below(path: str) -> re.Match[str] | None:
    """The part of a path that leads to what is installed, if it does."""
    return INSTALLED.match(path) or ENGINE.match(path)


def short_path(path: str, folder: str = "") -> str:
    """A path as short as it is still clear: below a library's folder, or below ``folder``."""
    found = below(path)
    if found:
        return path[found.end() :]
    prefix = folder.rstrip("/\\")
    if prefix and path.startswith((prefix + "/", prefix + "\\")):
        return path[len(prefix) + 1 :]
    return path


@functools.lru_cache(maxsize=4096)
def with_short_paths(words: str, folder: str = "") -> str:
    """A text with each path in it as :func:`short_path` has it."""
    if "/" not in words and "\\" not in words:
        return words
    words = _IN_WORDS.sub("", words)
    prefix = folder.rstrip("/\\")
    return re.sub(rf"(?<![\w.~/\\-]){re.escape(prefix)}[/\\]", "", words) if prefix else words
