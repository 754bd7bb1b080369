"""Edits two files as a user does, thousands of times: nothing that the server holds may grow.

``python tests/soak/edits.py [edits]`` prints what server and engine use after a tenth of the edits
and after all of them, with the same texts. Status 1 if anything has grown by more than ``SHARE``.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from window import ROOT, Window

FIXTURES = ROOT / "tests" / "fixtures"
FILES = (FIXTURES / "demo" / "tiny_gpt.py", FIXTURES / "bench" / "breaks.py")
SHARE = 0.10
WAITED = 0.1
"""Share of edits whose trace is waited for; others come while it goes on, or before it begins."""
SAVED = 0.1
FURTHEST = 12
"""Edits by which a text is away from the original before they are undone."""

Edit = Callable[[random.Random, str], str]


def insert(chance: random.Random, text: str) -> str:
    """A statement of the depth of the line above it."""
    lines = text.split("\n")
    row = chance.choice([n for n, line in enumerate(lines) if line.startswith("        ")])
    indent = lines[row][: len(lines[row]) - len(lines[row].lstrip())]
    statements = ('print("here")', "kept = None", f"number = {chance.random()}", "pass")
    statement = chance.choice(statements)
    return "\n".join([*lines[: row + 1], indent + statement, *lines[row + 1 :]])


def remove(chance: random.Random, text: str) -> str:
    lines = text.split("\n")
    row = chance.randrange(len(lines))
    return "\n".join([*lines[:row], *lines[row + 1 :]])


def comment(chance: random.Random, text: str) -> str:
    lines = text.split("\n")
    row = chance.randrange(len(lines))
    lines[row] = f"# {lines[row]}"
    return "\n".join(lines)


def type_in(chance: random.Random, text: str) -> str:
    """A character anywhere: most often a syntax error, or a name that does not exist."""
    at = chance.randrange(len(text))
    return text[:at] + chance.choice("(x:=1.'") + text[at:]


def break_off(chance: random.Random, text: str) -> str:
    """The rest of a line is not there yet."""
    at = chance.randrange(len(text))
    return text[:at] + text[text.find("\n", at) :]


def move(chance: random.Random, text: str) -> str:
    """Two definitions change places."""
    blocks = re.split(r"\n\n\n(?=\S)", text)
    if len(blocks) < 3:
        return insert(chance, text)
    one, other = chance.randrange(1, len(blocks)), chance.randrange(1, len(blocks))
    blocks[one], blocks[other] = blocks[other], blocks[one]
    return "\n\n\n".join(blocks)


EDITS: tuple[Edit, ...] = (insert, insert, insert, remove, comment, type_in, break_off, move)


class Typist:
    """One file in one window, and what was done to it."""

    def __init__(self, window: Window, path: Path) -> None:
        self.window = window
        self.uri = window.open(path.name, path.read_text())
        window.save(self.uri)
        self.undo: list[str] = []

    @property
    def text(self) -> str:
        return self.window.texts[self.uri][1]

    def edit(self, chance: random.Random) -> None:
        if self.undo and chance.random() < len(self.undo) / FURTHEST:
            for _ in range(chance.randint(1, len(self.undo))):
                text = self.undo.pop()
        else:
            self.undo.append(self.text)
            text = chance.choice(EDITS)(chance, self.text)
        self.window.edit(self.uri, text)
        if chance.random() < SAVED:
            self.window.save(self.uri)

    def restore(self) -> None:
        if self.undo:
            self.window.edit(self.uri, self.undo[0])
            self.undo.clear()
        self.window.save(self.uri)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("edits", nargs="?", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0, help="no more edits after these")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        window = Window(Path(folder).resolve())
        typists = [Typist(window, path) for path in FILES]
        window.settle()
        right = [window.codes(typist.uri) for typist in typists]
        uses = []
        for number in range(1, options.edits + 1):
            typist = chance.choice(typists)
            typist.edit(chance)
            if chance.random() < WAITED:
                window.rest(120)
            else:
                window.drain(0)
                time.sleep(chance.uniform(0.0, 0.5))
            over = time.monotonic() - began > 60 * options.minutes
            if number % (options.edits // 10) == 0 or over:
                for typist in typists:
                    typist.restore()
                uses.append(window.usage())
                took = time.monotonic() - began
                print(f"{number} edits, {took:.0f} s: {uses[-1]}", flush=True)
            if over:
                break
        found = [window.codes(typist.uri) for typist in typists]
        grown = uses[-1].grown(uses[0], SHARE)
        print(f"grown by more than {SHARE:.0%}: {', '.join(grown) or 'nothing'}")
        print(f"findings as at the beginning: {found == right}")
        if found != right:
            print(f"{found} in place of {right}")
        for message in dict.fromkeys(window.messages_shown):
            print("shown:", message)
        window.close()
    return 1 if grown or found != right else 0


if __name__ == "__main__":
    sys.exit(main())
