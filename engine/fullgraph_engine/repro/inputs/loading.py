"""The part of a script that loads what its tensors contain."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from ...protocol.repro import DATA

NAME = "stored"
"""What programs call with the name of a file and the tensor that it is for."""

_FILE = re.compile("[0-9a-f]{16}")

_MANY = 16
"""From so many files on it shows how far it is."""

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


def needed(program: str) -> tuple[str, ...]:
    """The files that a program loads, each once."""
    return tuple(dict.fromkeys(name for name, _ in _loads(program)))


def loads(program: str) -> frozenset[str]:
    """The calls by which a program loads them."""
    return frozenset(ast.unparse(call) for _, call in _loads(program))


def imports(program: str) -> tuple[str, ...]:
    """What the loader of a program imports."""
    return _IMPORTS if _loads(program) else ()


def loader(program: str) -> str:
    """The function that a program loads its tensors with; empty if it loads none."""
    total = len(_loads(program))
    progress = _PROGRESS.replace("TOTAL", str(total)) if total >= _MANY else ""
    return _TEXT.replace("PROGRESS", progress) if total else ""


def note(program: str, folder: Path) -> tuple[str, ...]:
    """What a reader should know of what a program loads, in a sentence; nothing if it loads none.

    ``folder`` is the one that the program is in.
    """
    names = needed(program)
    if not names:
        return ()
    paths = [folder / DATA / name for name in names]
    size = sum(path.stat().st_size for path in paths if path.is_file())
    others = len(names) - 1
    rest = f" and {others} more {'file' if others == 1 else 'files'} there" if others else ""
    return (f"It needs {DATA}/{names[0]}{rest}, beside it ({_words(size)}).",)


def _words(size: int) -> str:
    if size < 1 << 10:
        return f"{size} bytes"
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{size / (1 << 10):.1f} KiB"


def _loads(program: str) -> list[tuple[str, ast.Call]]:
    if NAME not in program:
        return []
    found: list[tuple[str, ast.Call]] = []
    for node in ast.walk(ast.parse(program)):
        match node:
            case ast.Call(func=ast.Name(id=called), args=[ast.Constant(value=str(file)), _]):
                if called == NAME and _FILE.fullmatch(file):
                    found.append((file, node))
    return found
