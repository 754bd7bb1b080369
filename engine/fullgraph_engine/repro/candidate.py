"""What a run of the user's code hands on to be made smaller: programs, and what they must show."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ..protocol import from_plain, to_plain
from .inputs import needed
from .verify.check import Check
from .verify.finding_signature import FindingSignature

CandidateOrigin = Literal["expression", "statement", "function", "target", "slice", "file", "graph"]


@dataclass(frozen=True)
class Candidate:
    """A program that may show the finding, and how much of the user's code it was written from.

    ``notes`` say what in it is not self-contained.
    """

    text: str
    origin: CandidateOrigin
    notes: tuple[str, ...] = ()


def in_order(candidates: Iterable[Candidate], *, data: bool = False) -> tuple[Candidate, ...]:
    """Each text once, from short to long; those that need data come after all others, or on wish
    before them. Of those about as long as each other the first stays so: it does less."""
    known: dict[str, Candidate] = {}
    for candidate in candidates:
        known.setdefault(candidate.text, candidate)

    def size(candidate: Candidate) -> tuple[bool, int]:
        return bool(needed(candidate.text)) != data, candidate.text.count("\n").bit_length()

    return tuple(sorted(known.values(), key=size))


@dataclass(frozen=True)
class Backend:
    """What compiles the graphs: its name, and how programs spell it.

    ``accuracy``: not that it fails is wanted, but that it gives other numbers.
    """

    name: str
    spelled: str
    accuracy: bool


@dataclass(frozen=True)
class Candidates:
    """Programs from small to large. ``own`` are names that the user's file gives to things.

    ``title`` and ``explanation`` describe the finding, ``place`` where it was found. ``flaky`` says
    how often it was there, if it was not always; ``left_out`` names programs that could not be
    written, and why. With a ``backend`` every program is one graph of the target.
    """

    programs: tuple[Candidate, ...]
    signature: FindingSignature
    check: Check
    own: tuple[str, ...]
    title: str
    explanation: str
    place: str
    href: str = ""
    flaky: str = ""
    left_out: tuple[str, ...] = ()
    times: int = 1
    """How often at least a program has to show it."""
    backend: Backend | None = None
    data: bool = False
    """What is smaller must load what the program loads that it is made of."""

    def packed(self) -> str:
        """As one line of JSON."""
        return json.dumps(to_plain(self))

    @classmethod
    def unpacked(cls, text: str) -> Candidates:
        found: Candidates = from_plain(cls, json.loads(text))
        return found
