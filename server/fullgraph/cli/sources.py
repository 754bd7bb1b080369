"""Find the files to check, and read them."""

from __future__ import annotations

import io
import os
import stat
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fullgraph.domain import notebooks

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

STANDARD_INPUT = "-"

_NEVER = {"node_modules", "__pycache__", "site-packages", "__pypackages__", "third_party"}

_GENERATED = {"build", "_build", "dist", "vendor", "_vendor", "vendored", "buck-out"}
"""Names of folders with generated or copied code, which are skipped unless they contain
``__init__.py``."""

_VENDORED = ("linguist-vendored", "linguist-generated")
"""Git attributes of generated and copied files, which GitHub uses too."""

MOST_BYTES = 32 << 20
"""Maximum size in bytes of a source file."""


@dataclass(frozen=True)
class SourceFile:
    """A file to check.

    ``path`` is for display. It is the path that the user wrote; for a file in a folder, the folder
    as the user wrote it, followed by the path inside the folder.
    """

    path: str
    absolute: Path
    named: bool
    """True if the user named this file itself and not a folder; such a file is always traced."""
    targets: tuple[str, ...] = ()
    """Names of the functions and classes to trace; empty for all."""


@dataclass(frozen=True)
class FoundSources:
    """The result of searching the command line's paths for files to check."""

    files: tuple[SourceFile, ...]
    problems: tuple[str, ...]
    """Sentences about paths that do not exist or cannot be read."""
    remarks: tuple[str, ...]
    """Sentences about folders without Python files."""


class UnreadableFile(Exception):
    """Raised if a file cannot be read, decoded or written; the message says why and what to do."""


def find_sources(
    paths: Sequence[str],
    exclude: Sequence[str],
    root: Path,
    locate: Callable[[Path], Path] | None = None,
) -> FoundSources:
    """Find the Python files that ``paths`` name or contain, each file once, in the order of names.

    ``exclude`` are patterns relative to the folder ``root``. ``locate`` converts a path to the path
    to read, for example in a checked-out revision; by default, it makes the path absolute.
    """
    files: dict[Path, SourceFile] = {}
    problems: list[str] = []
    remarks: list[str] = []
    for path_text in paths:
        path = (locate or absolute_path)(Path(path_text))
        try:
            if path.is_dir():
                found = list(_walk_folder(path, Path(path_text), exclude, root))
                if not found:
                    remarks.append(
                        f"There are no Python files in {path_text} that are not ignored."
                    )
            elif path.exists():
                found = [SourceFile(path_text, path, named=True)]
            else:
                problems.append(f"{path_text} does not exist; check the path.")
                continue
        except OSError as error:
            problems.append(f"Cannot read {path_text}: {error.strerror or error}.")
            continue
        for source in found:
            known = files.get(source.absolute)
            if known is None or (source.named and not known.named):
                files[source.absolute] = source
    return FoundSources(tuple(files.values()), tuple(problems), tuple(remarks))


