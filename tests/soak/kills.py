"""Kills or stops processes of an engine at random: every file is right again without an edit.

``python tests/soak/kills.py [rounds]`` prints how many rounds ended with every file right, and how
long that took after torch was back. Status 1 if one did not.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from load import TEXT
from window import Window

FILES = 6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rounds", nargs="?", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    failed, slowest = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        window = Window(Path(folder).resolve())
        uris = [window.open(f"net{n}.py", TEXT.format(number=n)) for n in range(FILES)]
        window.rest(300)
        texts = [TEXT.format(number=n) for n in range(FILES)]
        for number in range(options.rounds):
            at = chance.randrange(FILES)
            texts[at] = TEXT.format(number=at) + f"# {number}\n" + f"K{number} = {number}\n"
            # Findings of before would hide that the new text was not traced.
            window.replace(uris[at], texts[at].replace("print(y.sum())", "pass"))
            window.rest(60)
            window.replace(uris[at], texts[at])
            time.sleep(chance.uniform(0.0, 1.2))
            victim = _victim(window.process.pid, chance)
            which = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP))
            kind = f"{_level(window.process.pid, victim)} {_hit(victim, which)}"
            began = time.monotonic()
            rested = window.rest(120)
            _drain(window)
            seconds = time.monotonic() - max(began, window.ready_since)
            wrong = [uri for uri in uris if window.codes(uri) != ["graph-break/GB0059"]]
            slowest = max(slowest, seconds)
            failed += bool(wrong) or not rested
            if wrong or not rested or seconds > 5:
                found = {uri.rsplit("/", 1)[-1]: window.codes(uri) for uri in wrong}
                print(f"round {number}: {kind} {which.name}, {seconds:.1f} s, {rested=}: {found}")
        right = options.rounds - failed
        print(f"{right} of {options.rounds} rounds right, slowest {slowest:.1f} s")
        window.close()
    return 1 if failed else 0


def _drain(window: Window) -> None:
    for _ in window.until(0.3):
        pass


def _victim(server: int, chance: random.Random) -> int:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    levels, level = [], children.get(server, [])
    while level:
        levels.append(level)
        level = [below for pid in level for below in children.get(pid, [])]
    # As often the engine as what it has started.
    return chance.choice(chance.choice(levels)) if levels else 0


def _level(server: int, pid: int) -> str:
    """How many processes a process is below the server."""
    depth = 0
    while pid and pid != server:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return "?"
        depth += 1
    return f"level {depth}"


def _hit(pid: int, number: signal.Signals) -> str:
    if not pid:
        return "nothing"
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return "gone"
    return str(pid)


if __name__ == "__main__":
    sys.exit(main())
