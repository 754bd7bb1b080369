"""The loader function of a script, and the names of the files that it loads."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from ...protocol.repro import DATA

NAME = "stored"
"""Name of the loader function. Programs call it with a file name and the tensor to fill."""

_FILE = re.compile("[0-9a-f]{16}")

_MANY = 16
"""Minimum number of files for which the loader function prints its progress."""

_IMPORTS = ("import hashlib", "import pathlib", "import sys", "import warnings")

_TEXT = '''\
def stored(name, like):
    """`like`, with the contents of a file in the folder `DATA`; without that file as it is."""
PROGRESS    path = pathlib.Path(__file__).with_name("DATA") / name
    content = bytearray(path.read_bytes() if path.is_file() else b"")
    if hashlib.blake2b(content, digest_size=8).hexdigest() != name:
        warnings.warn("files of the folder `DATA` are missing or damaged: other data is used")
        return like
    known = torch.frombuffer(content, dtype=like.dtype)[: like.numel()]
    like.detach().copy_(known.view(like.shape))
    return like'''.replace("DATA", DATA)

_PROGRESS = """\
    stored.count = getattr(stored, "count", 0) + 1
    if sys.stderr.isatty():
        end = "\\n" if stored.count == TOTAL else ""
        print(f"\\rloading {stored.count} of TOTAL", end=end, file=sys.stderr)
"""


def needed_files(program: str) -> tuple[str, ...]:
    """Return the names of the data files that a program loads, without duplicates."""
    return tuple(dict.fromkeys(name for name, _ in _find_load_calls(program)))


def load_calls(program: str) -> frozenset[str]:
    """Return the source texts of the calls by which a program loads data files."""
    return frozenset(ast.unparse(call) for _, call in _find_load_calls(program))


def loader_imports(program: str) -> tuple[str, ...]:
    """Return the import statements that the loader function of a program needs."""
    return _IMPORTS if _find_load_calls(program) else ()


def loader_text(program: str) -> str:
    """Return the source text of the loader function, or "" if the program loads nothing."""
    total = len(_find_load_calls(program))
    progress = _PROGRESS.replace("TOTAL", str(total)) if total >= _MANY else ""
    return _TEXT.replace("PROGRESS", progress) if total else ""


def data_note(program: str, folder: Path) -> tuple[str, ...]:
    """Return a sentence that names the data files of a program, or () if it loads none.

    ``folder`` is the folder of the program.
    """
    names = needed_files(program)
    if not names:
        return ()
    paths = [folder / DATA / name for name in names]
    size = sum(path.stat().st_size for path in paths if path.is_file())
    others = len(names) - 1
    rest = (
        f" and {others} more {'file' if others == 1 else 'files'} of that folder" if others else ""
    )
    return (f"The script needs {DATA}/{names[0]}{rest}, next to the script ({_size_words(size)}).",)


def _size_words(size: int) -> str:
    if size < 1 << 10:
        return f"{size} bytes"
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{size / (1 << 10):.1f} KiB"


def _find_load_calls(program: str) -> list[tuple[str, ast.Call]]:
    if NAME not in program:
        return []
    found: list[tuple[str, ast.Call]] = []
    for node in ast.walk(ast.parse(program)):
        match node:
            case ast.Call(func=ast.Name(id=called), args=[ast.Constant(value=str(file)), _]):
                if called == NAME and _FILE.fullmatch(file):
                    found.append((file, node))
    return found
