"""A server as an editor drives it, a good file that stays open, and hostile ones beside it."""

from __future__ import annotations

import os
import shlex
import stat
import sys
import time
from dataclasses import dataclass
from typing import Any, Literal

from tests.soak.hostile.case import NET_BREAK, Case
from tests.soak.hostile.surroundings import Surroundings
from tests.soak.window import Window

GOOD = """\
import torch
from torch import nn


class Good(nn.Module):
    def forward(self, x: "f32[2, 3]"):
        y = x * 2
        {statement}
        return y + 1
"""
# In turn: findings of before would hide that the new text was not traced.
STATEMENTS = (("torch._dynamo.graph_break()", NET_BREAK), ("print(y.sum())", "graph-break/GB0059"))
SECONDS, MEMORY = 3.0, 512
LONGER = {"memory": 20.0}
"""Seconds for categories of which the time must not be the first limit that is reached."""
PATIENCE = 90.0
_NOT_TOLD = {"trace/untraced"}

Verdict = Literal["contained", "not contained", "misleading"]


@dataclass(frozen=True)
class Outcome:
    """Of one hostile file. ``detail`` is what got out, or what was told instead."""

    category: str
    case: Case
    verdict: Verdict
    detail: str
    told: list[tuple[str, str]]
    """The findings of the hostile file: codes and messages."""
    seconds: float
    """Until the hostile file was at rest."""
    good_seconds: float
    """The same for the good file, edited after it."""


class Editor:
    """One server. ``without``: layers that its engines leave out of the sandbox; then the good file
    is not edited after each hostile one."""

    def __init__(
        self, surroundings: Surroundings, without: tuple[str, ...] = (), seconds: float = SECONDS
    ) -> None:
        self._around, self._without = surroundings, without
        self._beginning = surroundings.beginning()
        before = dict(os.environ)
        os.environ.update(surroundings.environment())
        try:
            self.window = Window(
                surroundings.project,
                interpreter=_interpreter(surroundings, without),
                timeout=seconds,
                memoryLimit=MEMORY,
                forecast=False,
                tryPaths=False,
                tryDynamic=False,
            )
        finally:
            os.environ.clear()
            os.environ.update(before)
        self._edits = 0
        self._good = self._opened("good.py", GOOD.format(statement=STATEMENTS[0][0]))
        self.window.rest(300)
        if wrong := self._wrong_in_good():
            raise RuntimeError(f"the good file is wrong before anything has happened: {wrong}")
        self.first_seconds = self._edit_good()
        # A process that has executed the imports of the hostile files may stay as well.
        self._at_rest = len(surroundings.marked()) + 1
        surroundings.changes()

    def close(self) -> str:
        """What is left of the server; empty if nothing is."""
        self.window.close()
        for _ in range(200):
            left = self._around.marked()
            if not left:
                return ""
            time.sleep(0.05)
        return f"processes {sorted(left)} have outlived the server"

    def run(self, category: str, case: Case) -> Outcome:
        """Open one hostile file, look at everything, and close it."""
        self.window.messages_shown.clear()
        started = len(self.window.states)
        began = time.monotonic()
        uri = self._opened("hostile.py", case.source(self._beginning))
        rested = self.window.rest(PATIENCE)
        seconds = time.monotonic() - began
        told = self._told(uri)
        escaped = [] if rested else ["the file did not come to rest"]
        escaped += [words for code, words in told if "LEAK" in words]
        good_seconds = 0.0 if self._without else self._edit_good()
        if wrong := self._wrong_in_good():
            escaped.append(f"the good file {wrong}")
        self.window.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        escaped += self._around.changes()
        if "starting" in self.window.states[started:]:
            escaped.append("the engine was started again")
        if left := self._left():
            escaped.append(left)
        verdict: Verdict = "not contained" if escaped else "contained"
        detail = "; ".join(escaped)
        if not escaped and (detail := _misleads(case, told)):
            verdict = "misleading"
        return Outcome(category, case, verdict, detail, told, seconds, good_seconds)

    # -- what a user does and sees ------------------------------------------------------------

    def _opened(self, name: str, text: str) -> str:
        path = self._around.project / name
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        self._around.begin()
        return self.window.open(name, text)

    def _told(self, uri: str) -> list[tuple[str, str]]:
        for _ in self.window.until(0.1):  # what was published last
            pass
        found: list[dict[str, Any]] = self.window.diagnostics.get(uri, [])
        return sorted((one["code"], one["message"]) for one in found)

    def _edit_good(self) -> float:
        self._edits += 1
        statement = STATEMENTS[self._edits % 2][0]
        began = time.monotonic()
        self.window.replace(self._good, GOOD.format(statement=statement))
        self.window.rest(PATIENCE)
        return time.monotonic() - began

    def _wrong_in_good(self) -> str:
        wanted = STATEMENTS[self._edits % 2][1]
        for _ in self.window.until(0.05):
            pass
        found = self.window.codes(self._good)
        return "" if found == [wanted] else f"has {found} in place of {wanted}"

    def _left(self) -> str:
        """Processes beyond those that there were at rest, once the hostile file is closed."""
        for _ in range(200):
            left = self._around.marked()
            if len(left) <= self._at_rest:
                return ""
            for _ in self.window.until(0.05):
                pass
        before, self._at_rest = self._at_rest, len(left)
        return f"{len(left)} processes in place of {before} are left: {sorted(left)}"


def _misleads(case: Case, told: list[tuple[str, str]]) -> str:
    expected = case.expected
    trace = [(code, words) for code, words in told if code.startswith(("trace/", "probe/"))]
    codes = {code for code, _ in trace} - _NOT_TOLD
    if codes != expected.codes:
        return f"expected {sorted(expected.codes)}, told {trace}"
    if expected.words and not any(expected.words in words for _, words in trace):
        return f"expected {expected.words!r}, told {trace}"
    if case.breaks and NET_BREAK not in [code for code, _ in told]:
        return f"the graph break of the file was not found, but {told}"
    return ""


def _interpreter(surroundings: Surroundings, without: tuple[str, ...]) -> str:
    """An interpreter that starts engines without these layers."""
    if not without:
        return sys.executable
    path = surroundings.folder / "python"
    python, names = shlex.quote(sys.executable), shlex.quote(",".join(without))
    path.write_text(
        "#!/bin/sh\n"
        f'case "$1" in *boot.py) exec {python} "$@" --without {names};; esac\n'
        f'exec {python} "$@"\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)
