"""Files with what test calls did: one text line per call, and a second file with tensor bytes.

The user's code runs in the process that writes the files and may corrupt them, so reading checks
them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Union

import torch

from ..protocol.behavior import CaseOutcome
from ..protocol.packing import pack, unpack
from .coverage import BranchSide
from .facts import CallFact, TensorData, raw_bytes, sample_elements, tensor_digest

MAX_BYTES = 256 << 20
"""Maximum number of bytes of tensors in one file."""
_MAX_LINE_BYTES = 64 << 20


@dataclass(frozen=True)
class ObservedCall:
    """The outcome of one call (returned or raised), and all values observed afterwards.

    The ``facts`` are its results, side effects and gradients.
    """

    outcome: CaseOutcome
    facts: tuple[CallFact, ...]
    own: bool = False
    """True if a ``raise`` statement in the user's file raised the exception."""


@dataclass(frozen=True)
class ObservedCase:
    """The outcome of one test call (case); without ``calls``, it has begun but not ended.

    ``before`` are the inputs and the module's state before the call. ``inputs`` describes the
    inputs as Python source.
    """

    number: int
    inputs: str
    before: tuple[CallFact, ...] = ()
    calls: tuple[ObservedCall, ...] = ()
    lines: tuple[int, ...] = ()
    sides: tuple[tuple[int, ...], ...] = ()
    """Branch sides that the calls took, each as the values of the fields of :class:`BranchSide`.

    Only the sides and ``lines`` (executed lines) that the comparison requires are stored.
    """
    random: bool = False
    """True if the call drew random numbers."""
    reason: str = ""
    """Reason why the call was not observed, as part of a sentence; empty if it was."""
    outside: bool = False
    """True if an argument has numbers outside of the range that the example call suggests."""

    def reached_sides(self) -> set[BranchSide]:
        return {BranchSide(*side) for side in self.sides if len(side) == 4}


def _lines_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.lines"


def _bytes_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.bytes"


class CaseWriter:
    """A writer that flushes each test call to the file at once, so that a crash does not lose
    it.
    """

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lines = _lines_path(folder, name).open("wb")
        self._bytes = _bytes_path(folder, name).open("wb")
        self._at = 0

    def store_tensor(self, tensor: torch.Tensor) -> Union[TensorData, None]:
        """Write the elements of a contiguous CPU tensor; return a reference to them."""
        stored, is_sampled = sample_elements(tensor)
        content = bytes(raw_bytes(stored)) if stored.nbytes else b""
        if self._at + len(content) > MAX_BYTES:
            content, is_sampled = b"", True
        self._bytes.write(content)
        start, self._at = self._at, self._at + len(content)
        name = str(tensor.dtype).removeprefix("torch.")
        return TensorData(
            name, tuple(tensor.shape), start, len(content), tensor_digest(tensor), is_sampled
        )

    def write_case(self, seen: ObservedCase) -> None:
        self._bytes.flush()
        self._lines.write(pack(seen).encode("utf-8", "backslashreplace") + b"\n")
        self._lines.flush()

    def close(self) -> None:
        self._lines.close()
        self._bytes.close()


class ObservedRun:
    """The valid observations in the files that one run has written."""

    def __init__(self, folder: Path, name: str) -> None:
        self._bytes = _bytes_path(folder, name)
        self.begun: dict[int, ObservedCase] = {}
        """All test calls that began, by number."""
        self.cases: dict[int, ObservedCase] = {}
        """Test calls that finished, by number."""
        try:
            with _lines_path(folder, name).open("rb") as file:
                lines = file.read(_MAX_LINE_BYTES).split(b"\n")
        except OSError:
            return
        for line in lines:
            try:
                seen: ObservedCase = unpack(ObservedCase, line.decode("utf-8", "replace"))
            except (ValueError, AttributeError):
                continue
            self.begun[seen.number] = seen
            if seen.calls:
                self.cases[seen.number] = seen

    def read_tensor(self, data: TensorData) -> torch.Tensor | None:
        """Return the stored elements of a tensor; None if they are missing or invalid.

        They are one-dimensional if only a sample of the elements was stored.
        """
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
