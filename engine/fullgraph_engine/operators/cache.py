"""Where the operator index of an installation lies, and whether the one that lies there is whole.

Everything is found without importing torch: the index is wanted while that import goes on.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..protocol.operators import INDEX_FORMAT, IndexUnreadable, verify_index

_MOST_KEPT = 8
_SUFFIX = ".index"
_UNFINISHED = ".unfinished"
_FORGOTTEN = 3600.0
"""Seconds after which an unfinished file is nobody's any more."""

_FACTS = (
    "ATen/native/native_functions.yaml",
    "ATen/native/tags.yaml",
    "autograd/deprecated.yaml",
    "autograd/derivatives.yaml",
)


@dataclass(frozen=True)
class Installation:
    """The torch of this interpreter as it lies on disk."""

    torch: Path
    """The folder of the package."""
    packaged: Path | None
    """The YAML files that torchgen brings; None where it brings none."""
    version: str
    yaml: bool
    """Whether there is a parser for them."""

    @property
    def readable(self) -> bool:
        """Whether the binding YAML can be read at all."""
        return self.packaged is not None and self.yaml

    def key(self) -> str:
        """Differs wherever the index would."""
        digest = hashlib.blake2b(digest_size=12)
        for part in self._parts():
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.hexdigest()

    def _parts(self) -> Iterator[bytes]:
        yield f"{INDEX_FORMAT} {sys.version_info[:2]} {self.yaml}".encode()
        yield str(self.torch).encode()
        yield self.version.encode()
        if self.packaged is not None:
            for name in _FACTS:
                yield _content(self.packaged / name)
        engine = Path(__file__).parents[1]
        format_ = (engine / "protocol" / name for name in ("operators.py", "plain.py"))
        for source in (*sorted(engine.glob("operators/*.py")), *format_):
            yield source.name.encode() + _content(source)


def installation(yaml: str = "") -> Installation | None:
    """What ``import torch`` would find; ``yaml`` is a folder that holds PyYAML."""
    torch = _package("torch")
    if torch is None:
        return None
    torchgen = _package("torchgen")
    packaged = torchgen / "packaged" if torchgen is not None else None
    if packaged is not None and not (packaged / _FACTS[0]).is_file():
        packaged = None
    version = _content(torch / "version.py").decode(errors="replace")
    parser = bool(yaml) or _package("yaml") is not None
    return Installation(torch, packaged, version, parser)


def _package(name: str) -> Path | None:
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    places = list(found.submodule_search_locations or ()) if found is not None else []
    return Path(places[0]) if places else None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def user_folder() -> Path:
    """Where caches belong on this system."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):  # noqa: PTH117 - the specification says to ignore others
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path.home() / ".cache"


class Cache:
    """The complete indices of the last few installations, one file for each."""

    def __init__(self, key: str, folder: Path | None = None) -> None:
        self._key, self._folder = key, folder

    @property
    def path(self) -> Path:
        """Raises RuntimeError where the user has no home."""
        folder = self._folder or user_folder() / "fullgraph" / "operators"
        return folder / (self._key + _SUFFIX)

    def found(self) -> Path | None:
        """The whole and complete index of this key, if there is one."""
        try:
            path = self.path
            header, _ = verify_index(path.read_bytes())
        except (OSError, RuntimeError, IndexUnreadable):
            return None
        if not header.complete:
            return None
        try:
            os.utime(path)  # the least recently used one goes first
        except OSError:
            return path
        return path

    def write(self, data: bytes) -> Path:
        """Put an index there in one step, and remove the oldest others.

        Raises:
            OSError, RuntimeError: it cannot be written there.
        """
        path = self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
        self._prune(path)
        return path

    def _prune(self, own: Path) -> None:
        dated = [(_modified(path), path) for path in own.parent.glob("*" + _SUFFIX) if path != own]
        surplus = [path for _, path in sorted(dated, reverse=True)[_MOST_KEPT - 1 :]]
        before = time.time() - _FORGOTTEN
        surplus += [p for p in own.parent.glob("*" + _UNFINISHED) if _modified(p) < before]
        for path in surplus:
            try:
                path.unlink()
            except OSError:  # another engine was first
                continue


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that nobody ever sees half of it.

    Raises:
        OSError: it cannot be written.
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


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
