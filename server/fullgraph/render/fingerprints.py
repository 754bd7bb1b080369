"""Hashes that identify a finding in later checks, even if its line number changes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from fullgraph.domain.findings import FileFinding
from fullgraph.render.checked import CheckedFile

_BLOCK = 100
"""Number of characters that the hash of a line covers."""
_FACTOR = 37
_MODULUS = 1 << 64
_END = 0xFFFF
"""Number that stands for the end of the file."""


def stable_fingerprint(file: CheckedFile, item: FileFinding) -> str:
    """Return a hash of the code, message and source line of a finding, as 32 hexadecimal digits."""
    finding = item.finding
    line = file.text.line(finding.range.start.line).strip()
    parts = (finding.code, finding.message, line)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


def number_repeated(fingerprints: Iterable[str]) -> Iterator[str]:
    """Yield the fingerprints; append ``-2``, ``-3`` and so on to repeated ones."""
    seen: Counter[str] = Counter()
    for fingerprint in fingerprints:
        seen[fingerprint] += 1
        count = seen[fingerprint]
        yield fingerprint if count == 1 else f"{fingerprint}-{count}"


def line_hashes(text: str) -> Mapping[int, str]:
    """Return the ``primaryLocationLineHash`` of each line (from 0) of a text.

    GitHub matches findings of code scanning by this hash of the first 100 characters from the start
    of the line on, without spaces and tabs. A number after the colon counts lines with the same
    hash. The algorithm comes from ``fingerprints.ts`` in github/codeql-action.
    """
    characters, starts = _without_spaces(text)
    drop = pow(_FACTOR, _BLOCK, _MODULUS)
    padded = [0] * _BLOCK + characters + [0] * _BLOCK
    hashes: dict[int, str] = {}
    seen: Counter[int] = Counter()
    value = 0
    for index in range(len(characters) + _BLOCK):
        entering, leaving = padded[index + _BLOCK], padded[index]
        value = (value * _FACTOR + entering - drop * leaving) % _MODULUS
        line = starts.get(index + 1 - _BLOCK)
        if line is not None:
            seen[value] += 1
            hashes[line] = f"{value:x}:{seen[value]}"
    return hashes


def _without_spaces(text: str) -> tuple[list[int], Mapping[int, int]]:
    """Return the character codes of a text without spaces and tabs, followed by the code for its
    end, and the lines (from 0) by the index of their first character."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    characters: list[int] = []
    starts: dict[int, int] = {}
    for number, line in enumerate(lines):
        starts[len(characters)] = number
        characters += _utf16_units(line.replace(" ", "").replace("\t", ""))
        characters.append(ord("\n") if number < len(lines) - 1 else _END)
    return characters, starts


def _utf16_units(text: str) -> list[int]:
    data = text.encode("utf-16-le", "surrogatepass")
    return [data[index] | data[index + 1] << 8 for index in range(0, len(data), 2)]
