"""Find the cached operator index of the installed torch, and store a new one.

Nothing in this module imports torch: the engine needs the cached index before torch is imported.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..protocol.operators import INDEX_FORMAT, IndexUnreadable, verify_index
from .sources import package_folder

_MAX_INDEX_FILES = 8
_SUFFIX = ".index"
_UNFINISHED = ".unfinished"
_ABANDONED_AFTER = 3600.0
"""Seconds after which a temporary file of an incomplete write is removed, because its process
probably ended."""

_YAML_FILES = (
    "ATen/native/native_functions.yaml",
    "ATen/native/tags.yaml",
    "autograd/deprecated.yaml",
    "autograd/derivatives.yaml",
)


@dataclass(frozen=True)
class Installation:
    """The torch package of this interpreter, located on disk without importing it."""

    torch: Path
    """Folder of the torch package."""
    yaml_folder: Path | None
    """Folder of the YAML files that torchgen contains; None if they are missing."""
    version: str
    """Text of torch/version.py."""
    has_yaml_parser: bool
    """True if PyYAML can be imported."""

    @property
    def readable(self) -> bool:
        """Whether the YAML files exist and PyYAML can parse them."""
        return self.yaml_folder is not None and self.has_yaml_parser

    def cache_key(self) -> str:
        """Return a digest of everything that affects the operator index of the installed torch."""
        digest = hashlib.blake2b(digest_size=12)
        for part in self._key_parts():
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.hexdigest()

    def _key_parts(self) -> Iterator[bytes]:
        yield f"{INDEX_FORMAT} {sys.version_info[:2]} {self.has_yaml_parser}".encode()
        yield str(self.torch).encode()
        yield self.version.encode()
        if self.yaml_folder is not None:
            for name in _YAML_FILES:
                yield _read_or_empty(self.yaml_folder / name)
        engine = Path(__file__).parents[1]
        format_ = (engine / "protocol" / name for name in ("operators.py", "plain.py"))
        for source in (*sorted(engine.glob("operators/*.py")), *format_):
            yield source.name.encode() + _read_or_empty(source)


def find_installation(yaml: str = "") -> Installation | None:
    """Find the torch package that ``import torch`` would load; None if torch is not installed.

    ``yaml`` is the path of a folder with PyYAML, for interpreters without it; empty for none.
    """
    torch = package_folder("torch")
    if torch is None:
        return None
    torchgen = package_folder("torchgen")
    packaged = torchgen / "packaged" if torchgen is not None else None
    if packaged is not None and not (packaged / _YAML_FILES[0]).is_file():
        packaged = None
    version = _read_or_empty(torch / "version.py").decode(errors="replace")
    parser = bool(yaml) or package_folder("yaml") is not None
    return Installation(torch, packaged, version, parser)


def _read_or_empty(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def user_cache_folder() -> Path:
    """Return the user's cache folder on this system, for example ``~/.cache`` on Linux.

    Raises:
        RuntimeError: the home folder of the user is unknown.
    """
    configured = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(configured):  # noqa: PTH117 - the specification says to ignore others
        return Path(configured)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path.home() / ".cache"


class IndexCache:
    """A cache with one complete operator index for each of the eight torch packages used last.

    ``key`` identifies the torch package. ``folder`` is None for the user's cache folder.
    """

    def __init__(self, key: str, folder: Path | None = None) -> None:
        self._key, self._folder = key, folder

    @property
    def path(self) -> Path:
        """Path of the index file for this installation of torch, which may not exist.

        Raises:
            RuntimeError: the home folder of the user is unknown.
        """
        folder = self._folder or user_cache_folder() / "fullgraph" / "operators"
        return folder / (self._key + _SUFFIX)

    def find_complete(self) -> Path | None:
        """Return the path of the complete index that was cached for this installation of torch.

        None if it is missing, damaged or incomplete.
        """
        try:
            path = self.path
            header, _ = verify_index(path.read_bytes())
        except (OSError, RuntimeError, IndexUnreadable):
            return None
        if not header.complete:
            return None
        try:
            os.utime(path)  # mark as used, because the least recently used file is removed first
        except OSError:
            return path
        return path

    def write(self, data: bytes) -> Path:
        """Write the content of an index file and return its path; remove the least recently used
        files.

        Raises:
            OSError, RuntimeError: the file cannot be written.
        """
        path = self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
        self._remove_old_files(path)
        return path

    def _remove_old_files(self, path_to_keep: Path) -> None:
        dated = [
            (_modification_time(path), path)
            for path in path_to_keep.parent.glob("*" + _SUFFIX)
            if path != path_to_keep
        ]
        surplus = [path for _, path in sorted(dated, reverse=True)[_MAX_INDEX_FILES - 1 :]]
        before = time.time() - _ABANDONED_AFTER
        surplus += [
            p for p in path_to_keep.parent.glob("*" + _UNFINISHED) if _modification_time(p) < before
        ]
        for path in surplus:
            try:
                path.unlink()
            except OSError:  # another engine has removed the file already
                continue


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file through a temporary file, so that readers never see partial content.

    Raises:
        OSError: the file cannot be written.
    """
    descriptor, name = tempfile.mkstemp(_UNFINISHED, path.stem, path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _modification_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