def split_targets(paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Split arguments ``FILE::TARGET``; return the targets to trace, by file.

    If an argument names a file without a target, the whole file is traced.
    """
    targets: dict[str, tuple[str, ...]] = {}
    whole: set[str] = set()
    for path in paths:
        file, separator, target = path.rpartition("::")
        if not separator or Path(path).exists():
            file, target = path, ""
            whole.add(file)
        targets[file] = (*targets.get(file, ()), target)
    return {
        file: () if file in whole else tuple(dict.fromkeys(names))
        for file, names in targets.items()
    }


def read_source(source: SourceFile) -> str:
    """Read a Python file or notebook, decoded as Python would; notebooks are converted to Python.

    Raises:
        UnreadableFile: The file cannot be read, is too large, or is not text.
    """
    try:
        state = source.absolute.stat()
        if not stat.S_ISREG(state.st_mode):
            # Reading a pipe may never end, and a device may have more data than fits into memory.
            raise UnreadableFile(
                f"{source.path} is not a regular file; pass its text to standard input, with the "
                "path `-`."
            )
        if state.st_size > MOST_BYTES:
            raise UnreadableFile(f"{source.path} is larger than {MOST_BYTES >> 20} MB; split it.")
        data = source.absolute.read_bytes()
    except OSError as error:
        raise UnreadableFile(f"Cannot read {source.path}: {error.strerror or error}.") from error
    text = decode_source(data, source.path)
    if not source.path.endswith(notebooks.SUFFIX):
        return text
    try:
        return notebooks.notebook_to_python(text)
    except notebooks.NotANotebook as error:
        raise UnreadableFile(f"{source.path} is not a notebook of format 4: {error}.") from error


def decode_source(data: bytes, path: str) -> str:
    """Decode Python source by its byte order mark or coding comment, otherwise as UTF-8.

    ``path`` names the file in error messages.

    Raises:
        UnreadableFile: The bytes are not text in that encoding.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableFile(_decoding_error(data, path, error)) from error
    except (SyntaxError, LookupError) as error:
        try:
            data.decode()
        except UnicodeDecodeError as undecodable:
            raise UnreadableFile(_decoding_error(data, path, undecodable)) from error
        raise UnreadableFile(
            f"{path} declares an encoding that Python does not know: "
            "correct the coding comment in its first two lines."
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UnreadableFile(f"{path} is not Python source: there is a null byte on line {line}.")
    return text


def _decoding_error(data: bytes, path: str, error: UnicodeDecodeError) -> str:
    line = data.count(b"\n", 0, error.start) + 1
    byte = data[error.start] if error.start < len(data) else 0
    return (
        f"{path} is not {error.encoding.upper()} text (byte 0x{byte:02x} on line {line}): "
        "save it as UTF-8, or declare its encoding with a coding comment."
    )


def absolute_path(path: Path) -> Path:
    """Make a path absolute and remove ``..``, without following symbolic links."""
    # Python imports modules by the path with symbolic links.
    return Path(os.path.abspath(path))  # noqa: PTH100 (pathlib has no absolute() that drops "..")


def matches_patterns(path: Path, patterns: Sequence[str], root: Path) -> bool:
    """Whether ``path``, or a folder above it, matches one of the .gitignore ``patterns``, which are
    relative to the folder ``root``.
    """
    if not patterns or not path.is_relative_to(root):
        return False
    return bool(_IgnorePatterns.parse(root, patterns).decides(path, folder=False))


# -- folders ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _IgnorePatterns:
    """The ignore patterns (as in ``.gitignore``) of one file, and the folder that they apply to."""

    folder: Path
    spec: GitIgnoreSpec

    @classmethod
    def parse(cls, folder: Path, lines: Sequence[str]) -> _IgnorePatterns:
        # Import ``pathspec`` here: a check of files, without folders, does not need it.
        from pathspec import GitIgnoreSpec

        return cls(folder, GitIgnoreSpec.from_lines(lines))

    def decides(self, path: Path, *, folder: bool) -> bool | None:
        """Whether the patterns ignore a path; None if no pattern matches it.

        ``folder`` says whether the path is a folder.
        """
        relative = path.relative_to(self.folder).as_posix() + ("/" if folder else "")
        return self.spec.check_file(relative).include


def _walk_folder(
    top: Path, shown_folder: Path, exclude: Sequence[str], root: Path
) -> Iterator[SourceFile]:
    excluded = _IgnorePatterns.parse(root, exclude)

    def visit(
        folder: Path, shown: Path, ignores: tuple[_IgnorePatterns, ...]
    ) -> Iterator[SourceFile]:
        ignores = (*ignores, *_folder_patterns(folder))
        # If a folder cannot be read, leave out its files and continue with other folders.
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except PermissionError:
            return
        for entry in entries:
            path = folder / entry.name
            if entry.name.startswith("."):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if _is_ignored(path, is_folder, ignores) or (
                path.is_relative_to(root) and excluded.decides(path, folder=is_folder)
            ):
                continue
            if is_folder:
                if not _is_foreign(path):
                    yield from visit(path, shown / entry.name, ignores)
            elif entry.name.endswith(".py") and entry.is_file():
                yield SourceFile(str(shown / entry.name), path, named=False)

    yield from visit(top, shown_folder, _parent_patterns(top))


def _is_ignored(path: Path, is_folder: bool, ignores: tuple[_IgnorePatterns, ...]) -> bool:
    # The nearest ignore file with a decision wins, as in git.
    for ignore in reversed(ignores):
        decision = ignore.decides(path, folder=is_folder)
        if decision is not None:
            return decision
    return False


def _parent_patterns(folder: Path) -> tuple[_IgnorePatterns, ...]:
    """Return the ignore patterns of the folders above ``folder``, up to the root of the git
    repository."""
    found: list[_IgnorePatterns] = []
    parent = folder
    while not (parent / ".git").exists():
        if parent.parent == parent:
            # Outside of a repository, ignore files of parent folders do not apply.
            return ()
        parent = parent.parent
        found += _folder_patterns(parent)
    found += _read_patterns(parent, ".git/info/exclude")
    return tuple(reversed(found))


def _is_foreign(folder: Path) -> bool:
    """Whether a folder is a virtual environment, or its name says that its code is generated or
    copied from elsewhere."""
    if folder.name in _GENERATED and not (folder / "__init__.py").exists():
        return True
    return folder.name in _NEVER or (folder / "pyvenv.cfg").exists()


def _folder_patterns(folder: Path) -> tuple[_IgnorePatterns, ...]:
    vendored = []
    for line in _read_lines(folder / ".gitattributes"):
        pattern, *attributes = line.split() or [""]
        if any(f in (name, f"{name}=true") for f in attributes for name in _VENDORED):
            # A pattern without a slash matches at any depth, as in .gitignore.
            vendored.append(pattern)
    marked = (_IgnorePatterns.parse(folder, vendored),) if vendored else ()
    return (*marked, *_read_patterns(folder, ".gitignore"))


def _read_patterns(folder: Path, name: str) -> tuple[_IgnorePatterns, ...]:
    lines = _read_lines(folder / name)
    return (_IgnorePatterns.parse(folder, lines),) if lines else ()


def _read_lines(file: Path) -> list[str]:
    try:
        if not file.is_file():
            return []
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
