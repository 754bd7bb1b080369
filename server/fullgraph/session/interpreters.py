"""Cached search for the Python interpreter of each folder."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from fullgraph.engines import Interpreter, InterpreterNotFound, find_interpreter

LOOK_AGAIN = 5.0
"""Seconds until a failed search is repeated, because torch may have been installed."""


@dataclass(frozen=True)
class _Search:
    """The result of a search for an interpreter: the interpreter or an error; ``at`` is the time of
    the search in seconds.
    """

    found: Interpreter | str
    at: float

    @property
    def holds(self) -> bool:
        return isinstance(self.found, Interpreter) or time.monotonic() - self.at <= LOOK_AGAIN


class Interpreters:
    """A cache of the interpreters found for settings and folders, until ``forget_all`` is called.

    Without the cache, the result could change during an installation of torch, although another
    interpreter already traces the files.
    """

    def __init__(self) -> None:
        self._searches: dict[tuple[Path, str], _Search] = {}

    def find(self, setting: str, root: Path, active: str, *, trusted: bool) -> Interpreter:
        """Return the interpreter that traces files in the folder ``root``, from the cache or by a
        search.

        ``setting`` is the configured interpreter, ``active`` the Python selected in the editor.
        Without ``trusted``, no interpreter inside the workspace is executed.

        Raises:
            InterpreterNotFound: No interpreter was found, or a search needs trust.
        """
        if setting.strip():
            return find_interpreter(setting, root, os.environ)
        search = self._searches.get((root, active))
        if search is None or not search.holds:
            if not trusted:
                # The search may execute a Python that belongs to the workspace.
                raise InterpreterNotFound("This workspace is not trusted.")
            search = _Search(_search_interpreter(root, active), time.monotonic())
            self._searches[root, active] = search
        if isinstance(search.found, str):
            raise InterpreterNotFound(search.found)
        return search.found

    def forget_all(self) -> None:
        """Clear the cache, so that interpreters are searched again."""
        self._searches.clear()


def _search_interpreter(root: Path, active: str) -> Interpreter | str:
    try:
        return find_interpreter("", root, os.environ, active=active)
    except InterpreterNotFound as error:
        return str(error)
