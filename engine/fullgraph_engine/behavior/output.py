"""Capture of everything that code prints, warns and logs."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from .. import texts

_dup, _dup2, _close, _unlink = os.dup, os.dup2, os.close, os.unlink
_lseek, _read, _truncate = os.lseek, os.read, os.ftruncate
_MAX_BYTES = 1 << 20


@dataclass
class Output:
    """Output of one call: texts, warnings and log records."""

    stdout: str = ""
    stderr: str = ""
    warnings: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)


class _Records(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__(1)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        try:
            said = record.getMessage()
        except Exception as error:  # the arguments do not fit the format
            said = texts.type_and_message(error)
        self._found.append(f"{record.levelname} of {record.name}: {said}")


class Capture:
    """A capture of a process's output.

    It includes the output of C code, and log records of every level that loggers let through.
    """

    def __init__(self) -> None:
        self._files = {descriptor: _unnamed() for descriptor in (1, 2)}
        # Set once: each change makes every logger look up its level again.
        logging.getLogger().setLevel(1)

    @contextlib.contextmanager
    def output(self) -> Iterator[Output]:
        """Capture the output of the block; the texts are complete after it."""
        output = Output()
        root, handler = logging.getLogger(), _Records(output.logs)
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            _flush()
            before = {descriptor: _dup(descriptor) for descriptor in self._files}
            root.addHandler(handler)
            try:
                for descriptor, opened in self._files.items():
                    _dup2(opened, descriptor)
                yield output
            finally:
                root.removeHandler(handler)
                _flush()
                for descriptor, kept in before.items():
                    _dup2(kept, descriptor)
                    _close(kept)
        output.stdout, output.stderr = (_taken(self._files[one]) for one in (1, 2))
        output.warnings += [f"{one.category.__name__}: {one.message}" for one in noted]


def _unnamed() -> int:
    descriptor, name = tempfile.mkstemp()
    _unlink(name)
    return descriptor


def _taken(descriptor: int) -> str:
    """Read a file and empty it."""
    _lseek(descriptor, 0, os.SEEK_SET)
    said = _read(descriptor, _MAX_BYTES)
    if said:
        _truncate(descriptor, 0)
        _lseek(descriptor, 0, os.SEEK_SET)
    return said.decode("utf-8", "replace")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
