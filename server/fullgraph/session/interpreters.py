"""The Python of each folder, looked for once and kept."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from fullgraph.engines import Interpreter, InterpreterNotFound, find_interpreter

LOOK_AGAIN = 5.0
"""Seconds after which a torch that was nowhere is looked for again: it may have been installed."""


@dataclass(frozen=True)
class _Search:
    """The Python that was found, or why there is none; ``at`` is in seconds."""

    found: Interpreter | str
    at: float

    @property
    def holds(self) -> bool:
        return isinstance(self.found, Interpreter) or time.monotonic() - self.at <= LOOK_AGAIN


class Interpreters:
    """What was found stays until ``forget``.

    Otherwise half of a torch that is just being installed could be found while another one traces.
    """

    def __init__(self) -> None:
        self._searches: dict[tuple[Path, str], _Search] = {}

    def find(self, setting: str, root: Path, active: str, *, trusted: bool) -> Interpreter:
        """As ``find_interpreter``; ``active`` is the Python that the editor has active.

        Raises:
            InterpreterNotFound: there is none, or none is known yet and nothing is trusted.
        """
        if setting.strip():
            return find_interpreter(setting, root, os.environ)
        search = self._searches.get((root, active))
        if search is None or not search.holds:
            if not trusted:
                # To look for torch may execute a Python, which may be the workspace's.
                raise InterpreterNotFound("This workspace is not trusted.")
            search = _Search(_search_interpreter(root, active), time.monotonic())
            self._searches[root, active] = search
        if isinstance(search.found, str):
            raise InterpreterNotFound(search.found)
        return search.found

    def forget_all(self) -> None:
        """Look for all of them again."""
        self._searches.clear()


def _search_interpreter(root: Path, active: str) -> Interpreter | str:
    try:
        return find_interpreter("", root, os.environ, active=active)
    except InterpreterNotFound as error:
        return str(error)
