"""Record where user code calls ``os._exit``, which leaves neither an exception nor a signal."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from . import blackbox, frames

_exit, _getframe = os._exit, sys._getframe


def record_exits(box: int) -> None:
    """Replace ``os._exit`` by a function that first writes the stack to the descriptor ``box``, so
    that the main process can report which line called it."""

    def leave(status: int = 0) -> NoReturn:
        try:
            blackbox.at_stack(box, frames.of_stack(_getframe(1)))
        finally:
            _exit(status)

    os._exit = leave


def restore_exit() -> None:
    """Restore the original ``os._exit`` before tracing, since Dynamo would trace into a
    replacement."""
    os._exit = _exit
