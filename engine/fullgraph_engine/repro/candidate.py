"""Programs written from the user's code that may show a finding (candidates), and facts about the
finding.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ..protocol import from_plain, to_plain
from .inputs import needed_files
from .verify.check import ScriptCheck
from .verify.finding_signature import FindingSignature

CandidateOrigin = Literal["expression", "statement", "function", "target", "file", "graph"]


@dataclass(frozen=True)
class ReproCandidate:
    """A program that may show the finding (for example, a graph break); ``text`` is its source.

    ``origin`` is the part of the user's code that it was written from, such as one statement.
    ``notes`` are the reasons, if any, why the program is not self-contained.
    """

    text: str
    origin: CandidateOrigin
    notes: tuple[str, ...] = ()


def sort_candidates(
    candidates: Iterable[ReproCandidate], *, data: bool = False
) -> tuple[ReproCandidate, ...]:
    """Remove duplicate programs and sort the others from short to long.

    Programs whose line counts have equally many binary digits count as equally long. They keep
    their order, because the earlier ones execute less of the user's code. Programs that load data
    files come last, or first if ``data`` is true.
    """
    known: dict[str, ReproCandidate] = {}
    for candidate in candidates:
        known.setdefault(candidate.text, candidate)

    def size(candidate: ReproCandidate) -> tuple[bool, int]:
        return bool(needed_files(candidate.text)) != data, candidate.text.count("\n").bit_length()

    return tuple(sorted(known.values(), key=size))


@dataclass(frozen=True)
class Backend:
    """A compiler backend: its name, and the expression by which programs refer to it.

    With ``accuracy``, the problem to show is that the backend returns wrong numbers, not that it
    raises.
    """

    name: str
    spelled: str
    accuracy: bool


@dataclass(frozen=True)
class Candidates:
    """Programs that may show one finding, smallest first, and facts for the header of the script.

    ``own`` are names that the user's file defines. ``place`` is the location in the user's code at
    which the finding was reported. ``flaky`` says how often the finding appeared, and is empty if
    it appeared in every run. ``left_out`` has a message for each program that could not be written.
    With a ``backend``, each program is one graph that Dynamo captured.
    """

    programs: tuple[ReproCandidate, ...]
    signature: FindingSignature
    check: ScriptCheck
    own: tuple[str, ...]
    title: str
    explanation: str
    place: str
    href: str = ""
    flaky: str = ""
    left_out: tuple[str, ...] = ()
    times: int = 1
    """Minimum number of times that one run of a program must show the finding."""
    backend: Backend | None = None
    data: bool = False
    """True if reduced programs must load all data files that the original program loads."""

    def to_json(self) -> str:
        """Serialize the programs and facts as one line of JSON."""
        return json.dumps(to_plain(self))

    @classmethod
    def from_json(cls, text: str) -> Candidates:
        found: Candidates = from_plain(cls, json.loads(text))
        return found
