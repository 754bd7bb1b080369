"""Shorten paths for display: relative to the workspace, or to a folder of installed packages."""

from __future__ import annotations

import functools
import re

_LEFT = r"(?:site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\]"
INSTALLED = re.compile(rf".*[/\\]{_LEFT}")
"""Matches a path up to a folder of installed packages, including that folder."""
ENGINE = re.compile(r".*[/\\](?=fullgraph_engine[/\\])")

_BEGIN = r"(?<![\w.~/\\-])(?!//)(?:[A-Za-z]:)?[/\\]"
_PART = r"[^\s'\"`<>()\[\]{},;]*"
_IN_WORDS = re.compile(rf"{_BEGIN}(?:{_PART}[/\\])?(?:{_LEFT}|(?=fullgraph_engine[/\\]))")


def match_library_folder(path: str) -> re.Match[str] | None:
    """Match the beginning of a path up to a folder of installed packages.

    The folder that contains this project's engine counts as such a folder.
    """
    return INSTALLED.match(path) or ENGINE.match(path)


def short_path(path: str, folder: str = "") -> str:
    """Shorten a path: make it relative to the folder of installed packages that contains it.

    Without such a folder, make it relative to ``folder``, for example the workspace.
    """
    found = match_library_folder(path)
    if found:
        return path[found.end() :]
    prefix = folder.rstrip("/\\")
    if prefix and path.startswith((prefix + "/", prefix + "\\")):
        return path[len(prefix) + 1 :]
    return path


@functools.lru_cache(maxsize=4096)
def shorten_paths(words: str, folder: str = "") -> str:
    """Shorten each path in the message ``words`` with :func:`short_path`."""
    if "/" not in words and "\\" not in words:
        return words
    words = _IN_WORDS.sub("", words)
    prefix = folder.rstrip("/\\")
    return re.sub(rf"(?<![\w.~/\\-]){re.escape(prefix)}[/\\]", "", words) if prefix else words
