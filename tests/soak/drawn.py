"""Files at random, as many of each kind: what makes one kind differ may be in no other."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path

KINDS = {
    "devices": r"cuda|triton|\.device\b",
    "loops": r"\n\s+(while|for) ",
    "data": r"\.item\(\)|\.tolist\(|\bprint\(|\.numpy\(|nonzero",
    "expressions over lines": r"\(\n(?:[^\n]*\n){3,12}\s*\)",
    "decorators": r"\n\s*@(?!staticmethod)",
    "structures": r"@dataclass|NamedTuple|\bEnum\b",
    "operators": r"autograd\.Function|custom_op|torch\.ops|torch\.library",
    "random numbers": r"torch\.rand|\brandom\.",
    "statements with blocks": r"\n\s+(try:|with |global |yield )",
    "configurations": r"\bconfig\b|\bcfg\b|\*\*kwargs",
}
LINES = range(15, 320)


def drawn(
    chance: random.Random, folders: Iterable[Path], count: int, usable: Callable[[str], object]
) -> list[Path]:
    """So many of the files below the folders, each once; fewer where there are no more."""
    texts = {
        file: text
        for folder in folders
        for file in sorted(folder.rglob("*.py"))
        if (text := file.read_text(errors="replace")).count("\n") in LINES
    }
    by_kind = []
    for pattern in KINDS.values():
        files = [file for file, text in texts.items() if re.search(pattern, text)]
        by_kind.append(chance.sample(files, len(files)))
    in_turns = itertools.chain.from_iterable(itertools.zip_longest(*by_kind))
    once = (file for file in dict.fromkeys(in_turns) if file is not None)
    return list(itertools.islice((file for file in once if usable(texts[file])), count))
