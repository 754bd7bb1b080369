"""Where libraries keep what they have compiled or downloaded, and which folders may be written."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping

from ..protocol.sandbox import Allowed, Cache, WritableFolder

_realpath = os.path.realpath


def folder(cache: Cache, env: Mapping[str, str] | None = None) -> str:
    """The folder that a library takes by default, or that its variable names."""
    env = os.environ if env is None else env

    def joined(*parts: str) -> str:
        return os.path.join(*parts)  # noqa: PTH118

    home = os.path.expanduser("~")  # noqa: PTH111
    general = env.get("XDG_CACHE_HOME") or joined(home, ".cache")
    if cache == "cpp-extensions":
        if sys.platform == "darwin":
            general = joined(home, "Library", "Caches")
        return env.get("TORCH_EXTENSIONS_DIR") or joined(general, "torch_extensions")
    if cache == "triton-cache":
        return env.get("TRITON_CACHE_DIR") or joined(env.get("TRITON_HOME") or home, ".triton")
    return env.get("HF_HOME") or joined(general, "huggingface")


def folders(allowed: Allowed) -> tuple[WritableFolder, ...]:
    """All that may be written to, whether it is there or not."""
    return (*allowed.writable, *(WritableFolder(folder(cache)) for cache in allowed.caches))


def make(allowed: Allowed) -> None:
    """Make the folders of caches, as the libraries would; a folder that is named has to be there:
    one that is relative to the workspace would be made in each."""
    for cache in allowed.caches:
        with contextlib.suppress(OSError):
            os.makedirs(folder(cache), exist_ok=True)  # noqa: PTH103


def writable(allowed: Allowed) -> tuple[str, ...]:
    """Of these folders those that are there, without links in their paths."""
    return tuple(_there(folders(allowed)))


def _there(named: tuple[WritableFolder, ...]) -> Iterator[str]:
    for one in named:
        path, inside = _realpath(one.path), _realpath(one.inside) if one.inside else ""
        if os.path.isdir(path) and (not inside or is_below(path, inside)):  # noqa: PTH112
            yield path


def is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder, or below it; both are absolute and without links."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
