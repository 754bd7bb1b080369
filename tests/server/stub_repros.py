"""The stub's repros: a comment in the text says how each goes on.

``# repro: 143 12 verified`` finds a script of 143 lines, one of 12, and verifies that. ``wait``
goes on until it is cancelled, ``deaf`` until it is killed, ``die`` ends the engine; what comes
after ``data`` needs a file with that.
``none: REASON`` is all that there is to say. Without such a comment it is ``143 12 verified``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from fullgraph_engine import protocol as p
from fullgraph_engine.protocol.repro import data_name

STEPS = re.compile(r"#\s*repro: (.*)$", re.MULTILINE)


def script(lines: int) -> str:
    return "import torch\n" * lines


def reproduce(
    request: p.Reproduce,
    say: Callable[[p.Event], None],
    cancelled: Callable[[], bool],
    die: Callable[[], None],
    waits: Callable[[], None],
) -> None:
    number = request.request
    match = STEPS.search(request.analyze.text)
    written = match[1].strip() if match else "143 12 verified"
    reason = written.removeprefix("none: ") if written.startswith("none: ") else ""
    lines = tried = 0
    data: tuple[str, ...] = ()
    say(p.ReproProgress(number, "looking", 0, 0, 0.1))
    verified = False
    for step in () if reason else written.split():
        if step.isdigit():
            lines, tried = int(step), tried + 10
            say(p.ReproProgress(number, "reducing", lines, tried, tried / 10))
            say(p.ReproFound(number, script(lines), lines, data=data))
        elif step == "verified":
            verified = True
            found = p.ReproFound(
                number, script(lines), lines, True, ("A note.",), "it broke", "torch 2.13.0", data
            )
            say(found)
        elif step == "data":
            data = (data_name(b"numbers"),)
            Path(request.folder, *data).write_bytes(b"numbers")
        elif step == "die":
            die()
        elif step in ("wait", "deaf"):
            waits()
        while step in ("wait", "deaf") and not (step == "wait" and cancelled()):
            time.sleep(0.005)
    say(p.Reproduced(number, 4.1, tried, verified, reason, cancelled=cancelled()))
