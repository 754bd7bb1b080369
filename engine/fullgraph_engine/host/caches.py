"""Locate the cache folders of libraries and the folders that user code may write to."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping

from ..protocol.sandbox import Allowed, Cache, WritableFolder

_realpath = os.path.realpath


def cache_folder(cache: Cache, env: Mapping[str, str] | None = None) -> str:
    """Return the cache folder of a library: the value of its environment variable in ``env``
    (default: ``os.environ``), or its default."""
    env = os.environ if env is None else env

    def join_path(*parts: str) -> str:
        return os.path.join(*parts)  # noqa: PTH118

    home = os.path.expanduser("~")  # noqa: PTH111
    general = env.get("XDG_CACHE_HOME") or join_path(home, ".cache")
    if cache == "cpp-extensions":
        if sys.platform == "darwin":
            general = join_path(home, "Library", "Caches")
        return env.get("TORCH_EXTENSIONS_DIR") or join_path(general, "torch_extensions")
    if cache == "triton-cache":
        return env.get("TRITON_CACHE_DIR") or join_path(env.get("TRITON_HOME") or home, ".triton")
    return env.get("HF_HOME") or join_path(general, "huggingface")


def allowed_folders(allowed: Allowed) -> tuple[WritableFolder, ...]:
    """Return the folders that the user allows the analyzed code to write to, whether they exist or
    not."""
    return (*allowed.writable, *(WritableFolder(cache_folder(cache)) for cache in allowed.caches))


def make_caches(allowed: Allowed) -> None:
    """Create the cache folders of libraries that the user allows writing to.

    Other allowed folders are not created: a path relative to the workspace would appear in every
    workspace.
    """
    for cache in allowed.caches:
        with contextlib.suppress(OSError):
            os.makedirs(cache_folder(cache), exist_ok=True)  # noqa: PTH103


def writable_folders(allowed: Allowed) -> tuple[str, ...]:
    """Return the paths of existing folders that the user allows the analyzed code to write to, with
    symbolic links resolved."""
    return tuple(_existing_folders(allowed_folders(allowed)))


def _existing_folders(named: tuple[WritableFolder, ...]) -> Iterator[str]:
    for one in named:
        path, inside = _realpath(one.path), _realpath(one.inside) if one.inside else ""
        if os.path.isdir(path) and (not inside or is_below(path, inside)):  # noqa: PTH112
            yield path


def is_below(path: str, folder: str) -> bool:
    """Whether a path equals a folder or lies below it; both are absolute and without symbolic
    links."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
