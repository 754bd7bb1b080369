"""What crosses the pipe about repros: small scripts that show one finding with torch alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, Union

from .paths import TracePath
from .places import Range
from .runs import RunId

ReproStage = Literal["looking", "reducing", "verifying"]
"""Looking for a program that shows the finding, making it smaller, running it in a fresh Python."""

DATA = "data"
"""The folder beside a script that has the contents of its tensors."""

Backend = Literal["", "eager", "aot_eager", "inductor"]
"""What is offered to compile graphs; empty where a finding is about the tracer alone."""


def data_name(content: bytes | memoryview) -> str:
    """What a file in that folder is called, by what is in it."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


@dataclass(frozen=True)
class Wanted:
    """The finding to reproduce, as it was told.

    Where no ``backend`` is given, ``code`` and ``range`` name a finding of ``target``. With one,
    which may be any that is registered once the file was executed, ``code`` and ``range`` say
    nothing: the graphs of the target are compiled by it, and what is wanted is that this fails, or,
    with ``accuracy``, gives numbers that are further from those in double precision than rounding
    explains. ``only_floating``: results that are no floating-point numbers are not compared.
    """

    code: str
    range: Range
    target: str
    run: Union[RunId, None] = None
    message: str = ""
    real: bool = False
    """It was found with real tensors: with fake ones it need not be looked for."""
    backend: str = ""
    accuracy: bool = False
    only_floating: bool = False
    data: bool = False
    """Tensors keep their contents, also where random ones show the same."""
    path: Union[TracePath, None] = None
    """The path that it was found on."""
    changed: tuple[str, ...] = ()
    """Of a forecast: the inputs that differ between the calls."""


@dataclass(frozen=True)
class ReproProgress:
    """How far it is. ``lines`` are those of code in the best program so far, 0 while none is
    known; ``tried`` counts the programs that were run; ``seconds`` since the request."""

    request: int
    stage: ReproStage
    lines: int
    tried: int
    seconds: float


@dataclass(frozen=True)
class ReproFound:
    """A script that shows the finding; a later one of the same request replaces it.

    ``verified``: it was run in a fresh Python and has exited 1; ``output`` is what it printed
    there. ``lines`` are its lines of code, without its header and blank lines. ``notes`` say what
    a reader should know: what is still imported, that no smaller one was verified. ``data`` names
    the files that it loads, which by then are in the folder that the request names.
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
    """Last event of a request that began to look. ``reason`` says in one sentence why there is no
    verified script, with the next step; empty if there is one."""

    request: int
    seconds: float
    tried: int
    verified: bool
    reason: str = ""
    cancelled: bool = False
