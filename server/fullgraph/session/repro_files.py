"""Write repro scripts atomically, with names derived from their finding, and without overwriting
files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import tempfile
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fullgraph.domain.findings import FileFinding
from fullgraph.engines import sentences
from fullgraph.session.settings import Settings, expand_path
from fullgraph_engine.protocol import Wanted
from fullgraph_engine.protocol.repro import DATA, data_name


@contextmanager
def temporary_data_folder() -> Iterator[str]:
    """Yield an empty temporary folder into which the engine writes tensors; an empty name if it
    cannot be created.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="fullgraph-data-", ignore_cleanup_errors=True)
    except OSError:
        yield ""
        return
    with folder as path:
        yield path


@dataclass(frozen=True)
class ReproData:
    """The data files that a repro script loads, in the temporary folder to which the engine wrote
    them.
    """

    folder: str = ""
    names: tuple[str, ...] = ()

    def copy_to(self, parent: Path) -> str:
        """Copy the data files into a subfolder of ``parent``; return a sentence about a failure,
        empty without one.

        Files with the same contents are not written again.
        """
        folder = parent / DATA
        try:
            for name in self.names:
                folder.mkdir(exist_ok=True)
                if not _is_whole(folder / name):
                    self._copy_file(name, folder)
        except OSError as error:
            why = error.strerror or str(error)
            return (
                f"Cannot write its data to {folder} ({why}): the script uses random data instead."
            )
        return ""

    def is_beside(self, script: Path) -> bool:
        """Return whether all data files are next to the script."""
        return all((script.parent / DATA / name).is_file() for name in self.names)

    def _copy_file(self, name: str, folder: Path) -> None:
        hidden = folder / f".{name}-{secrets.token_hex(4)}.part"
        try:
            with Path(self.folder, name).open("rb") as source, hidden.open("xb") as file:
                shutil.copyfileobj(source, file)
                file.flush()
                # Some file systems report a full disk only when the file is synchronized.
                os.fsync(file.fileno())
            hidden.replace(folder / name)
        finally:
            hidden.unlink(missing_ok=True)


def _is_whole(path: Path) -> bool:
    try:
        return data_name(path.read_bytes()) == path.name
    except OSError:
        return False


_LONGEST_NAME = 60
_MOST_OF_A_NAME = 999


class ReproUnwritable(Exception):
    """An error if no folder is writable; its message is one sentence."""


@dataclass(frozen=True)
class WrittenRepro:
    """A repro script that was written; ``remark`` is a sentence if it is in another folder than
    configured, else empty.
    """

    path: Path
    remark: str = ""


def folder_of(settings: Settings, project: Path) -> Path:
    """Return the folder for repro scripts from the setting ``repro-folder``, which is relative to
    the project unless absolute.
    """
    return project / expand_path(settings.repro_folder or ".", project)


def name_of(wanted: Wanted, item: FileFinding | None, path: str) -> str:
    """Return a file name without extension for a repro, from the finding's code, target and
    function.

    ``wanted`` describes the repro, and ``item`` is its finding if any. ``path`` is the name of the
    finding's file in engine requests.
    """
    words = [wanted.code.rpartition("/")[2] if "/GB" in wanted.code else wanted.code]
    if wanted.backend:
        words = [wanted.backend, "accuracy" if wanted.accuracy else "error"]
    words.append(wanted.target)
    if item is not None:
        here = [frame.function for frame in item.finding.stack if frame.path == path]
        words += here[-1:]
    # Each word appears once: `Net.forward` of `Net` does not repeat the class.
    parts = dict.fromkeys(part for word in words for part in _to_slug(word).split("-") if part)
    name = ""
    for part in parts:
        longer = f"{name}-{part}" if name else part
        if len(longer) > _LONGEST_NAME:
            break
        name = longer
    return name or "repro"


def _to_slug(text: str) -> str:
    """Return lower-case letters and digits joined by dashes, valid on every file system."""
    ascii_ = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    # Underscores stay, so that a name such as `forward_fn` remains one word.
    return re.sub(r"[^a-z0-9_]+", "-", ascii_.lower()).strip("-_")


def write_repro(
    folder: Path,
    name: str,
    extension: str,
    text: str,
    data: ReproData | None = None,
    *,
    unversioned: bool = False,
) -> WrittenRepro:
    """Write a script into ``folder``, which is created if missing, or into a temporary folder if
    this fails.

    The files of ``data`` are written first, so that the script never exists without them. With
    ``unversioned``, git ignores a folder that this call creates.

    Raises:
        ReproUnwritable: Both folders cannot be written.
    """
    try:
        _create_folder(folder, unversioned=unversioned)
        lost = data.copy_to(folder) if data is not None else ""
        return WrittenRepro(write_new(folder, name, extension, text), lost)
    except OSError as error:
        why = error.strerror or str(error)
    try:
        elsewhere = Path(tempfile.mkdtemp(prefix="fullgraph-"))
        lost = data.copy_to(elsewhere) if data is not None else ""
        path = write_new(elsewhere, name, extension, text)
    except OSError as error:
        raise ReproUnwritable(
            f"Cannot write to {folder} ({why}), nor to a temporary folder "
            f"({error.strerror or error})."
        ) from error
    moved = f"Cannot write to {folder} ({why}); the script is in {path}."
    return WrittenRepro(path, sentences(moved, lost))


def _create_folder(folder: Path, *, unversioned: bool) -> None:
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    if unversioned:
        with contextlib.suppress(FileExistsError), (folder / ".gitignore").open("x") as file:
            file.write("*\n")


def write_new(folder: Path, name: str, extension: str, text: str) -> Path:
    """Write ``name.py``, or ``name-2.py`` and so on if the name is taken.

    The file appears with its complete text or not at all.
    """
    hidden = folder / f".{name}-{secrets.token_hex(4)}.part"
    try:
        with hidden.open("x", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
            file.write(text)
            file.flush()
            # Some file systems report a full disk only when the file is synchronized.
            os.fsync(file.fileno())
        for number in range(1, _MOST_OF_A_NAME + 1):
            path = folder / f"{name}{f'-{number}' if number > 1 else ''}{extension}"
            if _publish_file(hidden, path):
                return path
    finally:
        with contextlib.suppress(OSError):
            hidden.unlink()
    raise FileExistsError(errno.EEXIST, f"there are too many files called {name}")


def _publish_file(hidden: Path, path: Path) -> bool:
    """Give the written file ``hidden`` its final name ``path``; return False if another file has
    this name.
    """
    try:
        # A hard link never replaces a file, unlike a rename.
        path.hardlink_to(hidden)
        return True
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
    # Without hard links, reserve the name first, then replace the empty file.
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    try:
        hidden.replace(path)
    except OSError:
        path.unlink()
        raise
    return True
