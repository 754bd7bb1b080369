"""Messages about repros: small scripts that show one finding with torch alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, Union

from .paths import TracePath
from .places import Range
from .runs import RunId

ReproStage = Literal["looking", "reducing", "verifying"]
"""Stage of a request: search for a program that shows the finding, reduce it, or verify it in a
fresh Python process.
"""

DATA = "data"
"""Folder next to a script with the contents of its tensors."""

Backend = Literal["", "eager", "aot_eager", "inductor"]
"""Backend that compiles the graphs; empty for a finding of the tracer alone."""


def data_name(content: bytes | memoryview) -> str:
    """Return the name of a data file, which depends only on its content."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


@dataclass(frozen=True)
class Wanted:
    """The finding to reproduce.

    Without a ``backend``, ``code`` and ``range`` identify a finding of ``target``. With one, they
    are ignored: the backend, which may be any that is registered after the file was executed,
    compiles the graphs of the target. The finding is then a failure of the backend or, with
    ``accuracy``, results further from double precision than rounding explains. ``only_floating``:
    only floating-point results are compared.
    """

    code: str
    range: Range
    target: str
    run: Union[RunId, None] = None
    message: str = ""
    real: bool = False
    """True if the finding occurred with real tensors; it is not searched for with fake ones."""
    backend: str = ""
    accuracy: bool = False
    only_floating: bool = False
    data: bool = False
    """True to keep the contents of tensors even if random ones show the same."""
    path: Union[TracePath, None] = None
    """Path on which the finding occurred."""
    changed: tuple[str, ...] = ()
    """Inputs that differ between the calls of a forecast."""


@dataclass(frozen=True)
class ReproProgress:
    """Event: the progress of a request.

    ``lines`` counts the code lines of the best program so far, 0 without one. ``tried`` counts the
    programs executed. ``seconds`` is the time since the request.
    """

    request: int
    stage: ReproStage
    lines: int
    tried: int
    seconds: float


@dataclass(frozen=True)
class ReproFound:
    """Event: a script that shows the finding; a later one of the same request replaces it.

    ``verified``: it exited with status 1 in a fresh Python process; ``output`` is its output there.
    ``lines`` counts its lines of code, without the header and blank lines. ``notes`` are remarks
    for the reader, for example on remaining imports, or that no smaller script was verified.
    ``data`` names the files that it loads, which are then in the folder of the request.
    """

    request: int
    script: str
    lines: int
    verified: bool = False
    notes: tuple[str, ...] = ()
    output: str = ""
    environment: str = ""
    data: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reproduced:
    """Last event of a ``Reproduce`` request.

    ``reason`` is a sentence with the next step that says why no script is verified; empty
    otherwise.
    """

    request: int
    seconds: float
    tried: int
    verified: bool
    reason: str = ""
    cancelled: bool = False
