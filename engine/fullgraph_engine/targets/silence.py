"""Suppress output while user code runs only so that its calls can be observed."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import warnings
from collections.abc import Iterator
from typing import TextIO


@contextlib.contextmanager
def silence_output() -> Iterator[None]:
    """Suppress output, warnings and log messages in the ``with`` block."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(_null_stream()),
            contextlib.redirect_stderr(_null_stream()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


@functools.cache
def _null_stream() -> TextIO:
    """Return a stream that discards text.

    It stays open, because handlers that ``logging.basicConfig`` creates in the block keep it.
    """
    return open(os.devnull, "w")  # noqa: PTH123
