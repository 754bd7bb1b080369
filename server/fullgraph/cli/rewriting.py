"""Change files of the user completely or not at all, and keep their encoding and line endings."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import tempfile
import tokenize
from pathlib import Path

from fullgraph.cli import sources
from fullgraph.cli.sources import UnreadableFile


def rewrite_source(path: Path, name: str, before: str, after: str) -> None:
    """Replace the text ``before`` of a Python file by ``after``, in the encoding of the file.

    ``name`` is the path for messages. Bytes of unchanged text stay the same.

    Raises:
        UnreadableFile: Another program has changed the file, or its encoding has several spellings
            of one text.
        OSError: The file cannot be written.
    """
    data = path.read_bytes()
    if sources.decode_source(data, name) != before:
        raise UnreadableFile(f"{name} was changed while it was being fixed; run it again.")
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    if before.encode(encoding) != data:
        raise UnreadableFile(f"{name} cannot be written in {encoding}; save it as UTF-8 first.")
    replace_bytes(path.resolve(), after.encode(encoding))


def replace_bytes(path: Path, data: bytes) -> None:
    """Replace the contents of a file atomically, and keep its owner and permissions.

    Raises:
        PermissionError: The file is read-only.
    """
    before = path.stat()
    if not before.st_mode & stat.S_IWUSR:
        # Replacing a read-only file would succeed, because that only needs permission to write to
        # the folder.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    number, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            with contextlib.suppress(PermissionError):
                os.fchown(number, before.st_uid, before.st_gid)
            os.fchmod(number, stat.S_IMODE(before.st_mode))
            file.write(data)
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        os.unlink(temporary)  # noqa: PTH108
        raise
