"""Which files a check is about, and what is in them."""

from __future__ import annotations

import io
import os
import stat
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from fullgraph.domain import notebooks

STANDARD_INPUT = "-"

_NEVER = {"node_modules", "__pycache__", "site-packages", "__pypackages__", "third_party"}

_MADE = {"build", "_build", "dist", "vendor", "_vendor", "vendored", "buck-out"}
"""Folders of what tools have made, or others written, unless they are packages."""

_VENDORED = ("linguist-vendored", "linguist-generated")
"""Attributes that mark files as not the repository's own; GitHub and others go by them."""

MOST_BYTES = 32 << 20
"""Of a file that is read."""


@dataclass(frozen=True)
class SourceFile:
    """A file to check. ``path`` is as the user wrote it, or below a folder as they wrote that."""

    path: str
    absolute: Path
    named: bool
    """The user named this very file, so it is always traced."""


@dataclass(frozen=True)
class Sources:
    """The files of a check; ``problems`` and ``remarks`` are sentences."""

    files: tuple[SourceFile, ...]
    problems: tuple[str, ...]
    remarks: tuple[str, ...]
    """What a user should know, though nothing went wrong."""


class Unreadable(Exception):
    """One sentence with the next step."""


def find(
    paths: Sequence[str],
    exclude: Sequence[str],
    root: Path,
    located: Callable[[Path], Path] | None = None,
) -> Sources:
    """The files that ``paths`` name, each once, folders walked in the order of names.

    ``located`` says where a path is that is not where it says; ``root`` is in the same place.
    """
    files: dict[Path, SourceFile] = {}
    problems: list[str] = []
    remarks: list[str] = []
    excluded = GitIgnoreSpec.from_lines(exclude)
    for given in paths:
        path = (located or absolute)(Path(given))
        try:
            if path.is_dir():
                found = list(_walk(path, Path(given), excluded, root))
                if not found:
                    remarks.append(f"There are no Python files in {given} that are not ignored.")
            elif path.exists():
                found = [SourceFile(given, path, named=True)]
            else:
                problems.append(f"{given} does not exist; check the path.")
                continue
        except OSError as error:
            problems.append(f"Cannot read {given}: {error.strerror or error}.")
            continue
        for source in found:
            known = files.get(source.absolute)
            if known is None or (source.named and not known.named):
                files[source.absolute] = source
    return Sources(tuple(files.values()), tuple(problems), tuple(remarks))


def read(source: SourceFile) -> str:
    """The text of a file, decoded as Python would.

    Raises:
        Unreadable: it cannot be opened, or is not text.
    """
    try:
        state = source.absolute.stat()
        if not stat.S_ISREG(state.st_mode):
            # To read a pipe may never end, and a device gives more than there is memory.
            raise Unreadable(
                f"{source.path} is no regular file; pass its text to standard input, as `-`."
            )
        if state.st_size > MOST_BYTES:
            raise Unreadable(f"{source.path} is larger than {MOST_BYTES >> 20} MB; split it.")
        data = source.absolute.read_bytes()
    except OSError as error:
        raise Unreadable(f"Cannot read {source.path}: {error.strerror or error}.") from error
    text = decoded(data, source.path)
    if not source.path.endswith(notebooks.SUFFIX):
        return text
    try:
        return notebooks.python_of(text)
    except notebooks.NotANotebook as error:
        raise Unreadable(f"{source.path} is not a notebook of format 4: {error}.") from error


