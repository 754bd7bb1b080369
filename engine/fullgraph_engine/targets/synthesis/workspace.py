"""Files of the workspace that use a class of another one: the script that trains a model says what
it is constructed with."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

_MOST_FILES, _MOST_FOUND = 400, 4
_SECONDS = 0.25
"""What looking for them may take, by the clock."""
_LARGEST = 200_000
"""Bytes of a file that is read."""
_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_MOST_PARENTS = 4
_INSTALLED = {"site-packages", "dist-packages"}
_OTHERS = re.compile(r"\..*|__pycache__|node_modules|site-packages|build|dist|v?env\d?")


def texts_that_call(name: str, path: str) -> list[str]:
    """Texts of files near ``path`` that have a call of this name in them, nearest first; none for
    what is installed."""
    here = Path(path)
    if not here.is_absolute() or _INSTALLED.intersection(here.parts):
        return []
    until = time.monotonic() + _SECONDS
    call = re.compile(rb"\b" + re.escape(name.encode()) + rb"\s*\(")
    definition = re.compile(rb"\bclass\s+" + re.escape(name.encode()) + rb"\b")
    found: list[str] = []
    for count, file in enumerate(_files(here)):
        if count >= _MOST_FILES or len(found) >= _MOST_FOUND or time.monotonic() > until:
            break
        try:
            if file.stat().st_size > _LARGEST:
                continue
            text = file.read_bytes()
        except OSError:
            continue
        # Another class of this name is called by its own name there.
        if call.search(text) and not definition.search(text):
            found.append(text.decode("utf-8", "replace"))
    return found


def _files(path: Path) -> Iterator[Path]:
    """Python files of its folder, of those below, and of those around up to the project's."""
    folder = path.parent
    yield from (file for file in _below(folder) if file != path)
    for parent in _parents(folder):
        yield from _below(parent, without=folder)
        folder = parent


def _parents(folder: Path) -> Iterator[Path]:
    for parent in list(folder.parents)[:_MOST_PARENTS]:
        if any((folder / mark).exists() for mark in _MARKS):
            return
        in_package = (parent / "__init__.py").exists()
        in_project = any((parent / mark).exists() for mark in _MARKS)
        if not in_package and not in_project:
            return
        folder = parent
        yield parent


def _below(folder: Path, without: Path | None = None) -> Iterator[Path]:
    waiting = [folder]
    while waiting:
        try:
            entries = sorted(os.scandir(waiting.pop(0)), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            here = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                if here != without and not _OTHERS.fullmatch(entry.name):
                    waiting.append(here)
            elif entry.name.endswith(".py"):
                yield here
