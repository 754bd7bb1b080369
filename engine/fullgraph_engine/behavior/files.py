"""What was observed, in a file: user code may have written anything there, so it is checked.

A line for each case, and beside it the bytes of tensors that they name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Union

import torch

from ..protocol.behavior import CaseOutcome
from ..protocol.packing import packed, unpacked
from .coverage import Side
from .facts import Data, Fact, digest, raw_bytes, sampled

MOST_BYTES = 256 << 20
"""Of tensors, in one file."""
_MOST_LINES = 64 << 20


@dataclass(frozen=True)
class SeenCall:
    """One call of a case."""

    outcome: CaseOutcome
    facts: tuple[Fact, ...]
    own: bool = False
    """The exception was raised by a statement of the file."""


@dataclass(frozen=True)
class SeenCase:
    """What one case did; without calls: it has only begun. ``before`` are facts of the inputs and
    the module as they were given, ``inputs`` says in notation what these are."""

    number: int
    inputs: str
    before: tuple[Fact, ...] = ()
    calls: tuple[SeenCall, ...] = ()
    lines: tuple[int, ...] = ()
    sides: tuple[tuple[int, ...], ...] = ()
    """Lines and sides that were reached, of those that are wanted."""
    random: bool = False
    """Random numbers were drawn."""
    reason: str = ""
    """Why there is nothing more, as part of a sentence."""

    def reached_sides(self) -> set[Side]:
        return {Side(*one) for one in self.sides if len(one) == 4}


def _text_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.lines"


def _bytes_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.bytes"


class Writer:
    """Writes down cases as they are observed: those before a crash are there."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lines = _text_file(folder, name).open("wb")
        self._bytes = _bytes_file(folder, name).open("wb")
        self._at = 0

    def keep(self, tensor: torch.Tensor) -> Union[Data, None]:
        """Write the elements of a contiguous CPU tensor down."""
        kept, some = sampled(tensor)
        content = bytes(raw_bytes(kept)) if kept.nbytes else b""
        if self._at + len(content) > MOST_BYTES:
            content, some = b"", True
        self._bytes.write(content)
        start, self._at = self._at, self._at + len(content)
        name = str(tensor.dtype).removeprefix("torch.")
        return Data(name, tuple(tensor.shape), start, len(content), digest(tensor), some)

    def case(self, seen: SeenCase) -> None:
        self._bytes.flush()
        self._lines.write(packed(seen).encode("utf-8", "backslashreplace") + b"\n")
        self._lines.flush()

    def close(self) -> None:
        self._lines.close()
        self._bytes.close()


class Observed:
    """What one run has written down, as far as it is in order."""

    def __init__(self, folder: Path, name: str) -> None:
        self._bytes = _bytes_file(folder, name)
        self.begun: dict[int, SeenCase] = {}
        """All cases, by their numbers."""
        self.cases: dict[int, SeenCase] = {}
        """Those that came to an end."""
        try:
            with _text_file(folder, name).open("rb") as file:
                lines = file.read(_MOST_LINES).split(b"\n")
        except OSError:
            return
        for line in lines:
            try:
                seen: SeenCase = unpacked(SeenCase, line.decode("utf-8", "replace"))
            except (ValueError, AttributeError):
                continue
            self.begun[seen.number] = seen
            if seen.calls:
                self.cases[seen.number] = seen

    def tensor(self, data: Data) -> torch.Tensor | None:
        """The elements that were kept, flat if they are only some; None if they are not there."""
        dtype = getattr(torch, data.dtype, None)
        if not isinstance(dtype, torch.dtype) or data.length < 0 or data.start < 0:
            return None
        if not data.length:
            return torch.empty(data.shape, dtype=dtype) if 0 in data.shape else None
        try:
            with self._bytes.open("rb") as file:
                if data.start + data.length > os.fstat(file.fileno()).st_size:
                    return None
                file.seek(data.start)
                content = bytearray(file.read(data.length))
            made = torch.frombuffer(content, dtype=dtype)
            return made if data.sampled else made.reshape(data.shape)
        except (OSError, RuntimeError, ValueError, TypeError):
            return None
