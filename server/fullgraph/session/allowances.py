"""Parse the setting ``sandbox.allow`` (permissions of user code) and resolve the paths in its
entries.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import cast, get_args

from fullgraph_engine.protocol.sandbox import (
    Allowance,
    AllowanceKind,
    Allowed,
    Cache,
    WritableFolder,
)

WITH_VALUE = {"write": "FOLDER", "read-env": "NAME"}
"""Entries that need a value after a colon, with a placeholder for that value."""
PLAIN: tuple[str, ...] = tuple(kind for kind in get_args(AllowanceKind) if kind not in WITH_VALUE)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_allowance(text: str) -> Allowance:
    """Parse one entry of the setting ``sandbox.allow``, such as ``write:FOLDER``.

    Raises:
        ValueError: The text is not a valid entry; the message completes a sentence.
    """
    kind, colon, value = text.strip().partition(":")
    value = value.strip()
    if kind in PLAIN and not colon:
        return Allowance(cast("AllowanceKind", kind))
    if kind == "write" and value:
        if not _is_absolute(value) and os.path.normpath(value).startswith(os.pardir):
            raise ValueError(
                f"has {text!r}, which is outside of the workspace folder: write the absolute path"
            )
        return Allowance("write", value)
    if kind == "read-env" and _NAME.fullmatch(value):
        return Allowance("read-env", value)
    known = [*PLAIN, *(f"{name}:{what}" for name, what in WITH_VALUE.items())]
    close = difflib.get_close_matches(text, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else f": entries are {', '.join(known)}"
    raise ValueError(f"has {text!r}, which is not a valid entry{hint}")


def resolve_allowances(entries: Iterable[Allowance], folder: Path) -> Allowed:
    """Return the permissions that entries of ``sandbox.allow`` grant to user code; relative paths
    start at ``folder``.
    """
    entries = tuple(entries)
    kinds = {entry.kind for entry in entries}
    return Allowed(
        network="network" in kinds,
        programs=not kinds.isdisjoint({"subprocess", "cpp-extensions"}),
        writable=tuple(
            sorted(
                {
                    _writable_folder(entry.value, folder)
                    for entry in entries
                    if entry.kind == "write"
                },
                key=lambda one: one.path,
            )
        ),
        caches=tuple(cache for cache in get_args(Cache) if cache in kinds),
        variables=tuple(sorted({entry.value for entry in entries if entry.kind == "read-env"})),
    )


def _writable_folder(text: str, folder: Path) -> WritableFolder:
    if _is_absolute(text):
        return WritableFolder(os.path.normpath(Path(text).expanduser()))
    return WritableFolder(os.path.normpath(folder / text), inside=str(folder))


def _is_absolute(text: str) -> bool:
    return text.startswith("~") or os.path.isabs(text)  # noqa: PTH117
