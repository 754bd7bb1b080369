"""How often torch's own Python code uses a name: a measure to sort by."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_READ = (
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
"""Code that computes with tensors. Code about operators names each once and says nothing."""

_CHAIN = re.compile(r"(?:(?<![\w.])([A-Za-z_]\w*)|(?<=[)\]]))((?:\.[A-Za-z_]\w*)+)(\()?")
_MODULES = {"torch": "torch", "F": "torch.nn.functional", "nn": "torch.nn", "init": "torch.nn.init"}
_MOST = 12_000_000


def count(torch: Path) -> Counter[str]:
    """Uses by dotted path; of operators by ``aten::name``, of methods by ``torch.Tensor.name``.

    Whether the receiver of a method is a tensor cannot be seen, so all calls of a name count.
    """
    chains: Counter[tuple[str, str, str]] = Counter()
    left = _MOST
    for path in _files(torch):
        try:
            text = path.read_text("utf-8", errors="replace")
        except OSError:
            continue
        left -= len(text)
        if left < 0:
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


def _files(torch: Path) -> Iterator[Path]:
    for name in _READ:
        place = torch / name
        if place.suffix:
            yield place
        else:
            yield from sorted(place.rglob("*.py"))