def decoded(data: bytes, path: str) -> str:
    """Bytes as text by their byte order mark, their coding comment, else as UTF-8."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(_undecodable(data, path, error)) from error
    except (SyntaxError, LookupError) as error:
        try:
            data.decode()
        except UnicodeDecodeError as undecodable:
            raise Unreadable(_undecodable(data, path, undecodable)) from error
        raise Unreadable(
            f"{path} declares an encoding that Python does not know: "
            "correct the coding comment in its first two lines."
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise Unreadable(f"{path} is not Python source: there is a null byte on line {line}.")
    return text


def _undecodable(data: bytes, path: str, error: UnicodeDecodeError) -> str:
    line = data.count(b"\n", 0, error.start) + 1
    byte = data[error.start] if error.start < len(data) else 0
    return (
        f"{path} is not {error.encoding.upper()} text (byte 0x{byte:02x} on line {line}): "
        "save it as UTF-8, or declare its encoding with a coding comment."
    )


def absolute(path: Path) -> Path:
    """A path from the root on, without ``..``."""
    # Links stay: modules are imported by the name under which they are found.
    return Path(os.path.abspath(path))  # noqa: PTH100 (pathlib has no absolute() that drops "..")


# -- folders ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ignore:
    """The patterns of one folder's .gitignore."""

    folder: Path
    spec: GitIgnoreSpec

    def decides(self, path: Path, *, folder: bool) -> bool | None:
        relative = path.relative_to(self.folder).as_posix() + ("/" if folder else "")
        return self.spec.check_file(relative).include


def _walk(top: Path, given: Path, excluded: GitIgnoreSpec, root: Path) -> Iterator[SourceFile]:
    exclude = _Ignore(root, excluded)

    def visit(folder: Path, shown: Path, ignores: tuple[_Ignore, ...]) -> Iterator[SourceFile]:
        ignores = (*ignores, *_ignores_of(folder))
        # A folder that may not be listed hides only itself.
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except PermissionError:
            return
        for entry in entries:
            path = folder / entry.name
            if entry.name.startswith("."):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if _ignored(path, is_folder, ignores) or (
                path.is_relative_to(root) and exclude.decides(path, folder=is_folder)
            ):
                continue
            if is_folder:
                if not _is_not_ours(path):
                    yield from visit(path, shown / entry.name, ignores)
            elif entry.name.endswith(".py") and entry.is_file():
                yield SourceFile(str(shown / entry.name), path, named=False)

    yield from visit(top, given, _above(top))


def _ignored(path: Path, is_folder: bool, ignores: tuple[_Ignore, ...]) -> bool:
    # The nearest .gitignore with an opinion decides, as in git.
    for ignore in reversed(ignores):
        decision = ignore.decides(path, folder=is_folder)
        if decision is not None:
            return decision
    return False


def _above(folder: Path) -> tuple[_Ignore, ...]:
    """The ignore files of the folders above, up to the repository that ``folder`` is in."""
    found: list[_Ignore] = []
    here = folder
    while not (here / ".git").exists():
        if here.parent == here:
            # Not in a repository: a .gitignore further up is none of ours.
            return ()
        here = here.parent
        found += _ignores_of(here)
    found += _ignore(here, ".git/info/exclude")
    return tuple(reversed(found))


def _is_not_ours(folder: Path) -> bool:
    """A folder of an environment, of what tools have made, or of code that was copied here."""
    if folder.name in _MADE and not (folder / "__init__.py").exists():
        return True
    return folder.name in _NEVER or (folder / "pyvenv.cfg").exists()


def _ignores_of(folder: Path) -> tuple[_Ignore, ...]:
    vendored = []
    for line in _lines(folder / ".gitattributes"):
        pattern, *attributes = line.split() or [""]
        if any(f in (name, f"{name}=true") for f in attributes for name in _VENDORED):
            # A pattern without a slash matches at any depth, here as in .gitignore.
            vendored.append(pattern)
    marked = (_Ignore(folder, GitIgnoreSpec.from_lines(vendored)),) if vendored else ()
    return (*marked, *_ignore(folder, ".gitignore"))


def _ignore(folder: Path, name: str) -> tuple[_Ignore, ...]:
    lines = _lines(folder / name)
    return (_Ignore(folder, GitIgnoreSpec.from_lines(lines)),) if lines else ()


def _lines(file: Path) -> list[str]:
    try:
        if not file.is_file():
            return []
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
