"""Count how often torch's own Python code uses each name, so that completions list common names
first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_SCANNED_PATHS = (
    "nn",
    "optim",
    "distributions",
    "_refs",
    "_decomp",
    "functional.py",
    "_tensor.py",
    "_lobpcg.py",
    "_linalg_utils.py",
    "_meta_registrations.py",
    "_inductor/decomposition.py",
    "_inductor/lowering.py",
    "nested/_internal/ops.py",
    "nested/_internal/sdpa.py",
    "utils/checkpoint.py",
)
"""Files and folders of torch with code that computes with tensors.

Files that only list operators are omitted: they name each operator once, however common it is.
"""

_CHAIN = re.compile(r"(?:(?<![\w.])([A-Za-z_]\w*)|(?<=[)\]]))((?:\.[A-Za-z_]\w*)+)(\()?")
_MODULES = {"torch": "torch", "F": "torch.nn.functional", "nn": "torch.nn", "init": "torch.nn.init"}
_MAX_CHARACTERS = 12_000_000
"""Maximum total number of characters to read from torch's files."""


def count_uses(torch: Path) -> Counter[str]:
    """Count the uses of each name in torch's Python code; ``torch`` is the folder of the package.

    Names are dotted paths; operators are counted as ``aten::name``. Every method call counts for
    ``torch.Tensor.name``, because the source does not show the type of the object.
    """
    chains: Counter[tuple[str, str, str]] = Counter()
    characters_left = _MAX_CHARACTERS
    for path in _python_files(torch):
        try:
            text = path.read_text("utf-8", errors="replace")
        except OSError:
            continue
        characters_left -= len(text)
        if characters_left < 0:
            break
        chains.update(_CHAIN.findall(text))
    found: Counter[str] = Counter()
    for (base, rest, called), times in chains.items():
        parts = rest[1:].split(".")
        if base == "torch" and parts[:2] == ["ops", "aten"] and len(parts) > 2:
            found[f"aten::{parts[2]}"] += times
        elif base == "aten":
            found[f"aten::{parts[0]}"] += times
        elif base in _MODULES:
            path_ = _MODULES[base]
            for part in parts:
                path_ += "." + part
                found[path_] += times
        elif called and not (base == "self" and len(parts) == 1):
            found[f"torch.Tensor.{parts[-1]}"] += times
    return found


def _python_files(torch: Path) -> Iterator[Path]:
    for name in _SCANNED_PATHS:
        place = torch / name
        if place.suffix:
            yield place
        else:
            yield from sorted(place.rglob("*.py"))
