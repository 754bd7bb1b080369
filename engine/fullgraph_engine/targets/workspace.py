"""Files of the workspace that use a class, such as its training script and tests."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

_MOST_FILES, _MOST_FOUND = 400, 4
_SECONDS = 0.25
"""Maximum wall time in seconds of one search for files."""
_LARGEST = 200_000
"""Maximum size in bytes of a workspace file to read."""
_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_MOST_PARENTS = 4
_INSTALLED = {"site-packages", "dist-packages"}
_ANY, _TEST = re.compile(".*"), re.compile(r"test_.*\.py|.*_test\.py")
_OTHERS = re.compile(r"\..*|__pycache__|node_modules|site-packages|build|dist|v?env\d?")


def texts_that_call(name: str, path: str) -> list[str]:
    """Return the contents of files near ``path`` that call ``name``, such as a training script,
    nearest first.

    Empty if ``path`` is in an installed package.
    """
    call = re.compile(rb"\b" + re.escape(name.encode()) + rb"\s*\(")
    definition = re.compile(rb"\bclass\s+" + re.escape(name.encode()) + rb"\b")
    # Skip files that define a class with this name, because there the name refers to that class.
    found = (
        text
        for _, text in _matching_texts(path)
        if call.search(text) and not definition.search(text)
    )
    return [text.decode("utf-8", "replace") for text in itertools.islice(found, _MOST_FOUND)]


def tests_that_import(path: str) -> list[tuple[Path, str]]:
    """Return test files near ``path`` that import the module at ``path``, with their texts, nearest
    first.
    """
    module = Path(path).stem
    name = Path(path).parent.name if module == "__init__" else module
    imported = re.compile(rb"^\s*(from|import)\b.*\b" + re.escape(name.encode()) + rb"\b", re.M)
    found = (
        (file, text) for file, text in _matching_texts(path, wanted=_TEST) if imported.search(text)
    )
    return [
        (file, text.decode("utf-8", "replace"))
        for file, text in itertools.islice(found, _MOST_FOUND)
    ]


def _matching_texts(path: str, wanted: re.Pattern[str] = _ANY) -> Iterator[tuple[Path, bytes]]:
    """Yield files near ``path`` whose names match ``wanted``, each with its contents, until a limit
    of number or time is reached."""
    here = Path(path)
    if not here.is_absolute() or _INSTALLED.intersection(here.parts):
        return
    until = time.monotonic() + _SECONDS
    for file in itertools.islice(_python_files(here), _MOST_FILES):
        if time.monotonic() > until:
            return
        try:
            if wanted.fullmatch(file.name) and file.stat().st_size <= _LARGEST:
                yield file, file.read_bytes()
        except OSError:
            continue


def _python_files(path: Path) -> Iterator[Path]:
    """Yield Python files: in the folder of ``path``, then in folders below it and above it, up to
    the project's root."""
    folder = path.parent
    yield from (file for file in _files_below(folder) if file != path)
    for parent in _parent_folders(folder):
        yield from _files_below(parent, without=folder)
        folder = parent


def _parent_folders(folder: Path) -> Iterator[Path]:
    for parent in list(folder.parents)[:_MOST_PARENTS]:
        if any((folder / mark).exists() for mark in _MARKS):
            return
        in_package = (parent / "__init__.py").exists()
        in_project = any((parent / mark).exists() for mark in _MARKS)
        if not in_package and not in_project:
            return
        folder = parent
        yield parent


def _files_below(folder: Path, without: Path | None = None) -> Iterator[Path]:
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
