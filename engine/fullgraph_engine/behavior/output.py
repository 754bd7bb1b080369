"""Capture of everything that code prints, warns, logs and changes in the file system."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType

from .. import texts

_dup, _dup2, _close, _unlink = os.dup, os.dup2, os.close, os.unlink
_lseek, _read, _truncate = os.lseek, os.read, os.ftruncate
_MAX_BYTES = 1 << 20
_FILE_EVENTS = ("open", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate")
"""Audit events of Python that name a file as their first argument."""
_COMPILERS = ("torch._inductor", "torch._dynamo", "torch._functorch", "triton")
"""Packages whose files belong to the compilation, not to the user's code."""


@dataclass
class CapturedOutput:
    """Output of one call: printed text, warnings, log records, and changes of files."""

    stdout: str = ""
    stderr: str = ""
    warnings: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


class _RecordHandler(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__(1)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception as error:  # the arguments do not fit the format
            message = texts.type_and_message(error)
        self._found.append(f"{record.levelname} of {record.name}: {message}")


class OutputCapture:
    """A context that captures a process's output, warnings and logs.

    It includes the output of C code, log records of every level that loggers let through, and files
    that Python code opens for writing, moves or removes.
    """

    def __init__(self) -> None:
        self._changed_files: list[str] | None = None
        """Changes of files during the active capture; None if no capture is active."""
        sys.addaudithook(self._note_file)
        self._files = {descriptor: _open_unnamed_file() for descriptor in (1, 2)}
        # Set the level only once, because each change makes every logger look up its level again.
        logging.getLogger().setLevel(1)

    @contextlib.contextmanager
    def capture(self) -> Iterator[CapturedOutput]:
        """Capture the output of the ``with`` block; the yielded object is complete when the block
        ends.
        """
        output = CapturedOutput()
        root, handler = logging.getLogger(), _RecordHandler(output.logs)
        with warnings.catch_warnings(record=True) as recorded:
            warnings.simplefilter("always")
            _flush_streams()
            before = {descriptor: _dup(descriptor) for descriptor in self._files}
            root.addHandler(handler)
            try:
                for descriptor, opened in self._files.items():
                    _dup2(opened, descriptor)
                self._changed_files = output.files
                yield output
            finally:
                self._changed_files = None
                root.removeHandler(handler)
                _flush_streams()
                for descriptor, saved in before.items():
                    _dup2(saved, descriptor)
                    _close(saved)
        output.stdout, output.stderr = (_read_and_empty(self._files[warning]) for warning in (1, 2))
        output.warnings += [
            f"{warning.category.__name__}: {warning.message}" for warning in recorded
        ]

    def _note_file(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._changed_files is None or event not in _FILE_EVENTS:
            return
        path, *more = arguments
        if (event == "open" and not _opens_for_writing(*more)) or not isinstance(
            path, (str, bytes)
        ):
            return
        name = os.fsdecode(path)
        if "__pycache__" not in name and not _is_compiling(sys._getframe(1)):
            # Each run has its own folder for temporary files.
            words = name.replace(tempfile.gettempdir(), "the temporary folder")
            self._changed_files.append(f"{event} {words}")


def _is_compiling(frame: FrameType | None) -> bool:
    """Whether a compiler called the function of the standard library that runs in ``frame``.

    Operators such as ``scan`` compile their functions in eager mode, too.
    """
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in sys.stdlib_module_names:
            return module.startswith(_COMPILERS)
        frame = frame.f_back
    return False


def _opens_for_writing(mode: object, flags: object) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _open_unnamed_file() -> int:
    descriptor, name = tempfile.mkstemp()
    _unlink(name)
    return descriptor


def _read_and_empty(descriptor: int) -> str:
    """Return the text of the file with this descriptor, and empty the file."""
    _lseek(descriptor, 0, os.SEEK_SET)
    content = _read(descriptor, _MAX_BYTES)
    if content:
        _truncate(descriptor, 0)
        _lseek(descriptor, 0, os.SEEK_SET)
    return content.decode("utf-8", "replace")


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
