"""Suppress output while user code runs only so that its calls can be observed."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def silence_output() -> Iterator[None]:
    """Suppress output, warnings and log messages in the ``with`` block."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            open(os.devnull, "w") as void,  # noqa: PTH123
            warnings.catch_warnings(),
            contextlib.redirect_stdout(void),
            contextlib.redirect_stderr(void),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
