"""Whether a program shows the finding that is wanted: it is executed, and the tracer watched."""

from __future__ import annotations

import gc
import linecache
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

from ... import tracing
from ...findings.places import SourceText
from ...protocol import Finding
from ...targets import rng
from ...torch_internals import dynamo
from ...tracing import drive, recorder
from ...tracing.recording import Failure, Recording
from .check import Check, assembled
from .finding_signature import FindingSignature, own_names
from .observed_findings import findings_of

PATH = "/repro.py"
"""Where a program that is tried says that it is."""


def here() -> str:
    """The file that a program takes itself for: data lies beside it, in the current folder."""
    return os.path.abspath(os.path.basename(PATH))  # noqa: PTH100, PTH119


@dataclass(frozen=True)
class Verdict:
    """``reason`` says what was seen instead, in a few words."""

    interesting: bool
    reason: str = ""


@dataclass(frozen=True)
class Requirement:
    """What a program has to show.

    ``loose``: details of the reason may differ, as for the first program that is written for what
    was seen in another file. ``fake``: it is executed on tensors without data. ``raises``: it may
    end with an exception, as what it is made from does. ``times``: how often it has to be there.
    """

    signature: FindingSignature
    check: Check
    own: frozenset[str] = frozenset()
    loose: bool = False
    fake: bool = False
    raises: bool = True
    times: int = 1


@dataclass(frozen=True)
class Shown:
    """The finding in a program: its signature there, and whether the program raises something."""

    signature: FindingSignature
    raises: bool


def judge(program: str, wish: Requirement) -> tuple[Verdict, Shown | None]:
    """Execute a program in this process, which is spent by it; how it shows what is wanted.

    Nothing that the program raises passes through.
    """
    try:
        text = assembled(program, wish.check)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(text, PATH, "exec")
    except (SyntaxError, ValueError, RecursionError, IndexError) as error:
        return Verdict(False, f"no Python: {error}"), None
    linecache.cache[PATH] = (len(text), None, text.splitlines(keepends=True), PATH)
    recording, status = _executed(code, wish.fake)
    source = SourceText(PATH, text)
    own = wish.own | own_names(program)
    failure = recording.failure
    if failure is not None and not wish.raises:
        return Verdict(False, f"it raises {failure.kind}"), None
    seen: list[str] = []
    left = wish.times
    for finding in _safely(recording, source):
        signature = FindingSignature.of(finding)
        alike = signature.resembles if wish.loose else signature.equals
        if alike(wish.signature, own):
            left -= 1
            if left > 0:
                continue
            if status == 1:
                return Verdict(True), Shown(signature, failure is not None)
            return Verdict(False, f"the check of the script exits {status}"), None
        seen.append(finding.code)
    return Verdict(False, ", ".join(dict.fromkeys(seen)) or "nothing was found"), None


def _safely(recording: Recording, source: SourceText) -> Iterator[Finding]:
    try:
        yield from findings_of(recording, source)
    except Exception:  # a program may break what describes it
        return


def _executed(code: CodeType, fake: bool) -> tuple[Recording, Any]:
    """What the tracer did, and the status with which the script wants to exit."""
    drive.install_hooks()
    rng.seed_generators()
    dynamo.counters.clear()
    status: Any = None
    namespace: dict[str, Any] = {
        "__name__": "__main__",
        "__file__": here(),
        "__loader__": SourceFileLoader("__main__", here()),  # Dynamo looks at globals, too
    }
    watch = recorder.Recorder(_execute.__code__)
    gc.disable()  # this process lives too short for it
    with tracing.tensor_mode(fake), watch.listen() as recording:
        try:
            _execute(code, namespace)
        except SystemExit as leaving:
            status = int(leaving.code) if isinstance(leaving.code, (bool, int)) else leaving.code
            recording.failure = _failure(leaving.__context__)
        except BaseException as error:
            recording.failure = _failure(error)
    return recording, status


def _failure(error: BaseException | None) -> Failure | None:
    if error is None:
        return None
    try:
        return drive.failure_of(error)
    except Exception:  # an exception of the program's that cannot be described
        return None


def _execute(code: CodeType, namespace: dict[str, Any]) -> None:
    exec(code, namespace)
