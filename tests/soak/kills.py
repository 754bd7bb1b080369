"""Kills or stops processes of an engine at random: every file is right again without an edit.

``python tests/soak/kills.py [rounds]`` prints how many rounds ended with every file right, how many
of them within ``LIMIT`` seconds after torch was back, and the longest that it took. Status 1 if a
file was wrong, or late though an undisturbed trace just before took less than ``QUICK`` seconds.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import psutil
from load import TEXT
from window import Window

FILES = 6
RIGHT = ["graph-break/GB0059"]
LIMIT = 5.0
QUICK = 2.0
"""More is a machine that has too much else to do for the limit to mean anything."""
IMPORT = 4.0
"""Seconds, at least those that an engine takes from its start to the end of torch's import."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rounds", nargs="?", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=120.0, help="no more rounds after these")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    wrong_rounds, late_rounds, excused = 0, 0, 0
    slowest = 0.0
    kinds: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        window = Window(Path(folder).resolve())
        uris = [window.open(f"net{n}.py", TEXT.format(number=n)) for n in range(FILES)]
        window.rest(300)
        texts = [TEXT.format(number=n) for n in range(FILES)]
        until = time.monotonic() + 60 * options.minutes
        rounds = 0
        while rounds < options.rounds and time.monotonic() < until:
            number, rounds = rounds, rounds + 1
            at = chance.randrange(FILES)
            # In the target: of nothing else it would be traced again.
            texts[at] = TEXT.format(number=at).replace("print(", f"k = {number}; print(")
            # Findings of before would hide that the new text was not traced.
            window.replace(uris[at], texts[at].replace("print(y.sum())", "pass"))
            began = time.monotonic()
            window.rest(60)
            undisturbed = time.monotonic() - began
            window.replace(uris[at], texts[at])
            time.sleep(chance.uniform(0.0, 1.2))
            kind = _hit(window, chance)
            if chance.random() < 0.2:
                kind += f"; {_hit_during_import(window, chance)}"
            kinds[kind] += 1
            began = time.monotonic()
            rested = window.rest_with_torch(120)
            window.drain(0.1)
            seconds = time.monotonic() - max(began, window.ready_since)
            found = {uri.rsplit("/", 1)[-1]: window.codes(uri) for uri in uris}
            wrong = {name: codes for name, codes in found.items() if codes != RIGHT}
            slowest = max(slowest, seconds)
            if wrong or not rested:
                wrong_rounds += 1
            elif seconds > LIMIT:
                late_rounds += 1
                excused += undisturbed > QUICK
            if wrong or not rested or seconds > LIMIT:
                words = f"{kind}, {seconds:.1f} s ({undisturbed:.1f} s undisturbed)"
                print(f"round {number}: {words}, {rested=}: {wrong}", flush=True)
            for uri in uris:
                if window.codes(uri) != RIGHT:
                    # What follows is to say something of other rounds.
                    window.replace(uri, window.texts[uri][1] + "\n")
            if number % 50 == 49:
                print(f"{number + 1} rounds", flush=True)
        right = rounds - wrong_rounds
        print(
            f"{right} of {rounds} rounds right, {right - late_rounds} in {LIMIT:.0f} s, "
            f"{excused} later on a machine too busy to tell; slowest {slowest:.1f} s"
        )
        for kind, count in kinds.most_common():
            print(f"{count:5} {kind}")
        window.close()
    return 1 if wrong_rounds or late_rounds > excused else 0


def _hit_during_import(window: Window, chance: random.Random) -> str:
    """Kill the engine, and the one that is started in its place while it imports torch."""
    engine = window.engine()
    if engine is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            engine.kill()
    if not window.until_state("starting", 20):
        return "no engine was started"
    until = time.monotonic() + chance.uniform(0.0, IMPORT)
    while time.monotonic() < until and window.ready_since == float("inf"):
        window.drain(0.02)
    if window.ready_since != float("inf"):
        # A trace that the engine dies over for the second time is not made again.
        return "nothing during the import"
    return f"during the import: {_hit(window, chance)}"


def _hit(window: Window, chance: random.Random) -> str:
    """Kill or stop a process below the server; says how far below, and how."""
    levels = window.levels()
    if not levels:
        return "no process"
    # As often the engine as what it has started.
    depth = chance.randrange(len(levels))
    which = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP))
    try:
        chance.choice(levels[depth]).send_signal(which)
    except psutil.NoSuchProcess:
        return "ended by itself"
    return f"{which.name} at level {depth + 1}"


if __name__ == "__main__":
    sys.exit(main())
