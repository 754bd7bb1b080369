"""Messages about repros: small scripts that show one finding with torch alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, Union

from .paths import TracePath
from .places import Range
from .runs import RunId

ReproStage = Literal["looking", "reducing", "verifying"]
"""Stage of a ``Reproduce`` request: search for a program that shows the finding, reduce it, or
verify it in a fresh Python process."""

DATA = "data"
"""Name of the folder next to a repro script that holds the contents of its tensors."""

Backend = Literal["", "eager", "aot_eager", "inductor"]
"""Backend that compiles the graphs of the script; empty for a finding that occurs while Dynamo
traces."""


def data_name(content: bytes | memoryview) -> str:
    """Return the name of a file with the contents of a tensor; the name depends only on the
    contents."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


@dataclass(frozen=True)
class Wanted:
    """The finding that a repro script (a small script with torch alone) must show.

    Without a ``backend``, ``code`` and ``range`` identify a finding of ``target``. With a backend,
    both are ignored, and the finding is a failure of this backend on the graphs of the target. With
    a backend and ``accuracy``, the finding is a wrong result: it differs from double precision by
    more than rounding. ``only_floating``: compare only floating-point results.
    """

    code: str
    range: Range
    target: str
    run: Union[RunId, None] = None
    message: str = ""
    real: bool = False
    """True if the finding occurred with real tensors, so that fake tensors need not be tried."""
    backend: str = ""
    accuracy: bool = False
    only_floating: bool = False
    data: bool = False
    """True to keep the recorded contents of tensors in the script, even if random contents show the
    finding too."""
    path: Union[TracePath, None] = None
    """Execution path on which the finding occurred; None for the path that the example inputs take.
    """
    changed: tuple[str, ...] = ()
    """Inputs that must differ between the calls of the script, if the finding is a forecast of
    recompiles; otherwise empty."""


@dataclass(frozen=True)
class ReproProgress:
    """Event: the progress of a ``Reproduce`` request.

    ``lines`` is the number of code lines of the smallest program that shows the finding so far, 0
    without one. ``tried`` is the number of programs executed. ``seconds`` is the time since the
    request.
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
    ``lines`` is the number of its lines of code, without the header and blank lines. ``notes`` are
    remarks for the reader, such as on remaining imports. ``data`` names the files with tensor
    contents that the script loads from the folder of the request.
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

    If no script is verified, ``reason`` is a sentence with the reason and the next step; otherwise
    it is empty.
    """

    request: int
    seconds: float
    tried: int
    verified: bool
    reason: str = ""
    cancelled: bool = False
