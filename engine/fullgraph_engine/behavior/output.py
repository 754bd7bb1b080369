"""What code prints, warns and logs, however it does so."""

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

_dup, _dup2, _open, _close = os.dup, os.dup2, os.open, os.close
_lseek, _read, _unlink = os.lseek, os.read, os.unlink
_MOST = 1 << 20


@dataclass
class Output:
    """Texts and records of one call."""

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
        except Exception as error:  # the arguments do not fit
            said = texts.described(error)
        self._found.append(f"{record.levelname} of {record.name}: {said}")


@contextlib.contextmanager
def captured() -> Iterator[Output]:
    """What is printed inside, also by C code; records of all levels that loggers let through."""
    output = Output()
    files = {}
    for descriptor in (1, 2):
        opened, name = tempfile.mkstemp()
        _unlink(name)
        files[descriptor] = (opened, _dup(descriptor))
    root, handler = logging.getLogger(), _Records(output.logs)
    level = root.level
    try:
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            _flush()
            for descriptor, (opened, _) in files.items():
                _dup2(opened, descriptor)
            root.addHandler(handler)
            root.setLevel(1)
            yield output
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
        _flush()
        said = {}
        for descriptor, (opened, before) in files.items():
            _dup2(before, descriptor)
            _lseek(opened, 0, os.SEEK_SET)
            said[descriptor] = _read(opened, _MOST).decode("utf-8", "replace")
            _close(opened)
            _close(before)
        output.stdout, output.stderr = said[1], said[2]
        output.warnings += [f"{one.category.__name__}: {one.message}" for one in noted]


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
